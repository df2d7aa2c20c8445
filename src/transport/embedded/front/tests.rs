//! A client of raw bytes: what the front answers, and what its faults do.

mod answers;
mod breaks;
mod clients;
mod faults;
mod raw;
mod seeds;

use raw::{Raw, settle};

use super::{ByteControl, ByteFaults, ConnectionControl, Direction};
use crate::transport::embedded::EmbeddedRedis;
