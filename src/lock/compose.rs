//! Several locks as one lock: all of them, or a majority.

use super::many::Many;
use super::{Lock, Target};

impl Lock {
    /// Several locks as one: all of them or none.
    ///
    /// They may be of any kinds and of any clients. They are taken in one order, by key and then by
    /// the address of the server, whatever the order in which they are given, so that two owners of
    /// overlapping sets do not wait for each other; a failure releases exactly what was taken. Plain,
    /// spin, fenced, string and write locks of one client are asked for by one script call while all
    /// of them are free. There is one deadline for all; the guard is lost when one member is. A fixed
    /// lease begins when the last one is taken: members that waited for it are extended.
    ///
    /// If a member stays busy for about a second, everything is released, and that member is waited for
    /// first. So nobody keeps what it cannot use, a member with a long queue is taken in the end, and a
    /// program that takes such locks in another order (Redisson's `RMultiLock` keeps the given one) is
    /// given way.
    ///
    /// Refused at the first call: no members, or more than 1024; a member with a bad name; the same lock
    /// of one client twice, also within members that are several themselves; the same lock of two clients
    /// of one address, unless both read.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn example(client: leasehold::Client) -> Result<(), leasehold::Error> {
    /// use leasehold::Lock;
    ///
    /// let accounts = [client.lock("account:7"), client.fair_lock("account:9")];
    /// let both = Lock::multi(accounts);
    /// let guard = both.lock().await?;
    /// # guard.unlock().await
    /// # }
    /// ```
    pub fn multi(members: impl IntoIterator<Item = impl Into<Lock>>) -> Lock {
        let members = members.into_iter().map(Into::into).collect();
        Lock::of(Target::many(Many::all(members)))
    }

    /// A quorum lock (`RedLock`): held while a majority of its members is.
    ///
    /// Each member belongs on a server of its own, independent of the others: the lock survives the
    /// loss of a minority of them. All are asked at once, each for a small part of the lease only;
    /// it is granted if a majority agrees and validity is left, which is the lease less what the
    /// asking took and an allowance for clock drift (1 % and 2 ms). Otherwise everything is
    /// released, also where a reply was lost, and asked again after a random pause. Members are
    /// renewed one by one; the guard is lost when the deadline of the last needed member passes.
    ///
    /// The same lock of one client twice, one with a bad name, none at all, or more than 1024, are
    /// refused at the first call.
    ///
    /// String locks share it with redsync, node-redlock and others. `docs/guarantees.md` says what
    /// it does and does not give.
    ///
    /// # Errors
    ///
    /// Besides those of other locks, [`Error::Quorum`](crate::Error::Quorum) if too few servers answered within the wait.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn example(clients: [leasehold::Client; 3]) -> Result<(), leasehold::Error> {
    /// use leasehold::Lock;
    ///
    /// let lock = Lock::quorum(clients.iter().map(|client| client.string_lock("orders:42")));
    /// let guard = lock.lock().await?;
    /// # guard.unlock().await
    /// # }
    /// ```
    pub fn quorum(members: impl IntoIterator<Item = impl Into<Lock>>) -> Lock {
        let members = members.into_iter().map(Into::into).collect();
        Lock::of(Target::many(Many::majority(members)))
    }
}
