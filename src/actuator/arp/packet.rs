//! ARP packets, built and read with etherparse.

use std::net::Ipv4Addr;

use etherparse::{ArpEthIpv4Packet, ArpOperation, ArpPacket};

use super::Mac;

/// Bytes of an ARP packet for Ethernet and IPv4.
pub(super) const LEN: usize = ArpEthIpv4Packet::LEN;

/// RFC 5227 section 2.1.1: a request with an all-zero sender address.
pub(super) const fn probe(own: Mac, fip: Ipv4Addr) -> [u8; LEN] {
    build(ArpOperation::REQUEST, own, Ipv4Addr::UNSPECIFIED, Mac([0; 6]), fip)
}

/// RFC 5227 section 2.3: a request whose sender and target are the address.
pub(super) const fn announcement(own: Mac, fip: Ipv4Addr) -> [u8; LEN] {
    build(ArpOperation::REQUEST, own, fip, Mac([0; 6]), fip)
}

/// The same as an unsolicited reply, for caches that ignore requests (`arping -A`).
pub(super) const fn reply(own: Mac, fip: Ipv4Addr) -> [u8; LEN] {
    build(ArpOperation::REPLY, own, fip, own, fip)
}

const fn build(operation: ArpOperation, sender_mac: Mac, sender: Ipv4Addr, target_mac: Mac, target: Ipv4Addr) -> [u8; LEN] {
    ArpEthIpv4Packet {
        operation,
        sender_mac: sender_mac.0,
        sender_ipv4: sender.octets(),
        target_mac: target_mac.0,
        target_ipv4: target.octets(),
    }
    .to_bytes()
}

/// Who claims `fip` in this packet, request or reply (RFC 5227 section 2.1.1); our own MAC does not
/// count, a bridge may reflect what we sent.
pub(super) fn claimant(bytes: &[u8], own: Mac, fip: Ipv4Addr) -> Option<Mac> {
    let packet = ArpPacket::from_slice(bytes).ok()?.try_eth_ipv4().ok()?;
    let mac = Mac(packet.sender_mac);
    (packet.sender_ipv4_addr() == fip && mac != own).then_some(mac)
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: Mac = Mac([2, 0, 0, 0, 0, 1]);
    const OTHER: Mac = Mac([2, 0, 0, 0, 0, 2]);
    const FIP: Ipv4Addr = Ipv4Addr::new(192, 168, 111, 200);

    #[test]
    fn a_reply_and_a_gratuitous_request_of_another_station_are_claims() {
        assert_eq!(claimant(&reply(OTHER, FIP), OWN, FIP), Some(OTHER));
        assert_eq!(claimant(&announcement(OTHER, FIP), OWN, FIP), Some(OTHER));
        let mut padded = reply(OTHER, FIP).to_vec();
        padded.resize(46, 0);
        assert_eq!(claimant(&padded, OWN, FIP), Some(OTHER), "Ethernet pads to 46 bytes");
    }

    #[test]
    fn probes_reflections_other_addresses_and_noise_are_no_claims() {
        assert_eq!(claimant(&probe(OTHER, FIP), OWN, FIP), None);
        assert_eq!(claimant(&reply(OWN, FIP), OWN, FIP), None);
        assert_eq!(claimant(&reply(OTHER, Ipv4Addr::new(192, 168, 111, 201)), OWN, FIP), None);
        assert_eq!(claimant(&[], OWN, FIP), None);
        assert_eq!(claimant(&reply(OTHER, FIP)[..20], OWN, FIP), None);
        assert_eq!(claimant(&[0xff; 64], OWN, FIP), None);
    }
}
