//! The state of several locks as one: the combined answers of the members.

use std::time::Duration;

use futures_util::future::join_all;

use super::MultiLock;
use crate::error::Error;
use crate::holder::Holder;
use crate::lock::Lock;

impl MultiLock {
    pub(crate) async fn is_locked(&self) -> Result<bool, Error> {
        let seen = self.ask_members(Lock::is_locked).await?;
        Ok(self.is_blocked(seen.iter().filter(|locked| **locked).count(), seen.len()))
    }

    /// Whether too few of the members that answered are free.
    pub(super) fn is_blocked(&self, locked: usize, answered: usize) -> bool {
        answered - locked < self.required
    }

    pub(crate) async fn remaining_lease(&self) -> Result<Option<Duration>, Error> {
        let seen = self.ask_members(Lock::remaining_lease).await?;
        let all = seen.len();
        let mut held: Vec<_> = seen.into_iter().flatten().collect();
        held.sort_unstable_by(|left, right| right.cmp(left));
        // A holder loses the set with the shortest lease among the members that it needs.
        let last = self.required.min(held.len());
        Ok(if self.is_blocked(held.len(), all) {
            held.get(last - 1).copied()
        } else {
            None
        })
    }

    pub(crate) async fn holder(&self) -> Result<Option<Holder>, Error> {
        let seen = self.ask_members(Lock::holder).await?;
        let all = seen.len();
        let holders: Vec<_> = seen.into_iter().flatten().collect();
        if !self.is_blocked(holders.len(), all) {
            return Ok(None);
        }
        // A re-entry may have left out members that it did not need.
        let mut counts: Vec<_> = holders.iter().map(|holder| holder.holds).collect();
        counts.sort_unstable_by(|left, right| right.cmp(left));
        let agreed = counts.into_iter().take(self.required).next_back();
        Ok(holders
            .into_iter()
            .find(|holder| Some(holder.holds) == agreed))
    }

    pub(crate) async fn force_unlock(&self, reason: &str) -> Result<bool, Error> {
        let seen = self.ask_members(|lock| lock.force_unlock(reason)).await?;
        Ok(seen.contains(&true))
    }

    /// The answers of the members, if enough of them answer.
    async fn ask_members<'a, T, F>(&'a self, ask: impl Fn(&'a Lock) -> F) -> Result<Vec<T>, Error>
    where
        F: Future<Output = Result<T, Error>>,
    {
        self.check()?;
        let (mut seen, mut first_error) = (Vec::new(), None);
        for answer in join_all(self.members.iter().map(|member| Box::pin(ask(member)))).await {
            match answer {
                Ok(answer) => seen.push(answer),
                Err(error) => drop(first_error.get_or_insert(error)),
            }
        }
        match first_error {
            Some(error) if seen.len() < self.required => Err(error),
            _ => Ok(seen),
        }
    }
}
