//! This node's other interfaces. The kernel answers for any of its addresses on every interface (arp_ignore is 0 by
//! default), so that a second one on the same segment claims the FIP too, by a MAC of this very node.

use std::fs;
use std::io;

use rustix::net::netdevice::name_to_index;
use socket2::{Domain, Protocol, Socket, Type};

use super::{Mac, sockaddr};

/// Interfaces that are looked at; a node with hundreds of pods has a pair for each.
const INTERFACES_MAX: usize = 4096;

/// Tells this node's MACs: a packet socket that listens to nothing, bound to one interface after the other. It
/// sees the network namespace that its user lives in, which `/sys` does not.
#[derive(Debug)]
pub(super) struct Scout(Socket);

impl Scout {
    pub(super) fn open() -> io::Result<Self> {
        Socket::new(Domain::PACKET, Type::DGRAM, Some(Protocol::from(0))).map(Self)
    }

    /// Whether an interface of this node has the MAC.
    pub(super) fn is_ours(&self, mac: Mac) -> bool {
        let Ok(list) = fs::read_to_string("/proc/thread-self/net/dev") else { return false };
        let names = list.lines().filter_map(|line| line.split_once(':')).map(|(name, _)| name.trim());
        names.take(INTERFACES_MAX).any(|name| self.mac_of(name) == Some(mac))
    }

    fn mac_of(&self, name: &str) -> Option<Mac> {
        let index = name_to_index(&self.0, name).ok().and_then(|index| i32::try_from(index).ok())?;
        self.0.bind(&sockaddr::interface(index)).ok()?;
        sockaddr::own_mac(&self.0.local_addr().ok()?)
    }
}
