//! Compiles and runs the Rust blocks of the README and of `docs/` as doc tests.

macro_rules! pages {
    ($($page:ident = $path:literal,)*) => {
        $(#[doc = include_str!(concat!("../", $path))]
        struct $page;)*
    };
}

pages! {
    Readme = "README.md",
    ComingFrom = "docs/coming-from.md",
    Fencing = "docs/fencing.md",
    ManagedServices = "docs/managed-services.md",
    Networks = "docs/networks.md",
    Operations = "docs/operations.md",
    Services = "docs/services.md",
    Testing = "docs/testing.md",
    WhatTheCompilerCannotSee = "docs/what-the-compiler-cannot-see.md",
}

/// The rows of `docs/what-the-compiler-cannot-see.md`: which form protects the lines after it.
///
/// ```rust
/// # async fn is_free<G: leasehold::Guard>(lock: &leasehold::Lock<G>) -> bool {
/// #     let wait = std::time::Duration::from_secs(1);
/// #     lock.try_lock(wait, leasehold::Lease::Renewed).await.is_ok()
/// # }
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), leasehold::Error> {
/// # use std::time::Duration;
/// # use leasehold::{EmbeddedRedis, Error, Lease};
/// # use tokio::task::JoinSet;
/// # let wait = Duration::from_secs(2);
/// let redis = EmbeddedRedis::new();
/// let lock = redis.client().lock("orders:42");
///
/// let _ = lock.lock().await?;
/// assert!(is_free(&lock).await); // nothing protects this line
/// if lock.try_lock_now(Lease::Renewed).await.is_ok() {
///     assert!(is_free(&lock).await); // nor this one
/// }
/// let Ok(_) = lock.lock().await else { panic!("it is free") };
/// assert!(is_free(&lock).await); // nor this one
///
/// if let Ok(_guard) = lock.try_lock_now(Lease::Renewed).await {
///     assert!(!is_free(&lock).await); // protected
/// }
/// let Ok(guard) = lock.lock().await else { panic!("it is free") };
/// assert!(!is_free(&lock).await); // protected
///
/// let again = lock.try_lock(wait, Lease::Renewed).await; // waits for its own release
/// let Err(Error::Timeout { in_the_way: Some(holder), .. }) = again else { panic!("it is held") };
/// assert!(holder.is_this_task);
/// guard.reenter().await?.unlock().await?; // no wait
/// let theirs = redis.client().lock("orders:42").try_lock_now(Lease::Renewed).await; // without `?`
/// assert!(theirs.is_err()); // and yet the code goes on
/// guard.unlock().await?;
///
/// let (seen, free) = tokio::sync::oneshot::channel();
/// let later = lock.clone();
/// lock.run(wait, Lease::Renewed, async |_guard| {
///     tokio::spawn(async move { seen.send(is_free(&later).await) });
/// })
/// .await?;
/// assert!(free.await.expect("it is sent")); // the task runs, and the lock is free
/// lock.run(wait, Lease::Renewed, async |_guard| {
///     let mut tasks = JoinSet::new(); // ends its tasks when it is dropped
///     let inside = lock.clone();
///     tasks.spawn(async move { is_free(&inside).await });
///     assert_eq!(tasks.join_all().await, [false]); // protected
/// })
/// .await?;
/// # Ok(())
/// # }
/// ```
struct Forms;
