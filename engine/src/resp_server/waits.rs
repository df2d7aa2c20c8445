//! WAIT and WAITAOF: a connection that waits for copies of its writes runs nothing else.

use std::time::Duration;

use tokio::time::Instant;

use crate::commands::Words;
use crate::number::parse_int;
use crate::reply::Reply;

pub(super) const NO_INTEGER: &str = "ERR value is not an integer or out of range";

/// What a connection waits for.
#[derive(Clone, Copy)]
pub(super) struct Wait {
    replicas: i64,
    /// WAITAOF: the copies on the disk of the primary. It always has one.
    on_primary: Option<i64>,
    /// `None`: for ever.
    pub(super) until: Option<Instant>,
}

impl Wait {
    pub(super) fn of(words: Words<'_>) -> Result<Self, &'static str> {
        let numbers: Option<Vec<_>> = words[1..].iter().map(|word| parse_int(word)).collect();
        let (on_primary, replicas, timeout_ms) = match *numbers.ok_or(NO_INTEGER)? {
            [replicas, timeout_ms] => (None, replicas, timeout_ms),
            [on_primary, replicas, timeout_ms] => (Some(on_primary), replicas, timeout_ms),
            _ => return Err(NO_INTEGER),
        };
        let timeout_ms = u64::try_from(timeout_ms).map_err(|_| "ERR timeout is negative")?;
        let until = (timeout_ms > 0).then(|| Instant::now() + Duration::from_millis(timeout_ms));
        Ok(Wait {
            replicas,
            on_primary,
            until,
        })
    }

    pub(super) fn is_over(&self, replicas: u32) -> bool {
        i64::from(replicas) >= self.replicas
            || self.until.is_some_and(|until| until <= Instant::now())
    }

    pub(super) fn reply(&self, replicas: u32) -> Reply {
        let replicas = Reply::Int(replicas.into());
        match self.on_primary {
            None => replicas,
            Some(_) => Reply::Array(vec![Ok(Reply::Int(1)), Ok(replicas)]),
        }
    }
}
