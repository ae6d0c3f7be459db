//! What the kernel hands up: ARP packets that have the FIP as their sender address, and nothing else.
//!
//! Without it a listener would be woken, or its queue filled, by every ARP request of the segment.

use std::net::Ipv4Addr;

use socket2::SockFilter;

/// `BPF_LD | BPF_W | BPF_ABS`.
const LOAD_WORD: u16 = 0x20;
/// `BPF_JMP | BPF_JEQ | BPF_K`.
const JUMP_IF_EQUAL: u16 = 0x15;
/// `BPF_RET | BPF_K`.
const RETURN: u16 = 0x06;
/// Where the sender's protocol address is (RFC 826; Ethernet and IPv4). A datagram packet socket filters from
/// the network header on.
const SENDER_ADDRESS: u32 = 14;
/// Longer than any ARP packet.
const WHOLE: u32 = 0xffff;

/// Lets through what claims `fip`.
pub(super) fn claims_of(fip: Ipv4Addr) -> [SockFilter; 4] {
    [
        SockFilter::new(LOAD_WORD, 0, 0, SENDER_ADDRESS),
        SockFilter::new(JUMP_IF_EQUAL, 0, 1, u32::from(fip)),
        SockFilter::new(RETURN, 0, 0, WHOLE),
        SockFilter::new(RETURN, 0, 0, 0),
    ]
}
