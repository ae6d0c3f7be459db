//! The hands: each step's preconditions, act, verification. They obey and decide nothing.

pub mod alias;
pub mod arp;
pub mod durable_fs;
pub mod journal;
pub mod manifest_cycle;
