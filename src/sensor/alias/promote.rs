//! Guards other addresses when an entry of the FIP with a short prefix is removed.
//!
//! The kernel deletes a primary address together with the secondaries of its subnet, unless
//! `promote_secondaries` is on (`__inet_del_ifa` in net/ipv4/devinet.c). A FIP that somebody added as
//! /24 before the node's own address would take that one along.

use std::net::Ipv4Addr;

use rtnetlink::packet_route::address::AddressMessage;

use super::TableError;
use super::message::{is_secondary, local};

/// Refuse a removal that would take another address along. `all` is every IPv4 entry of the interface.
pub(super) fn guard(interface: &str, fip: Ipv4Addr, listed: &AddressMessage, all: &[AddressMessage]) -> Result<(), TableError> {
    match victim(fip, listed, all) {
        Some(other) if !promotes(interface) => {
            Err(TableError::TakesOthersAlong { fip, prefix_len: listed.header.prefix_len, other })
        }
        Some(_) | None => Ok(()),
    }
}

fn victim(fip: Ipv4Addr, listed: &AddressMessage, all: &[AddressMessage]) -> Option<Ipv4Addr> {
    let prefix_len = listed.header.prefix_len;
    if is_secondary(listed) {
        return None;
    }
    all.iter()
        .filter(|other| other.header.prefix_len == prefix_len && is_secondary(other))
        .filter_map(local)
        .find(|other| *other != fip && subnet(*other, prefix_len) == subnet(fip, prefix_len))
}

fn subnet(address: Ipv4Addr, prefix_len: u8) -> u32 {
    let host_bits = 32_u32.saturating_sub(u32::from(prefix_len));
    u32::from(address).checked_shr(host_bits).unwrap_or(0)
}

/// The kernel's `IN_DEV_PROMOTE_SECONDARIES`: on if `all` or the interface says so.
fn promotes(interface: &str) -> bool {
    ["all", interface].iter().any(|name| {
        let path = format!("/proc/sys/net/ipv4/conf/{name}/promote_secondaries");
        std::fs::read_to_string(path).is_ok_and(|text| text.trim() != "0")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subnets_compare_by_their_prefix_alone() {
        let a = Ipv4Addr::new(192, 0, 2, 1);
        let b = Ipv4Addr::new(192, 0, 2, 200);
        assert_eq!(subnet(a, 24), subnet(b, 24));
        assert_ne!(subnet(a, 32), subnet(b, 32));
        assert_eq!(subnet(a, 0), subnet(Ipv4Addr::BROADCAST, 0));
    }
}
