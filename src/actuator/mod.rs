//! The hands: each step's preconditions, act, verification. They obey and decide nothing.

pub mod alias;
pub mod arp;
