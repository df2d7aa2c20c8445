//! What a client reports to tracers and exporters, with the features `tracing` and `metrics`.
//!
//! Without both features, everything here is empty: types without size, calls without code. With the features
//! but without a listener, a call only checks a flag or two. `names.rs` has all names.
//!
//! | file | what it is |
//! | --- | --- |
//! | `told`, or `untold` | reports an acquisition or a hold, or does nothing |
//! | `meters`, or `no_meters` | the metrics |
//! | `recorder`, or `no_recorder` | whether there is a recorder for metrics |
//! | `spans`, or `no_spans` | the spans and events |
//! | `subject` | what metrics and spans are about |
//! | `names` | all names and their meaning |
//! | `counter` | a counter of `Stats`, which is also a metric |

mod counter;
#[cfg(any(feature = "metrics", feature = "tracing"))]
#[cfg_attr(not(feature = "metrics"), path = "telemetry/no_meters.rs")]
mod meters;
#[cfg(any(feature = "metrics", feature = "tracing"))]
mod names;
#[cfg(any(feature = "metrics", feature = "tracing"))]
#[cfg_attr(not(feature = "metrics"), path = "telemetry/no_recorder.rs")]
mod recorder;
#[cfg(any(feature = "metrics", feature = "tracing"))]
#[cfg_attr(not(feature = "tracing"), path = "telemetry/no_spans.rs")]
mod spans;
#[cfg(any(feature = "metrics", feature = "tracing"))]
mod subject;
#[cfg_attr(
    not(any(feature = "metrics", feature = "tracing")),
    path = "telemetry/untold.rs"
)]
mod told;

pub(crate) use counter::Counter;
#[cfg(feature = "metrics")]
pub(crate) use meters::{NameLabel, describe};
pub(crate) use told::{Acquisition, Holding, Telemetry, connection_lost, reconnected};
