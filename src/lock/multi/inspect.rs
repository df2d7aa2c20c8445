//! What several locks as one say of themselves.

use std::time::Duration;

use futures::future::join_all;

use super::MultiLock;
use crate::error::Error;
use crate::lock::{Holder, Lock};

impl MultiLock {
    pub(crate) async fn is_locked(&self) -> Result<bool, Error> {
        let seen = self.of_enough(Lock::is_locked).await?;
        Ok(self.in_the_way(seen.iter().filter(|locked| **locked).count(), seen.len()))
    }

    /// So many of those that were seen are locked that the others do not suffice.
    pub(super) fn in_the_way(&self, locked: usize, seen: usize) -> bool {
        seen - locked < self.need
    }

    pub(crate) async fn hold_count(&self) -> Result<u64, Error> {
        let mut seen = self.of_enough(Lock::hold_count).await?;
        seen.sort_unstable_by(|one, other| other.cmp(one));
        Ok(seen.get(self.need - 1).copied().unwrap_or(0))
    }

    pub(crate) async fn remaining_lease(&self) -> Result<Option<Duration>, Error> {
        let seen = self.of_enough(Lock::remaining_lease).await?;
        let all = seen.len();
        let mut held: Vec<_> = seen.into_iter().flatten().collect();
        held.sort_unstable_by(|one, other| other.cmp(one));
        // That of the last one that its holder needs.
        let last = self.need.min(held.len());
        Ok(if self.in_the_way(held.len(), all) { held.get(last - 1).copied() } else { None })
    }

    pub(crate) async fn holder(&self) -> Result<Option<Holder>, Error> {
        let seen = self.of_enough(Lock::holder).await?;
        let all = seen.len();
        let mut holders: Vec<_> = seen.into_iter().flatten().collect();
        Ok(self.in_the_way(holders.len(), all).then(|| holders.swap_remove(0)))
    }

    pub(crate) async fn force_unlock(&self) -> Result<bool, Error> {
        let seen = self.of_enough(Lock::force_unlock).await?;
        Ok(seen.contains(&true))
    }

    /// What the members say, if enough of them say something.
    async fn of_enough<'a, T, F>(&'a self, ask: impl Fn(&'a Lock) -> F) -> Result<Vec<T>, Error>
    where
        F: Future<Output = Result<T, Error>>,
    {
        if let Some(fault) = &self.fault {
            return Err(Error::Config(fault.clone()));
        }
        let (mut seen, mut first_error) = (Vec::new(), None);
        for answer in join_all(self.members.iter().map(|member| Box::pin(ask(member)))).await {
            match answer {
                Ok(answer) => seen.push(answer),
                Err(error) => drop(first_error.get_or_insert(error)),
            }
        }
        match first_error {
            Some(error) if seen.len() < self.need => Err(error),
            _ => Ok(seen),
        }
    }
}
