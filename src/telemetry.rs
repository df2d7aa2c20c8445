//! What a client tells tracers and exporters, by the features `tracing` and `metrics`.
//!
//! Without both, everything here is empty: types without size, calls without code. With them, and nobody who listens, a
//! call is a look at a flag or two. `names.rs` has all names.
//!
//! | file | what it is |
//! | --- | --- |
//! | `told`, or `untold` | an acquisition and a hold as they are told, or nothing |
//! | `meters`, or `no_meters` | what becomes metrics of that |
//! | `recorder`, or `no_recorder` | whether there is somebody for metrics |
//! | `spans`, or `no_spans` | what becomes spans and events of it |
//! | `subject` | what those are told |
//! | `names` | the names of all of them, and what they mean |
//! | `counter` | a number of `Stats`, which is a metric, too |

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
#[cfg_attr(not(any(feature = "metrics", feature = "tracing")), path = "telemetry/untold.rs")]
mod told;

pub(crate) use counter::Counter;
#[cfg(feature = "metrics")]
pub(crate) use meters::{NameLabel, describe};
pub(crate) use told::{Acquisition, Holding, Telemetry, connection_lost, reconnected};
