//! The ARP wire: is anybody answering for the FIP, and "it is here now".
//!
//! For a step a packet socket lives for one operation only: interface index and MAC may change between two. The
//! conflict sense keeps one while the FIP is here; a filter in the kernel lets through claims of the FIP alone. Probes are those of RFC 5227 section
//! 2.1 (sender address 0, so no cache is touched), announcements those of section 2.3, followed by
//! the reply form, which some routers want.
//!
//! Another node's *probe* for the FIP is not an answer: two probing watchdogs must not frighten each
//! other off; which of them may act is decided by the proof of leadership alone.
//!
//! Cancel-safe: a dropped operation ends on its own thread, within its bound, and closes its socket there.

mod filter;
mod listener;
mod own;
mod packet;
mod sockaddr;
mod socket;

use std::future::Future;
use std::net::Ipv4Addr;
use std::time::Duration;

pub use listener::ClaimListener;
pub use socket::PacketWire;

/// An Ethernet address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mac(pub [u8; 6]);

impl std::fmt::Display for Mac {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

/// What a duplicate probe heard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProbeOutcome {
    /// Nobody answered in time. No proof that nobody has the address: a cut-off holder is silent.
    Silent,
    /// A station other than this one has the address.
    Answered {
        /// Its MAC.
        mac: Mac,
    },
}

/// Why nothing could be asked or said.
#[derive(Debug, thiserror::Error)]
#[error("cannot {act} on {interface}")]
pub struct ArpError {
    /// What was tried: `open a packet socket`.
    pub act: &'static str,
    /// The interface.
    pub interface: String,
    /// The kernel's words.
    #[source]
    pub source: std::io::Error,
}

/// Whoever can speak ARP. A trait so that a simulation can take the wire's place.
pub trait ArpWire: Send + Sync {
    /// Send three probes for `fip` spread over `wait`; return at the first answer, or after `wait`.
    fn probe(
        &self,
        interface: &str,
        fip: Ipv4Addr,
        wait: Duration,
    ) -> impl Future<Output = Result<ProbeOutcome, ArpError>> + Send;

    /// Announce once, by broadcast, that `fip` is at this interface's MAC.
    fn announce(&self, interface: &str, fip: Ipv4Addr) -> impl Future<Output = Result<(), ArpError>> + Send;
}
