//! The loop that joins senses, decision and hands, and the clock.

pub mod clock;
pub mod sd_notify;
pub mod telemetry;
