//! How a TCP connection comes about, or why not. The caller's own deadline is the only one.
//!
//! What `connect(2)` says, seen on Linux 6.1: ECONNREFUSED at once where nothing listens (or a filter answers with a reset or an ICMP "port
//! unreachable"); EHOSTUNREACH at once where a filter answers "administratively prohibited"; EHOSTUNREACH after three unanswered ARP
//! requests, 3.1 s, where nobody has the address; ENETUNREACH without a route; nothing at all where packets are dropped. The 3.1 s
//! shrink when somebody else, etcd above all, waits for the same ARP answer already: so the neighbour table is asked first.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::time::Duration;

use socket2::SockRef;
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::timeout;

use crate::diagnose::evidence::Connect;
use crate::runtime::clock;
use crate::runtime::small_file;

/// Where no neighbour is listed, EHOSTUNREACH after this is a router's or the kernel's failed search, before it a filter's answer.
const SEARCHED: Duration = Duration::from_millis(900);
/// The thread's own network namespace's table. It holds 1024 entries by default, 80 bytes each.
const ARP_TABLE: &str = "/proc/thread-self/net/arp";
const ARP_BYTES_MAX: usize = 1 << 20;

/// How connecting ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Opened {
    pub(super) connect: Connect,
    pub(super) took: Duration,
}

/// Room for two or three small segments, doubled by the kernel: a sender cannot put more of them into one frame and leave the cutting to
/// its network card. Virtual switches see such frames whole.
const SMALL_BUFFER: u32 = 2048;

/// Connects. With `segment_max`, neither side sends segments with more bytes of data than that (TCP_MAXSEG, tcp(7)), nor many at once.
pub(super) async fn open(address: SocketAddr, segment_max: Option<u32>, deadline: Duration) -> (Opened, Option<TcpStream>) {
    let begun = clock::now();
    let connected = timeout(deadline, async {
        let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
        if let Some(bytes) = segment_max {
            SockRef::from(&socket).set_tcp_mss(bytes)?;
            socket.set_recv_buffer_size(SMALL_BUFFER)?;
            socket.set_nodelay(true)?;
        }
        socket.connect(address).await
    })
    .await;
    let took = clock::now().since(begun);
    match connected {
        Err(_) => (Opened { connect: Connect::TimedOut, took }, None),
        Ok(Ok(stream)) => (Opened { connect: Connect::Open, took }, Some(stream)),
        Ok(Err(error)) => (Opened { connect: classify(&error, took, || neighbour(address.ip())), took }, None),
    }
}

/// The same for people.
pub(super) fn say(connect: &Connect) -> String {
    match connect {
        Connect::Open => "the connection is open".to_owned(),
        Connect::Refused => "the connection is refused".to_owned(),
        Connect::TimedOut => "connecting timed out".to_owned(),
        Connect::Rejected => "a filter on the way rejects the connection".to_owned(),
        Connect::NoHost => "nobody has the address".to_owned(),
        Connect::NoRoute => "there is no route".to_owned(),
        Connect::Other(text) => text.clone(),
    }
}

/// `resolved` is whether the neighbour table has a link layer address for the destination; `None` when it is not in there.
fn classify(error: &io::Error, took: Duration, resolved: impl FnOnce() -> Option<bool>) -> Connect {
    match error.raw_os_error() {
        Some(libc::ECONNREFUSED) => Connect::Refused,
        Some(libc::ETIMEDOUT) => Connect::TimedOut,
        Some(libc::EHOSTUNREACH) if resolved().unwrap_or(took < SEARCHED) => Connect::Rejected,
        Some(libc::EHOSTUNREACH) => Connect::NoHost,
        Some(libc::ENETUNREACH | libc::ENETDOWN) => Connect::NoRoute,
        _ => Connect::Other(error.to_string()),
    }
}

/// A read of memory of the kernel's: it does not hang.
fn neighbour(address: IpAddr) -> Option<bool> {
    let table = small_file::read(Path::new(ARP_TABLE), ARP_BYTES_MAX).ok()?;
    in_arp_table(&String::from_utf8_lossy(&table), address)
}

/// A line is `192.168.111.14  0x1  0x2  02:00:00:00:00:01  *  eth0`: address, hardware type, flags (ATF_COM, 2, when it is resolved).
/// An address can be there once an interface.
fn in_arp_table(table: &str, address: IpAddr) -> Option<bool> {
    let flags = table.lines().filter_map(|line| {
        let mut words = line.split_whitespace();
        let listed: IpAddr = words.next()?.parse().ok()?;
        let flags = words.nth(1)?.strip_prefix("0x").and_then(|flags| u32::from_str_radix(flags, 16).ok())?;
        (listed == address).then_some(flags & 2 != 0)
    });
    flags.reduce(|one, other| one || other)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "\
IP address       HW type     Flags       HW address            Mask     Device
192.168.111.14   0x1         0x2         02:00:00:00:00:01     *        eth0
192.168.111.15   0x1         0x0         00:00:00:00:00:00     *        eth0
192.168.111.16   0x1         0x0         00:00:00:00:00:00     *        eth1
192.168.111.16   0x1         0x6         02:00:00:00:00:02     *        eth0
";

    #[test]
    fn the_neighbour_table_tells_who_was_found() {
        let found = |text: &str| in_arp_table(TABLE, text.parse().unwrap());
        assert_eq!(found("192.168.111.14"), Some(true));
        assert_eq!(found("192.168.111.15"), Some(false));
        assert_eq!(found("192.168.111.16"), Some(true));
        assert_eq!(found("192.168.111.17"), None);
        assert_eq!(found("::1"), None);
    }

    #[test]
    fn an_unreachable_host_is_told_from_a_filter_by_its_neighbour_entry_and_else_by_time() {
        let classify =
            |errno, millis, resolved| classify(&io::Error::from_raw_os_error(errno), Duration::from_millis(millis), || resolved);
        assert_eq!(classify(libc::EHOSTUNREACH, 1, Some(true)), Connect::Rejected);
        assert_eq!(classify(libc::EHOSTUNREACH, 1, Some(false)), Connect::NoHost, "etcd had been waiting for ARP already");
        assert_eq!(classify(libc::EHOSTUNREACH, 1, None), Connect::Rejected);
        assert_eq!(classify(libc::EHOSTUNREACH, 3072, None), Connect::NoHost);
        assert_eq!(classify(libc::ENETUNREACH, 0, None), Connect::NoRoute);
        assert_eq!(classify(libc::ECONNREFUSED, 0, None), Connect::Refused);
        assert_eq!(classify(libc::EACCES, 0, None), Connect::Other("Permission denied (os error 13)".to_owned()));
    }
}
