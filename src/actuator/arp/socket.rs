//! ARP over an `AF_PACKET` datagram socket: the kernel builds the Ethernet header. Needs CAP_NET_RAW.
//!
//! Sending and listening run on a blocking thread with a bound, and the socket is closed there:
//! closing one waits for an RCU grace period, which is no business of the decision loop's thread.

use std::io::{self, Read};
use std::net::Ipv4Addr;
use std::time::Duration;

use rustix::net::netdevice::name_to_index;
use socket2::{Domain, Protocol, SockAddr, Socket, Type};
use tokio::sync::oneshot;

use super::own::Scout;
use super::packet::{self, LEN};
use super::{ArpError, ArpWire, Mac, ProbeOutcome, filter, sockaddr};
use crate::decision::time::Moment;
use crate::runtime::clock;

/// Probes of one call. One alone may be lost; more would only cost time.
const PROBES: u32 = 3;

/// The longest that one call may listen, whatever it was asked for.
const WAIT_MAX: Duration = Duration::from_secs(5);

/// Room for one ARP packet with Ethernet's padding; longer ones are cut off, and their head is enough.
pub(super) const BUFFER: usize = 128;

/// How long an announcement may wait for room in the send queue.
const SEND_DEADLINE: Duration = Duration::from_millis(500);

/// The real wire.
#[derive(Debug, Clone, Copy, Default)]
pub struct PacketWire;

impl ArpWire for PacketWire {
    async fn probe(&self, interface: &str, fip: Ipv4Addr, wait: Duration) -> Result<ProbeOutcome, ArpError> {
        let port = ArpPort::open(interface, fip)?;
        port.aside("probe for the FIP", interface, move |port| port.probe(fip, wait.min(WAIT_MAX))).await
    }

    async fn announce(&self, interface: &str, fip: Ipv4Addr) -> Result<(), ArpError> {
        let port = ArpPort::open(interface, fip)?;
        port.aside("announce the FIP", interface, move |port| port.announce(fip)).await
    }
}

fn fail(act: &'static str, interface: &str, source: io::Error) -> ArpError {
    ArpError { act, interface: interface.to_owned(), source }
}

/// A socket that speaks ARP on one interface, and hears who claims the FIP there.
#[derive(Debug)]
pub(super) struct ArpPort {
    pub(super) socket: Socket,
    pub(super) own: Mac,
    scout: Scout,
    everybody: SockAddr,
}

impl ArpPort {
    pub(super) fn open(interface: &str, fip: Ipv4Addr) -> Result<Self, ArpError> {
        // Protocol 0: nothing is delivered before the bind has named interface and protocol.
        let socket = Socket::new(Domain::PACKET, Type::DGRAM, Some(Protocol::from(0)))
            .map_err(|source| fail("open a packet socket", interface, source))?;
        socket.attach_filter(&filter::claims_of(fip)).map_err(|source| fail("filter a packet socket", interface, source))?;
        let index = name_to_index(&socket, interface)
            .map_err(io::Error::from)
            .and_then(|index| i32::try_from(index).map_err(io::Error::other))
            .map_err(|source| fail("find the interface index", interface, source))?;
        let everybody = sockaddr::arp_broadcast(index);
        socket.bind(&everybody).map_err(|source| fail("bind a packet socket", interface, source))?;
        let own = socket
            .local_addr()
            .and_then(|local| sockaddr::own_mac(&local).ok_or_else(|| io::Error::other("it is not an Ethernet interface")))
            .map_err(|source| fail("read the MAC", interface, source))?;
        socket.set_write_timeout(Some(SEND_DEADLINE)).map_err(|source| fail("set a send deadline", interface, source))?;
        let scout = Scout::open().map_err(|source| fail("open a packet socket", interface, source))?;
        Ok(Self { socket, own, scout, everybody })
    }

    /// Run bounded blocking work on a thread of its own. The answer does not wait for the socket's
    /// slow close.
    async fn aside<T: Send + 'static>(
        self,
        act: &'static str,
        interface: &str,
        work: impl FnOnce(&Self) -> io::Result<T> + Send + 'static,
    ) -> Result<T, ArpError> {
        let (answer, done) = oneshot::channel();
        drop(tokio::task::spawn_blocking(move || {
            // Nobody listens any more if the operation was dropped.
            drop(answer.send(work(&self)));
        }));
        let outcome = done.await.map_err(io::Error::other).flatten();
        outcome.map_err(|source| fail(act, interface, source))
    }

    fn probe(&self, fip: Ipv4Addr, wait: Duration) -> io::Result<ProbeOutcome> {
        let probe = packet::probe(self.own, fip);
        let start = clock::now();
        for round in 1..=PROBES {
            self.send(&probe)?;
            if let Some(mac) = self.listen(fip, start + wait * round / PROBES)? {
                return Ok(ProbeOutcome::Answered { mac });
            }
        }
        Ok(ProbeOutcome::Silent)
    }

    fn announce(&self, fip: Ipv4Addr) -> io::Result<()> {
        self.send(&packet::announcement(self.own, fip))?;
        self.send(&packet::reply(self.own, fip))
    }

    pub(super) fn send(&self, bytes: &[u8; LEN]) -> io::Result<()> {
        self.socket.send_to(bytes, &self.everybody).map(|_whole_datagram| ())
    }

    /// Who claims the FIP in a packet, if it is not this node by any of its interfaces.
    pub(super) fn other_claimant(&self, heard: &[u8], fip: Ipv4Addr) -> Option<Mac> {
        packet::claimant(heard, self.own, fip).filter(|mac| !self.scout.is_ours(*mac))
    }

    /// Read until somebody claims the FIP, or until the time is up, however much traffic there is.
    fn listen(&self, fip: Ipv4Addr, until: Moment) -> io::Result<Option<Mac>> {
        let mut buffer = [0; BUFFER];
        loop {
            let left = until.since(clock::now());
            if left.is_zero() {
                return Ok(None);
            }
            self.socket.set_read_timeout(Some(left.max(Duration::from_micros(1))))?;
            match (&self.socket).read(&mut buffer) {
                Ok(length) => {
                    let heard = buffer.get(..length).unwrap_or(&buffer);
                    if let Some(mac) = self.other_claimant(heard, fip) {
                        return Ok(Some(mac));
                    }
                }
                Err(error) if is_no_packet(&error) => {}
                Err(error) => return Err(error),
            }
        }
    }
}

/// A read that ended without a packet: its time-out, or a signal.
pub(super) fn is_no_packet(error: &io::Error) -> bool {
    let kind = error.kind();
    kind == io::ErrorKind::WouldBlock || kind == io::ErrorKind::TimedOut || kind == io::ErrorKind::Interrupted
}
