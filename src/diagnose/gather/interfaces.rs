//! The node's interfaces and their addresses, by rtnetlink.
//!
//! Invariant: lists only; the socket and the task that drives it end with the look. Interfaces without an address that others could dial
//! (a pair for each pod) are left out, but for the FIP's. May be dropped at any await.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr};
use std::time::Duration;

use futures_util::TryStreamExt as _;
use rtnetlink::new_connection;
use rtnetlink::packet_route::address::{AddressAttribute, AddressMessage};
use rtnetlink::packet_route::link::{LinkAttribute, LinkFlags, LinkMessage};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::aside::late;
use crate::diagnose::evidence::{Interface, Seen};
use crate::policy::Policy;

/// The kernel answers in microseconds; a second means that something holds the RTNL lock.
const DEADLINE: Duration = Duration::from_secs(1);
/// Links that are looked at; a node with hundreds of pods has a pair for each.
const LINKS_MAX: usize = 4096;
/// Addresses that are looked at.
const ADDRESSES_MAX: usize = 8192;
/// Interfaces that are told of.
const TOLD_MAX: usize = 64;
/// Addresses of one interface that are told of.
const TOLD_ADDRESSES_MAX: usize = 32;

/// See the module's head.
pub(super) async fn look(policy: &Policy) -> Seen<Vec<Interface>> {
    list(&policy.fip.interface).await.map_or_else(Seen::No, Seen::Yes)
}

/// The interfaces with addresses, and `always`, in the kernel's order.
pub(super) async fn list(always: &str) -> Result<Vec<Interface>, String> {
    let all = timeout(DEADLINE, ask()).await.map_err(|_| late("the kernel's list of interfaces", DEADLINE))?;
    let (links, addresses) = all.map_err(|error| format!("the kernel does not list the interfaces: {error}"))?;
    Ok(join(&links, &addresses, always))
}

/// Ends the task that drives a netlink socket.
struct Driver(JoinHandle<()>);

impl Drop for Driver {
    fn drop(&mut self) {
        self.0.abort();
    }
}

async fn ask() -> Result<(Vec<LinkMessage>, Vec<AddressMessage>), rtnetlink::Error> {
    use futures_util::StreamExt as _;
    let (connection, handle, _messages) =
        new_connection().map_err(|error| rtnetlink::Error::NamespaceError(error.to_string()))?;
    let _driver = Driver(tokio::spawn(connection));
    // One after the other: two dumps at once on one socket are refused.
    let links = handle.link().get().execute().take(LINKS_MAX).try_collect().await?;
    let addresses = handle.address().get().execute().take(ADDRESSES_MAX).try_collect().await?;
    Ok((links, addresses))
}

fn join(links: &[LinkMessage], addresses: &[AddressMessage], always: &str) -> Vec<Interface> {
    let mut of_link: BTreeMap<u32, Vec<(IpAddr, u8)>> = BTreeMap::new();
    for message in addresses {
        let dialled = local(message).filter(|address| !is_link_local(*address));
        let known = of_link.entry(message.header.index).or_default();
        if let Some(address) = dialled.filter(|_| known.len() < TOLD_ADDRESSES_MAX) {
            known.push((address, message.header.prefix_len));
        }
    }
    let interfaces = links.iter().filter_map(|link| {
        let addresses = of_link.remove(&link.header.index).unwrap_or_default();
        let name = name(link)?;
        (!addresses.is_empty() || name == always).then(|| Interface {
            name,
            running: is_running(link),
            mtu: mtu(link),
            addresses,
        })
    });
    interfaces.take(TOLD_MAX).collect()
}

/// `IFA_ADDRESS` is the peer's on a point-to-point link, so `IFA_LOCAL` goes first (rtnetlink(7)).
fn local(message: &AddressMessage) -> Option<IpAddr> {
    let own = message.attributes.iter().find_map(|item| if let AddressAttribute::Local(own) = item { Some(*own) } else { None });
    own.or_else(|| {
        message.attributes.iter().find_map(|item| if let AddressAttribute::Address(own) = item { Some(*own) } else { None })
    })
}

const fn is_link_local(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(_) => false,
        IpAddr::V6(address) => Ipv6Addr::is_unicast_link_local(&address),
    }
}

fn name(link: &LinkMessage) -> Option<String> {
    link.attributes.iter().find_map(|item| if let LinkAttribute::IfName(name) = item { Some(name.clone()) } else { None })
}

fn mtu(link: &LinkMessage) -> u32 {
    link.attributes.iter().find_map(|item| if let LinkAttribute::Mtu(mtu) = item { Some(*mtu) } else { None }).unwrap_or(0)
}

/// Up, and with a carrier (`IFF_LOWER_UP`).
const fn is_running(link: &LinkMessage) -> bool {
    link.header.flags.contains(LinkFlags::Up) && link.header.flags.contains(LinkFlags::LowerUp)
}
