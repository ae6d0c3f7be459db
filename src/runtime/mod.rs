//! The loop that joins senses, decision and hands, and the clock.

mod answer;
pub mod attend;
pub(crate) mod child;
pub mod clock;
mod diagnosing;
mod examination;
pub mod executor;
mod farewell;
pub mod gap;
mod hands;
pub mod known_good;
pub mod ledger;
pub mod offload;
pub mod pause;
pub mod remembered;
pub mod sd_notify;
pub mod senses;
pub mod sharing;
pub mod signals;
pub(crate) mod small_file;
pub mod spoken;
pub mod startup;
pub mod stderr;
pub mod supervisor;
pub mod telemetry;
mod trouble;
pub mod world;
