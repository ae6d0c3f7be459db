//! From and to the kernel's address messages (rtnetlink(7), `struct ifa_cacheinfo`).

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use rtnetlink::AddressMessageBuilder;
use rtnetlink::packet_route::address::{AddressAttribute, AddressHeaderFlags, AddressMessage, CacheInfo};

use super::Lifetime;
use crate::decision::observation::AliasEntry;

/// `INFINITY_LIFE_TIME`: `valid_lft forever`.
const FOREVER: u32 = u32::MAX;

/// The local address of an entry. `IFA_ADDRESS` is the peer's on a point-to-point link, so
/// `IFA_LOCAL` goes first.
pub(super) fn local(message: &AddressMessage) -> Option<Ipv4Addr> {
    let mut peer = None;
    for attribute in &message.attributes {
        if let AddressAttribute::Local(IpAddr::V4(address)) = attribute {
            return Some(*address);
        }
        if let AddressAttribute::Address(IpAddr::V4(address)) = attribute {
            peer = Some(*address);
        }
    }
    peer
}

/// What the decision needs of an entry.
pub(super) fn entry(message: &AddressMessage) -> AliasEntry {
    let valid = message
        .attributes
        .iter()
        .find_map(|attribute| if let AddressAttribute::CacheInfo(cache) = attribute { Some(cache.ifa_valid) } else { None });
    let preferred = message
        .attributes
        .iter()
        .find_map(|attribute| if let AddressAttribute::CacheInfo(cache) = attribute { Some(cache.ifa_preferred) } else { None });
    let lent = valid.zip(preferred).is_some_and(|(valid, preferred)| valid != FOREVER && preferred < valid);
    let valid_for = valid.filter(|seconds| *seconds != FOREVER).map(|seconds| Duration::from_secs(u64::from(seconds)));
    AliasEntry { prefix_len: message.header.prefix_len, valid_for, lent }
}

/// Whether the entry is a secondary of its subnet.
pub(super) const fn is_secondary(message: &AddressMessage) -> bool {
    message.header.flags.contains(AddressHeaderFlags::Secondary)
}

/// The FIP's /32 with a lifetime, in the shape that `ip addr add ADDRESS dev IFACE` gives it.
pub(super) fn host_route_entry(index: u32, fip: Ipv4Addr, lifetime: Lifetime) -> AddressMessage {
    let mut message = AddressMessageBuilder::<Ipv4Addr>::new().index(index).address(fip, 32).build();
    let mut cache = CacheInfo::default();
    (cache.ifa_valid, cache.ifa_preferred) = match lifetime {
        Lifetime::Forever => (FOREVER, FOREVER),
        Lifetime::Leased(lease) => (seconds(lease), seconds(lease)),
        Lifetime::Lent(lease) => (seconds(lease), seconds(lease) - 1),
    };
    message.attributes.push(AddressAttribute::CacheInfo(cache));
    message
}

/// The request that deletes exactly what was listed: same interface, address, prefix and label.
pub(super) fn deletion(listed: &AddressMessage) -> AddressMessage {
    let mut message = AddressMessage::default();
    message.header.family = listed.header.family;
    message.header.prefix_len = listed.header.prefix_len;
    message.header.index = listed.header.index;
    message.attributes = listed
        .attributes
        .iter()
        .filter(|attribute| {
            matches!(attribute, AddressAttribute::Local(_) | AddressAttribute::Address(_) | AddressAttribute::Label(_))
        })
        .cloned()
        .collect();
    message
}

/// Whole seconds, rounded up; never 0, which the kernel refuses, and never the infinite value.
fn seconds(lease: Duration) -> u32 {
    let whole = lease.as_secs().saturating_add(u64::from(lease.subsec_nanos() > 0));
    u32::try_from(whole).unwrap_or(FOREVER).clamp(1, FOREVER - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_is_rounded_up_and_never_becomes_nothing_or_forever() {
        assert_eq!(seconds(Duration::ZERO), 1);
        assert_eq!(seconds(Duration::from_millis(1001)), 2);
        assert_eq!(seconds(Duration::from_secs(10)), 10);
        assert_eq!(seconds(Duration::MAX), FOREVER - 1);
    }

    #[test]
    fn an_entry_reads_back_as_it_was_built() {
        let fip = Ipv4Addr::new(192, 0, 2, 10);
        let lease = Duration::from_secs(10);
        let message = host_route_entry(3, fip, Lifetime::Leased(lease));
        assert_eq!(local(&message), Some(fip));
        assert_eq!(entry(&message), AliasEntry { prefix_len: 32, valid_for: Some(lease), lent: false });
        let lent = AliasEntry { prefix_len: 32, valid_for: Some(lease), lent: true };
        assert_eq!(entry(&host_route_entry(3, fip, Lifetime::Lent(lease))), lent);
        let forever = AliasEntry { prefix_len: 32, valid_for: None, lent: false };
        assert_eq!(entry(&host_route_entry(3, fip, Lifetime::Forever)), forever);
        assert!(!message.attributes.iter().any(|a| matches!(a, AddressAttribute::Label(_) | AddressAttribute::Broadcast(_))));
    }
}
