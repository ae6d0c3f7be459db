//! Who else claims the FIP: a packet socket that is read without waiting.
//!
//! Nothing is woken by it: the kernel keeps the few packets that pass the filter until the next round looks.
//! Dropping it closes the socket on a blocking thread, because a close waits for an RCU grace period.

use std::io::{self, Read as _};
use std::net::Ipv4Addr;

use super::socket::{ArpPort, BUFFER, is_no_packet};
use super::{ArpError, Mac, packet};

/// Packets that one look takes at most. What is left waits, in a queue that the kernel bounds.
const READ_MAX: usize = 16;

/// Listens on one interface.
#[derive(Debug)]
pub struct ClaimListener {
    port: Option<ArpPort>,
    fip: Ipv4Addr,
}

impl ClaimListener {
    /// Begins to listen.
    ///
    /// # Errors
    /// No packet socket, no such interface, or it is not Ethernet.
    pub fn open(interface: &str, fip: Ipv4Addr) -> Result<Self, ArpError> {
        let port = ArpPort::open(interface, fip)?;
        port.socket.set_nonblocking(true).map_err(|source| ArpError {
            act: "listen without waiting",
            interface: interface.to_owned(),
            source,
        })?;
        Ok(Self { port: Some(port), fip })
    }

    /// The last station other than this node that has claimed the FIP since the last look.
    ///
    /// # Errors
    /// The socket is of no more use: the interface went down or away.
    pub fn last_claim(&self) -> io::Result<Option<Mac>> {
        let Some(port) = &self.port else { return Ok(None) };
        let mut last = None;
        let mut buffer = [0; BUFFER];
        for _ in 0..READ_MAX {
            match (&port.socket).read(&mut buffer) {
                Ok(length) => {
                    let heard = buffer.get(..length).unwrap_or(&buffer);
                    last = port.other_claimant(heard, self.fip).or(last);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if is_no_packet(&error) => return Ok(last),
                Err(error) => return Err(error),
            }
        }
        Ok(last)
    }

    /// Asks who has the FIP, by a probe (RFC 5227 section 2.1.1), which touches no cache. A full send queue is no fault: it
    /// is asked again.
    ///
    /// # Errors
    /// As [`last_claim`](Self::last_claim).
    pub fn ask(&self) -> io::Result<()> {
        let Some(port) = &self.port else { return Ok(()) };
        match port.send(&packet::probe(port.own, self.fip)) {
            Err(error) if !is_no_packet(&error) => Err(error),
            Ok(()) | Err(_) => Ok(()),
        }
    }
}

impl Drop for ClaimListener {
    fn drop(&mut self) {
        let port = self.port.take();
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            drop(runtime.spawn_blocking(move || drop(port)));
        }
    }
}
