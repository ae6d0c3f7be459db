//! When something last came in on each connection, from the kernel by `inet_diag` (sock_diag(7)): an established connection outlives its
//! link by minutes, and this tells.
//!
//! Invariant: a question loads no module. Where `tcp_diag` is one and is not loaded, nothing is asked. Blocking, bounded.

use std::collections::HashMap;
use std::io::Result;
use std::net::IpAddr;
use std::path::Path;
use std::time::Duration;

use netlink_packet_core::{NLM_F_DUMP, NLM_F_REQUEST, NetlinkHeader, NetlinkMessage, NetlinkPayload};
use netlink_packet_sock_diag::SockDiagMessage;
use netlink_packet_sock_diag::constants::{AF_INET, AF_INET6, IPPROTO_TCP};
use netlink_packet_sock_diag::inet::nlas::Nla;
use netlink_packet_sock_diag::inet::{ExtensionFlags, InetRequest, InetResponse, SocketId, StateFlags};
use netlink_sys::protocols::NETLINK_SOCK_DIAG;
use netlink_sys::{Socket, SocketAddr};
use socket2::SockRef;

use crate::runtime::small_file;

/// The kernel answers a dump at once.
const ANSWER_TIME: Duration = Duration::from_millis(150);
/// The kernel fills at most 32 KiB a message.
const BUFFER_BYTES: usize = 64 << 10;
/// Most messages of a dump: some 100 connections each.
const MESSAGES_MAX: usize = 1024;
/// `modules.builtin` has some 30 KiB.
const BUILTIN_BYTES_MAX: usize = 1 << 20;

/// Ends of a connection: local, remote.
pub(super) type Ends = ((IpAddr, u16), (IpAddr, u16));

/// Milliseconds since anything came in, by connection; empty where that cannot be asked.
pub(super) fn heard() -> HashMap<Ends, u64> {
    let mut heard = HashMap::new();
    if is_there() {
        for family in [AF_INET, AF_INET6] {
            // What one family lacks is no reason to lose the other.
            dump(family, &mut heard).ok();
        }
    }
    heard
}

/// Whether the kernel has `tcp_diag` already: loaded, built in, or there are no modules at all.
pub(super) fn is_there() -> bool {
    let built_in = || {
        let release = rustix::system::uname();
        let list = Path::new("/lib/modules").join(release.release().to_str().unwrap_or_default()).join("modules.builtin");
        small_file::read(&list, BUILTIN_BYTES_MAX).is_ok_and(|list| String::from_utf8_lossy(&list).contains("/tcp_diag.ko"))
    };
    Path::new("/sys/module/tcp_diag").exists() || !Path::new("/proc/modules").exists() || built_in()
}

fn dump(family: u8, heard: &mut HashMap<Ends, u64>) -> Result<()> {
    let mut socket = Socket::new(NETLINK_SOCK_DIAG)?;
    SockRef::from(&socket).set_read_timeout(Some(ANSWER_TIME))?;
    socket.bind_auto()?;
    socket.connect(&SocketAddr::new(0, 0))?;
    socket.send(&question(family), 0)?;
    let mut buffer = vec![0; BUFFER_BYTES];
    for _ in 0..MESSAGES_MAX {
        let bytes = socket.recv(&mut &mut buffer[..], 0)?;
        let mut rest = buffer.get(..bytes).unwrap_or_default();
        while !rest.is_empty() {
            let message = NetlinkMessage::<SockDiagMessage>::deserialize(rest).map_err(std::io::Error::other)?;
            let NetlinkPayload::InnerMessage(SockDiagMessage::InetResponse(connection)) = message.payload else { return Ok(()) };
            heard.extend(of_connection(&connection));
            // The length of a message is at least its header's: it was read by it.
            let length = usize::try_from(message.header.length).unwrap_or(usize::MAX).max(1);
            rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
        }
    }
    Ok(())
}

fn question(family: u8) -> Vec<u8> {
    let mut header = NetlinkHeader::default();
    header.flags = NLM_F_REQUEST | NLM_F_DUMP;
    let socket_id = if family == AF_INET { SocketId::new_v4() } else { SocketId::new_v6() };
    let request = InetRequest {
        family,
        protocol: IPPROTO_TCP,
        extensions: ExtensionFlags::INFO,
        states: StateFlags::ESTABLISHED,
        socket_id,
    };
    let mut message = NetlinkMessage::new(header, SockDiagMessage::InetRequest(request).into());
    message.finalize();
    let mut bytes = vec![0; message.buffer_len()];
    message.serialize(&mut bytes);
    bytes
}

fn of_connection(connection: &InetResponse) -> Option<(Ends, u64)> {
    let id = &connection.header.socket_id;
    let ends = ((id.source_address.to_canonical(), id.source_port), (id.destination_address.to_canonical(), id.destination_port));
    let info = connection.nlas.iter().find_map(|nla| if let Nla::TcpInfo(info) = nla { Some(info) } else { None })?;
    Some((ends, last_in(info)?))
}

/// `tcpi_last_data_recv` and `tcpi_last_ack_recv` of `struct tcp_info` (linux/tcp.h): the struct grows at its end with the kernel, so it is
/// not read as a whole.
fn last_in(info: &[u8]) -> Option<u64> {
    let word = |at: usize| info.get(at..at + 4)?.try_into().ok().map(u32::from_ne_bytes).map(u64::from);
    Some(word(52)?.min(word(56)?))
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};

    use super::*;

    #[test]
    fn ages_are_read_of_old_kernels_shorter_structs_too() {
        let mut info = vec![0; 104];
        info[52..56].copy_from_slice(&70_u32.to_ne_bytes());
        info[56..60].copy_from_slice(&50_u32.to_ne_bytes());
        assert_eq!(last_in(&info), Some(50));
        assert_eq!(last_in(&info[..59]), None);
    }

    #[test]
    fn a_connection_of_either_family_was_heard_of() {
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let listener = std::net::TcpListener::bind(address).unwrap();
            let mut ours = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let (mut theirs, _) = listener.accept().unwrap();
            theirs.write_all(b"x").unwrap();
            ours.read_exact(&mut [0]).unwrap();
            let (local, remote) = (ours.local_addr().unwrap(), ours.peer_addr().unwrap());
            let age = heard().get(&((local.ip(), local.port()), (remote.ip(), remote.port()))).copied();
            assert_eq!(age.is_some(), is_there(), "{age:?}");
            assert!(age.is_none_or(|age| age < 60_000), "{age:?}");
        }
    }
}
