//! Connections between this node and its peers, from the kernel's table (proc_net_tcp(5)).
//!
//! Invariant: bounded, and taken before this diagnosis opens connections of its own. When something last came in on a connection is asked
//! of `inet_diag`, where that loads no module; without it the rest is whole.

use std::fs::File;
use std::io::{BufRead as _, BufReader, ErrorKind, Read as _};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::Path;
use std::time::Duration;

use super::aside::Aside;
use super::diag;
use crate::diagnose::evidence::Sockets;

/// For both tables; 10,000 connections take some 20 ms.
const TABLE_TIME: Duration = Duration::from_millis(500);
/// The most that is read of each: some 100,000 connections.
const TABLE_BYTES_MAX: u64 = 16 << 20;
/// Most rows that are kept: those of a few ports only.
const ROWS_MAX: usize = 4096;

static TABLE: Aside = Aside::new("the table of connections");

/// A connection, established or half open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Row {
    local: (IpAddr, u16),
    remote: (IpAddr, u16),
    established: bool,
    retransmitting: bool,
    unacknowledged: u64,
    heard_ms: Option<u64>,
}

/// The connections with one of `ports` at either end, of this node (the thread's network namespace).
pub(super) async fn table(ports: Vec<u16>) -> Result<Vec<Row>, String> {
    let read = move || {
        let mut rows = read(Path::new("/proc/thread-self/net"), &ports)?;
        let heard = diag::heard();
        for row in &mut rows {
            row.heard_ms = heard.get(&(row.local, row.remote)).copied();
        }
        Ok(rows)
    };
    TABLE.read(TABLE_TIME, read).await.and_then(std::convert::identity)
}

/// Those that the peer opened: from its address to our port.
pub(super) fn inbound(rows: &[Row], peer: IpAddr, own_port: u16) -> Sockets {
    sum(rows.iter().filter(|row| row.remote.0 == peer && row.local.1 == own_port))
}

/// Those that we opened: to its address and port.
pub(super) fn outbound(rows: &[Row], peer: IpAddr, peer_port: u16) -> Sockets {
    sum(rows.iter().filter(|row| row.remote == (peer, peer_port)))
}

fn sum<'r>(rows: impl Iterator<Item = &'r Row>) -> Sockets {
    rows.fold(Sockets::default(), |mut sum, row| {
        if row.established {
            sum.established += 1;
            sum.retransmitting += u32::from(row.retransmitting);
            sum.unacknowledged_bytes = sum.unacknowledged_bytes.saturating_add(row.unacknowledged);
            sum.heard_ms = [sum.heard_ms, row.heard_ms].into_iter().flatten().min();
        } else {
            sum.syn_received += 1;
        }
        sum
    })
}

fn read(net: &Path, ports: &[u16]) -> Result<Vec<Row>, String> {
    let mut rows = Vec::new();
    for (name, needed) in [("tcp", true), ("tcp6", false)] {
        let path = net.join(name);
        let fail = |error: std::io::Error| format!("cannot read {}: {error}", path.display());
        let file = match File::open(&path) {
            // A kernel without IPv6 has no table for it.
            Err(error) if error.kind() == ErrorKind::NotFound && !needed => continue,
            opened => opened.map_err(fail)?,
        };
        let of_ports = |row: &Row| ports.contains(&row.local.1) || ports.contains(&row.remote.1);
        for line in BufReader::new(file.take(TABLE_BYTES_MAX)).lines() {
            if rows.len() == ROWS_MAX {
                break;
            }
            rows.extend(parse(&line.map_err(fail)?).filter(of_ports));
        }
    }
    Ok(rows)
}

/// A line, when it is of an established (01) or half open (03) connection. In hexadecimal: number, local, remote, state, send queue and
/// receive queue, timer, retransmits. The send queue of an established connection is what the other end has not acknowledged.
fn parse(line: &str) -> Option<Row> {
    let mut words = line.split_ascii_whitespace().skip(1);
    let local = end(words.next()?)?;
    let remote = end(words.next()?)?;
    let state = words.next()?;
    if !["01", "03"].contains(&state) {
        return None;
    }
    let (unacknowledged, _) = words.next()?.split_once(':')?;
    let retransmits = words.nth(1)?;
    Some(Row {
        local,
        remote,
        established: state == "01",
        retransmitting: u64::from_str_radix(retransmits, 16).ok()? > 0,
        unacknowledged: u64::from_str_radix(unacknowledged, 16).ok()?,
        heard_ms: None,
    })
}

