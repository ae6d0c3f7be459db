//! The way in for a person on the node: one Unix socket, JSON lines, root only; and the single-instance lock.
//!
//! Invariant: whatever arrives on the socket, the decision loop is handed only valid requests, through a
//! bounded queue, and no connection outlives its deadlines.

pub mod client;
pub mod diagnosis;
pub mod lock;
pub mod protocol;
pub mod recent;
pub mod report;
pub mod server;

/// The socket of the running daemon.
pub const CONTROL_SOCKET: &str = "/run/fip-watchdog/control.sock";

/// The lock of the running daemon.
pub const LOCK_FILE: &str = "/run/fip-watchdog/lock";
