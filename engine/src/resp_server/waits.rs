//! WAIT: a connection that waits for copies of its writes runs nothing else.

use std::time::Duration;

use tokio::time::Instant;

use crate::commands::Words;
use crate::number::parse_int;

pub(super) const NO_INTEGER: &str = "ERR value is not an integer or out of range";

/// What a connection waits for.
#[derive(Clone, Copy)]
pub(super) struct Wait {
    replicas: i64,
    /// `None`: for ever.
    pub(super) until: Option<Instant>,
}

impl Wait {
    pub(super) fn of(words: Words<'_>) -> Result<Self, &'static str> {
        let numbers: Option<Vec<_>> = words[1..].iter().map(|word| parse_int(word)).collect();
        let [replicas, timeout_ms] = *numbers.ok_or(NO_INTEGER)? else {
            return Err(NO_INTEGER);
        };
        let timeout_ms = u64::try_from(timeout_ms).map_err(|_| "ERR timeout is negative")?;
        let until = (timeout_ms > 0).then(|| Instant::now() + Duration::from_millis(timeout_ms));
        Ok(Wait { replicas, until })
    }

    pub(super) fn is_over(&self, replicas: u32) -> bool {
        i64::from(replicas) >= self.replicas
            || self.until.is_some_and(|until| until <= Instant::now())
    }
}
