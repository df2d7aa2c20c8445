//! Workers of apalis.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, SystemTime};

use apalis_core::task::Task;
use apalis_cron::Tick;
use leasehold::Error;
use tower_layer::Layer;
use tower_service::Service;

use crate::{Once, Ran};

/// A layer for a worker of `apalis` whose tasks are ticks of `apalis-cron`: each tick runs once in
/// the fleet.
///
/// The worker's handler is called in one instance. The response is [`Ran`]. The tick is that of the
/// task, so it stays the scheduled time if ticks go through a queue, and in retries. A retry of a
/// failed task runs under [`at_least`](OnceLayer::at_least), and is [`Ran::Elsewhere`] under
/// [`at_most`](OnceLayer::at_most): its tick is claimed. Put layers for retries and time-outs
/// inside of this one where they shall count.
///
/// # Examples
///
/// ```
/// use apalis_core::{error::BoxDynError, worker::builder::WorkerBuilder};
/// use apalis_cron::{CronScheduler, Schedule, Tick, timezone::Utc};
/// use leasehold::Client;
/// use leasehold_once::{Once, OnceLayer};
///
/// # async fn example<S>(client: Client, nightly: S) -> Result<(), BoxDynError>
/// # where
/// #     S: Schedule<Utc> + Clone + Send + Sync + Unpin + 'static,
/// # {
/// async fn send_invoices(tick: Tick) -> Result<(), BoxDynError> {
///     println!("invoices of {}", tick.get_timestamp());
///     Ok(())
/// }
///
/// let worker = WorkerBuilder::new("invoices")
///     .backend(CronScheduler::new(nightly)) // a `cron::Schedule`, for example
///     .layer(OnceLayer::at_least(Once::new(&client, "invoices")))
///     .build(send_invoices);
/// worker.run().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct OnceLayer {
    once: Once,
    times: Times,
}

#[derive(Clone, Copy, Debug)]
enum Times {
    AtMost,
    AtLeast,
}

impl OnceLayer {
    /// See [`Once::at_most`].
    pub fn at_most(once: Once) -> Self {
        let times = Times::AtMost;
        OnceLayer { once, times }
    }

    /// See [`Once::at_least`]. The handler gets the tick; it does not get the fencing token.
    pub fn at_least(once: Once) -> Self {
        let times = Times::AtLeast;
        OnceLayer { once, times }
    }
}

impl<S> Layer<S> for OnceLayer {
    type Service = OnceService<S>;

    fn layer(&self, inner: S) -> OnceService<S> {
        let layer = self.clone();
        OnceService { inner, layer }
    }
}

/// A service behind a [`OnceLayer`].
#[derive(Clone, Debug)]
pub struct OnceService<S> {
    inner: S,
    layer: OnceLayer,
}

impl<S, Tz> Service<Task<Tick<Tz>>> for OnceService<S>
where
    S: Service<Task<Tick<Tz>>> + Clone + Send + 'static,
    S::Response: Send,
    S::Error: From<Error> + Send,
    S::Future: Send,
    Tz: Clone + Send + Sync + 'static,
{
    type Response = Ran<S::Response>;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, S::Error>> + Send>>;

    /// Always ready: the inner service is asked when its turn has come.
    fn poll_ready(&mut self, _context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, task: Task<Tick<Tz>>) -> Self::Future {
        let (inner, OnceLayer { once, times }) = (self.inner.clone(), self.layer.clone());
        let since = Duration::from_secs(task.args.get_timestamp());
        Box::pin(async move {
            let tick = SystemTime::UNIX_EPOCH + since;
            match times {
                Times::AtMost => match once.at_most(tick, || served(inner, task)).await? {
                    Ran::Here(response) => Ok(Ran::Here(response?)),
                    Ran::Elsewhere => Ok(Ran::Elsewhere),
                    Ran::Missed => Ok(Ran::Missed),
                },
                Times::AtLeast => {
                    let work = move |_token| served(inner.clone(), task.clone());
                    once.at_least(tick, work).await
                }
            }
        })
    }
}

async fn served<S: Service<R>, R>(mut service: S, request: R) -> Result<S::Response, S::Error> {
    poll_fn(|context| service.poll_ready(context)).await?;
    service.call(request).await
}
