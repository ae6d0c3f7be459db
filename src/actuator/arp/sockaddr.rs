//! `struct sockaddr_ll` (packet(7)) as a socket2 address: no safe wrapper has it.

use socket2::{SockAddr, SockAddrStorage};

use super::Mac;

const AF_PACKET: u16 = 17;
/// `ETH_P_ARP`, in network byte order where the kernel wants it.
pub(super) const ETH_P_ARP: u16 = 0x0806;
const BROADCAST: [u8; 8] = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0];
const ETHER_ADDR_LEN: u8 = 6;
/// `ARPHRD_ETHER`.
const ARPHRD_ETHER: u16 = 1;

/// The layout of the kernel's `struct sockaddr_ll` (include/uapi/linux/if_packet.h), 20 bytes.
#[repr(C)]
#[derive(Clone, Copy)]
struct SockaddrLl {
    family: u16,
    protocol_be: u16,
    ifindex: i32,
    hatype: u16,
    pkttype: u8,
    halen: u8,
    addr: [u8; 8],
}

const LEN: u8 = 20;
const _: () = assert!(size_of::<SockaddrLl>() == LEN as usize);

/// The broadcast address of an interface for ARP. Binding to it listens to ARP on the interface.
pub(super) fn arp_broadcast(ifindex: i32) -> SockAddr {
    pack(SockaddrLl {
        family: AF_PACKET,
        protocol_be: ETH_P_ARP.to_be(),
        ifindex,
        hatype: ARPHRD_ETHER,
        pkttype: 0,
        halen: ETHER_ADDR_LEN,
        addr: BROADCAST,
    })
}

/// An interface, and no protocol: whoever is bound to it hears nothing.
pub(super) fn interface(ifindex: i32) -> SockAddr {
    pack(SockaddrLl { family: AF_PACKET, protocol_be: 0, ifindex, hatype: 0, pkttype: 0, halen: 0, addr: [0; 8] })
}

/// The interface's own MAC, from the local address of a bound packet socket; `None` if the interface
/// is not Ethernet.
pub(super) fn own_mac(local: &SockAddr) -> Option<Mac> {
    let address = unpack(local)?;
    if address.hatype != ARPHRD_ETHER || address.halen != ETHER_ADDR_LEN {
        return None;
    }
    let [a, b, c, d, e, f, ..] = address.addr;
    Some(Mac([a, b, c, d, e, f]))
}

#[expect(unsafe_code, reason = "socket2 builds addresses of other families from raw storage only")]
fn pack(address: SockaddrLl) -> SockAddr {
    let mut storage = SockAddrStorage::zeroed();
    // SAFETY: `SockaddrLl` has the layout of the kernel's sockaddr_ll (repr(C), asserted size) and is
    // smaller than sockaddr_storage, which `view_as` asserts; the storage is aligned for any sockaddr.
    *unsafe { storage.view_as::<SockaddrLl>() } = address;
    // SAFETY: the family is AF_PACKET and the length is that of the sockaddr_ll just written.
    unsafe { SockAddr::new(storage, u32::from(LEN)) }
}

#[expect(unsafe_code, reason = "socket2 shows addresses of other families as a raw pointer only")]
fn unpack(address: &SockAddr) -> Option<SockaddrLl> {
    if address.family() != AF_PACKET {
        return None;
    }
    // SAFETY: `as_ptr` points to a whole, initialised, aligned sockaddr_storage that lives as long as
    // `address`; `SockaddrLl` is smaller, and any bytes are a valid value of it. getsockname writes at
    // least 18 bytes for AF_PACKET and the rest of the storage is zero.
    Some(unsafe { address.as_ptr().cast::<SockaddrLl>().read() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_reads_back_as_it_was_packed() {
        let packed = arp_broadcast(7);
        assert_eq!(packed.len(), u32::from(LEN));
        assert_eq!(own_mac(&packed), Some(Mac([0xff; 6])));
        assert_eq!(unpack(&packed).map(|address| address.ifindex), Some(7));
        let inet = SockAddr::from(std::net::SocketAddr::from(([127, 0, 0, 1], 80)));
        assert_eq!(own_mac(&inet), None);
    }
}
