//! Small histories by hand: for each rule one that must be found, and its nearest neighbour that must not be.

mod actors;
mod driver;
mod holds;
mod idle;
mod order;
mod overlaps;
mod random;
mod tokens;
mod waits;
