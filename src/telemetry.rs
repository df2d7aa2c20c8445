//! What a client reports to tracers and exporters, with the features `tracing` and `metrics`.
//!
//! Without a listener, a call only checks a flag or two. Without both features there is never a
//! listener.
//!
//! | file | what it is |
//! | --- | --- |
//! | `observer` | reports an acquisition or a hold |
//! | `meters`, or `no_meters` | the metrics |
//! | `recorder`, or `no_recorder` | whether there is a recorder for metrics |
//! | `spans`, or `no_spans` | the spans and events |
//! | `oldest`, or `no_oldest` | how long the oldest acquisition, hold and outage have lasted |
//! | `subject` | the lock that a metric or span is about |
//! | `metric` | the name, type, unit and help of every metric |
//! | `counter` | a counter of `Stats`, which is also a metric |

mod counter;
#[cfg_attr(not(feature = "metrics"), path = "telemetry/no_meters.rs")]
mod meters;
#[cfg(feature = "metrics")]
mod metric;
mod observer;
#[cfg_attr(not(feature = "metrics"), path = "telemetry/no_oldest.rs")]
mod oldest;
#[cfg_attr(not(feature = "metrics"), path = "telemetry/no_recorder.rs")]
mod recorder;
#[cfg_attr(not(feature = "tracing"), path = "telemetry/no_spans.rs")]
mod spans;
mod subject;

pub(crate) use counter::Counter;
#[cfg(feature = "metrics")]
pub(crate) use meters::{NameLabel, describe};
pub(crate) use observer::{
    Acquisition, Holding, Telemetry, connection_lost, left_behind, reconnected,
};
pub(crate) use oldest::Gauges;
