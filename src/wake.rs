//! What wakes waiters.

/// What wakes the waiters of a client.
///
/// # Examples
///
/// ```
/// use leasehold::Client;
/// use leasehold::settings::Wake;
///
/// let builder = Client::builder("redis://proxy.example").wake(Wake::Poll);
/// # let _ = builder;
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Wake {
    /// The message that each release publishes. If the server does not know `SUBSCRIBE`, the
    /// waiters poll from then on.
    #[default]
    Messages,
    /// Polls only. A waiter asks first after 5 to 10 ms, then less and less often, and in the end
    /// about once in [`safety_poll`](crate::ClientBuilder::safety_poll). It also asks when the
    /// lease of the current holder ends. No channel is subscribed.
    ///
    /// Use it behind proxies that drop messages without saying so. A waiter learns of a release up
    /// to one such pause later, and of a hold that was ended by force at its next renewal. Each
    /// name that a client waits for costs a call per pause, and so does each waiter of a fair lock.
    Poll,
}
