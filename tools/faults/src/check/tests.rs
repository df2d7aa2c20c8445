//! Small histories by hand: for each rule one that must be found, and its nearest neighbour that must not be.

mod actors;
mod driver;
mod excuses;
mod holds;
mod idle;
mod losses;
mod met;
mod order;
mod overlaps;
mod random;
mod renewals;
mod tokens;
mod told;
mod waits;
