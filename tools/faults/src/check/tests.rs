//! Small handwritten histories. For each rule there is one that breaks it, and the most similar one
//! that does not.

mod actors;
mod coverage;
mod driver;
mod excuses;
mod holds;
mod idle;
mod losses;
mod notice;
mod order;
mod overlaps;
mod random;
mod renewals;
mod tokens;
mod waits;