/// `0E6FA8C0:094C`: words of 32 bits as they lie in memory, printed as numbers of this machine's byte order. An IPv4 address in an IPv6
/// socket becomes one again.
fn end(text: &str) -> Option<(IpAddr, u16)> {
    let (address, port) = text.split_once(':')?;
    let port = u16::from_str_radix(port, 16).ok()?;
    let word = |index: usize| {
        address.get(index * 8..index * 8 + 8).and_then(|word| u32::from_str_radix(word, 16).ok()).map(u32::to_ne_bytes)
    };
    let address = match address.len() {
        8 => IpAddr::V4(Ipv4Addr::from(word(0)?)),
        32 => {
            let mut bytes = [0; 16];
            for (index, part) in bytes.chunks_exact_mut(4).enumerate() {
                part.copy_from_slice(&word(index)?);
            }
            IpAddr::V6(Ipv6Addr::from(bytes)).to_canonical()
        }
        _ => return None,
    };
    Some((address, port))
}

#[cfg(test)]
#[cfg(target_endian = "little")]
mod tests {
    use super::*;

    const TCP: &str = "\
  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:094B 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 21013 1 0000000000000000 100 0 0 10 0
   1: 0B6FA8C0:094C 0C6FA8C0:9C40 01 00000000:00000000 02:00000A2B 00000000     0        0 21014 2 0000000000000000 20 4 30 10 -1
   2: 0B6FA8C0:094C 0C6FA8C0:9C42 01 000001F4:00000000 01:00000014 00000003     0        0 21015 3 0000000000000000 160 4 0 1 7
   3: 0B6FA8C0:094C 0C6FA8C0:9C44 03 00000000:00000000 01:0000004E 00000001     0        0 0 1 0000000000000000
   4: 0B6FA8C0:A000 0C6FA8C0:094C 01 00000010:00000000 01:00000014 00000000     0        0 21016 2 0000000000000000 20 4 30 10 -1
   5: 0B6FA8C0:A002 0C6FA8C0:094C 06 00000000:00000000 03:00000014 00000000     0        0 0 3 0000000000000000
   6: 0B6FA8C0:A004 0C6FA8C0:01BB 01 00000000:00000000 00:00000000 00000000     0        0 21017 1 0000000000000000 20 4 30 10 -1
";
    const TCP6: &str = "\
  sl  local_address                         remote_address                        st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0000000000000000FFFF00000B6FA8C0:094C 0000000000000000FFFF00000C6FA8C0:9C46 01 00000000:00000000 00:00000000 00000000     0        0 31 1 0000000000000000 20 4 30 10 -1
   1: B80D0120000000000000000001000000:094C B80D0120000000000000000002000000:9C46 01 00000000:00000000 00:00000000 00000000     0        0 32 1 0000000000000000 20 4 30 10 -1
";

    fn rows() -> Vec<Row> {
        let dir = tempfile::tempdir().unwrap();
        #[expect(clippy::disallowed_methods, reason = "a file of the test's own")]
        let write = |name: &str, text: &str| std::fs::write(dir.path().join(name), text).unwrap();
        assert!(read(dir.path(), &[2380]).is_err_and(|error| error.contains("/tcp")));
        write("tcp", TCP);
        assert_eq!(read(dir.path(), &[2380]).unwrap().len(), 4, "without IPv6");
        write("tcp6", TCP6);
        read(dir.path(), &[2380]).unwrap()
    }

    #[test]
    fn connections_are_counted_by_who_opened_them() {
        let peer: IpAddr = [192, 168, 111, 12].into();
        let expected = Sockets { established: 3, retransmitting: 1, unacknowledged_bytes: 500, heard_ms: None, syn_received: 1 };
        assert_eq!(inbound(&rows(), peer, 2380), expected);
        let expected = Sockets { established: 1, retransmitting: 0, unacknowledged_bytes: 16, heard_ms: None, syn_received: 0 };
        assert_eq!(outbound(&rows(), peer, 2380), expected);
        assert_eq!(inbound(&rows(), "2001:db8::2".parse().unwrap(), 2380).established, 1);
        assert_eq!(inbound(&rows(), [192, 168, 111, 13].into(), 2380), Sockets::default());
    }

    #[test]
    fn lines_of_another_form_are_passed_over() {
        for line in [
            "",
            "  sl  local_address rem_address   st",
            "0: 0100007F:1 0100007F:1 01",
            "0: 01:1 02:1 01 0:0 0:0 0",
            "0: é:1 é:1 01 0:0 0:0 0",
        ] {
            assert_eq!(parse(line), None, "{line}");
        }
    }

    #[tokio::test]
    async fn a_connection_of_this_process_is_in_the_table() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let ours = std::net::TcpStream::connect(("127.0.0.1", port)).unwrap();
        let rows = table(vec![port]).await.unwrap();
        let inbound = inbound(&rows, [127, 0, 0, 1].into(), port);
        assert_eq!(inbound.established, 1);
        assert!(!diag::is_there() || inbound.heard_ms.is_some_and(|age| age < 60_000), "{inbound:?}");
        assert_eq!(outbound(&rows, [127, 0, 0, 1].into(), port).established, 1);
        drop(ours);
    }
}
