//! A simulated cluster: processes, a bucket with the register, and a store with a fence. Tests
//! choose the order of all actions, so that requests are slow, lost or late, and processes pause.

mod invariants;
mod model;
mod node;
mod random;
mod setup;
mod world;
