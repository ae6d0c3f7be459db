//! The decision core: pure, total, small.
//!
//! No clock, no file, no socket, no tracing in here (`tests/tidy.rs` keeps it so): an
//! [`Observation`](observation::Observation) and a [`Moment`](time::Moment) go in, a decision comes out.

pub mod api;
pub mod budget;
pub mod certificate;
mod content;
pub mod curl;
pub mod facts;
pub mod guard;
pub mod judge;
pub mod machine;
pub mod observation;
pub mod plan;
pub mod reasons;
mod rounds;
pub mod safety;
pub mod step;
mod terms;
pub mod time;
mod upkeep;
pub mod verdict;
