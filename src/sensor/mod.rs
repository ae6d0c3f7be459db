//! The senses: one file each, from the world to a [`Reading`](crate::decision::observation::Reading).

pub mod heartbeat;
pub mod process;
