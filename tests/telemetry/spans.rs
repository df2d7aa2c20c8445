//! Spans and events of a known run.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::future::ready;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use leasehold::{EmbeddedRedis, Lease, blocking};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Subscriber};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt as _};
use tracing_subscriber::registry::LookupSpan;

use crate::recorded::Exporter;

type Fields = BTreeMap<String, String>;

/// The closed spans and the events, each with its fields.
#[derive(Clone, Default)]
struct Seen(Arc<Mutex<Vec<(String, Fields)>>>);

struct Reading<'a>(&'a mut Fields);

impl Visit for Reading<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.0.insert(
            field.name().to_owned(),
            format!("{value:?}").trim_matches('"').to_owned(),
        );
    }
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Seen {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let mut fields = Fields::new();
        attributes.record(&mut Reading(&mut fields));
        context.span(id).unwrap().extensions_mut().insert(fields);
    }

    fn on_record(&self, id: &Id, record: &Record<'_>, context: Context<'_, S>) {
        let span = context.span(id).unwrap();
        let mut extensions = span.extensions_mut();
        record.record(&mut Reading(extensions.get_mut::<Fields>().unwrap()));
    }

    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let mut fields = Fields::new();
        event.record(&mut Reading(&mut fields));
        let text = fields.remove("message").unwrap();
        self.0.lock().unwrap().push((text, fields));
    }

    fn on_close(&self, id: Id, context: Context<'_, S>) {
        let span = context.span(&id).unwrap();
        let fields = span.extensions_mut().remove::<Fields>().unwrap();
        self.0
            .lock()
            .unwrap()
            .push((span.name().to_owned(), fields));
    }
}

impl Seen {
    fn of(&self, what: &str) -> Vec<Fields> {
        let all = self.0.lock().unwrap();
        all.iter()
            .filter(|(name, _)| name == what)
            .map(|(_, fields)| fields.clone())
            .collect()
    }
}

fn values<'a>(all: &'a [Fields], field: &str) -> Vec<&'a str> {
    all.iter()
        .map(|fields| fields.get(field).map_or("", String::as_str))
        .collect()
}

#[tokio::test(start_paused = true)]
async fn spans_and_events_report_what_happened() {
    // No other test records metrics at the same time.
    let _alone = Exporter::start().await;
    let seen = Seen::default();
    let subscriber = tracing_subscriber::registry().with(seen.clone());
    let _default = tracing::subscriber::set_default(subscriber);
    let redis = EmbeddedRedis::new();
    let client = redis.client();
    let lock = client.lock("orders:42");

    let guard = lock.lock().await.unwrap();
    let wait = Duration::from_millis(50);
    lock.try_lock(wait, Lease::Renewed).await.unwrap_err();
    guard.unlock().await.unwrap();
    let guard = lock.lock().await.unwrap();
    assert!(redis.lose("orders:42"));
    guard.ended().await;
    drop(guard);
    client.shutdown(Duration::from_secs(5)).await.unwrap();
    drop((lock, client));

    let acquired = seen.of("leasehold.acquire");
    assert_eq!(
        values(&acquired, "outcome"),
        ["acquired", "timeout", "acquired"]
    );
    assert_eq!(values(&acquired, "error.type"), ["", "timeout", ""]);
    assert_eq!(values(&acquired, "lock.name"), ["orders:42"; 3]);
    assert_eq!(values(&acquired, "lock.kind"), ["lock"; 3]);
    assert_eq!(values(&acquired, "handed_over"), ["false"; 3]);
    assert_eq!(values(&acquired, "wait"), ["0.0", "0.05", "0.0"]);
    let held = seen.of("leasehold.hold");
    assert_eq!(values(&held, "end"), ["released", "gone"]);
    let released = seen.of("leasehold.release");
    assert_eq!(values(&released, "outcome"), ["released"]);
    let lost = seen.of("the lock was lost");
    assert_eq!(values(&lost, "reason"), ["gone"]);
    assert_eq!(values(&lost, "lock.name"), ["orders:42"]);
}

/// Made outside a runtime, the client has a thread, as on a server.
#[test]
fn the_last_drop_says_how_many_releases_are_not_confirmed() {
    let seen = Seen::default();
    let subscriber = tracing_subscriber::registry().with(seen.clone());
    let _default = tracing::subscriber::set_default(subscriber);
    let what = "the client was dropped before Redis had confirmed all releases: if the process \
                ends now, some locks may stay until their leases end";
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let _alone = runtime.block_on(Exporter::start());
    let mut left_behind = 0;
    for (pauses, of_threads) in [(false, false), (true, false), (false, true), (true, true)] {
        let redis = EmbeddedRedis::new();
        let client = redis.client();
        let threads =
            of_threads.then(|| blocking::Client::connect(ready(Ok(client.clone()))).unwrap());
        let names = ["a", "b", "c", "d"].map(|name| client.lock(name));
        let guards = names.map(|lock| runtime.block_on(lock.lock()).unwrap());
        if pauses {
            redis.pause();
            left_behind += 1;
        }
        drop(guards);
        drop(client);
        drop(threads);
        let said = seen.of(what);
        assert_eq!(values(&said, "releases"), vec!["4"; left_behind]);
        assert_eq!(values(&said, "keys"), vec!["a, b, c"; left_behind]);
    }
}
