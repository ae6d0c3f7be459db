//! The signals that mean something.
//!
//! Caught from the first moment on: a signal that arrives during the start must neither kill the daemon half way
//! through a recovery nor, as a hangup would, end it at all. Cancel-safe: a signal that was not taken waits.

use tokio::signal::unix::{Signal, SignalKind, signal};

/// `SIGTERM` and `SIGINT` ask for an end. `SIGHUP` asks for nothing, as the policy file is looked at anyway.
#[derive(Debug)]
pub struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hangup: Signal,
}

impl Signals {
    /// Catches them from now on. Needs a tokio runtime.
    ///
    /// # Errors
    /// The kernel does not let them be caught.
    pub fn new() -> std::io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hangup: signal(SignalKind::hangup())?,
        })
    }

    /// Waits for one that asks for an end; its name.
    pub async fn stop(&mut self) -> &'static str {
        loop {
            tokio::select! {
                _ = self.terminate.recv() => return "SIGTERM",
                _ = self.interrupt.recv() => return "SIGINT",
                _ = self.hangup.recv() => {}
            }
        }
    }
}
