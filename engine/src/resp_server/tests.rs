//! A client that sends raw bytes: the replies of the server, and the effects of faults.

mod answers;
mod breaks;
mod faults;
mod profiles;
mod raw;
mod resp2;
mod seeds;

use raw::{Raw, settle};

use super::{ConnectionControl, LinkControl};
use crate::{Direction, Engine, Faults};
