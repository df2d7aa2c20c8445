//! Jobs of tokio-cron-scheduler.

use std::sync::Arc;
use std::time::SystemTime;

use chrono::{SubsecRound as _, Utc};
use croner::parser::{CronParser, Seconds};
use tokio_cron_scheduler::{Job, JobSchedulerError};

/// Makes a job of `tokio-cron-scheduler` that is given its tick, for [`Once`](crate::Once).
///
/// The tick is the latest time of the schedule that this instance's clock has reached, in UTC. The
/// scheduler itself does not tell a job for which time it runs. If a scheduler lags behind by more
/// than a period, it leaves a tick out.
///
/// The schedule has seconds: `0 0 3 * * *` is 03:00:00 each day.
///
/// # Errors
///
/// [`JobSchedulerError::ParseSchedule`].
///
/// # Examples
///
/// ```
/// use leasehold::{Client, Error};
/// use leasehold_once::{Once, job};
/// use tokio_cron_scheduler::JobScheduler;
///
/// # async fn send_invoices() {}
/// # async fn example(client: Client) -> Result<(), Box<dyn std::error::Error>> {
/// let once = Once::new(&client, "invoices");
/// let nightly = job("0 0 3 * * *", move |tick| {
///     let once = once.clone();
///     async move {
///         match once.at_most(tick, send_invoices).await {
///             Ok(ran) => println!("{ran:?}"),
///             Err(error) => println!("not run: {error}"),
///         }
///     }
/// })?;
/// let scheduler = JobScheduler::new().await?;
/// scheduler.add(nightly).await?;
/// scheduler.start().await?;
/// # Ok(())
/// # }
/// ```
pub fn job<W>(
    schedule: &str,
    mut run: impl FnMut(SystemTime) -> W + Send + Sync + 'static,
) -> Result<Job, JobSchedulerError>
where
    W: Future<Output = ()> + Send + 'static,
{
    // As the scheduler itself parses it.
    let parser = CronParser::builder()
        .seconds(Seconds::Required)
        .dom_and_dow(true)
        .build();
    let parsed = parser
        .parse(schedule)
        .map_err(|_| JobSchedulerError::ParseSchedule)?;
    let parsed = Arc::new(parsed);
    Job::new_async(schedule, move |_id, _scheduler| {
        // The parser keeps fractions of a second, and instances would not agree on them.
        let now = Utc::now().trunc_subsecs(0);
        match parsed.find_previous_occurrence(&now, true) {
            Ok(tick) => Box::pin(run(tick.into())),
            // Before its first time, which is not when it is called.
            Err(_) => Box::pin(std::future::ready(())),
        }
    })
}
