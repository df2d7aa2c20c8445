//! A client of raw bytes: the answers of the server, and the effects of its faults.

mod answers;
mod breaks;
mod faults;
mod raw;
mod seeds;

use raw::{Raw, settle};

use super::{ConnectionControl, LinkControl};
use crate::{Direction, Engine, Faults};
