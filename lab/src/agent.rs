//! `fip-lab agent`: answers on the FIP from inside a node, so that the client learns who holds it. Over UDP it names the node; over TCP it
//! accepts and closes, for the watchdog's question whether anything is behind the FIP.
//!
//! Bound with `IP_FREEBIND` once and for all: the sockets exist whether or not the node has the address, and the kernel
//! delivers to them only while it has. Stateless, one datagram or connection at a time; killed at any point without harm.

use std::ffi::OsString;
use std::io::ErrorKind;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, TcpListener, UdpSocket};
use std::process::ExitCode;

use anyhow::Context as _;
use socket2::{Domain, Protocol, Socket, Type};

/// Port of the API server on the FIP, which the agent stands in for.
pub const PORT: u16 = 6443;
/// Connections that wait for the thread that closes them.
const BACKLOG: i32 = 16;
/// Longest request that is answered; longer ones are not from the lab's client.
const REQUEST_BYTES_MAX: usize = 64;

/// Runs until killed. Arguments: the FIP, then the node's id.
///
/// # Errors
/// Wrong arguments, or the socket cannot be made.
pub fn main(args: &[OsString]) -> anyhow::Result<ExitCode> {
    let words: Vec<String> = args.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    let [fip, node] = words.as_slice() else { anyhow::bail!("usage: fip-lab agent FIP NODE") };
    let fip: Ipv4Addr = fip.parse().with_context(|| format!("{fip:?} is not an IPv4 address"))?;
    let address = SocketAddrV4::new(fip, PORT);
    let (socket, listener) = (bind(address)?, listen(address)?);
    std::thread::Builder::new().name("tcp".to_owned()).spawn(move || accept(&listener)).context("cannot start a thread")?;
    serve(&socket, node)
}

fn bind(address: SocketAddrV4) -> anyhow::Result<UdpSocket> {
    let socket = Socket::new(Domain::IPV4, Type::DGRAM, Some(Protocol::UDP)).context("cannot make a UDP socket")?;
    socket.set_freebind_v4(true).context("cannot set IP_FREEBIND")?;
    socket.bind(&SocketAddr::V4(address).into()).with_context(|| format!("cannot bind UDP {address}"))?;
    Ok(socket.into())
}

fn listen(address: SocketAddrV4) -> anyhow::Result<TcpListener> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::TCP)).context("cannot make a TCP socket")?;
    socket.set_freebind_v4(true).context("cannot set IP_FREEBIND")?;
    // One agent follows another within the time that the kernel keeps old connections.
    socket.set_reuse_address(true).context("cannot set SO_REUSEADDR")?;
    socket.bind(&SocketAddr::V4(address).into()).with_context(|| format!("cannot bind TCP {address}"))?;
    socket.listen(BACKLOG).with_context(|| format!("cannot listen on TCP {address}"))?;
    Ok(socket.into())
}

/// Until an error that does not concern one connection alone.
fn accept(listener: &TcpListener) {
    loop {
        match listener.accept() {
            Ok(connection) => drop(connection),
            Err(error) if matches!(error.kind(), ErrorKind::Interrupted | ErrorKind::ConnectionAborted) => {}
            Err(_) => return,
        }
    }
}

fn serve(socket: &UdpSocket, node: &str) -> anyhow::Result<ExitCode> {
    let mut buffer = [0; REQUEST_BYTES_MAX + 1];
    loop {
        let (length, from) = match socket.recv_from(&mut buffer) {
            Ok(received) => received,
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) => return Err(error).context("cannot receive"),
        };
        if length > REQUEST_BYTES_MAX {
            continue;
        }
        let answer = [&buffer[..length], b" ", node.as_bytes()].concat();
        // The address may be gone between question and answer: that is an outage, and the client's to notice.
        socket.send_to(&answer, from).ok();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_repeats_the_question_and_names_the_node() {
        let server = bind(SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = server.local_addr().unwrap();
        std::thread::spawn(move || serve(&server, "cp2"));
        let client = UdpSocket::bind("127.0.0.1:0").unwrap();
        client.set_read_timeout(Some(std::time::Duration::from_secs(5))).unwrap();
        client.send_to(&[b'x'; REQUEST_BYTES_MAX + 1], address).unwrap();
        client.send_to(b"41", address).unwrap();
        let mut buffer = [0; 128];
        let length = client.recv(&mut buffer).unwrap();
        assert_eq!(&buffer[..length], b"41 cp2");
    }

    #[test]
    fn a_connection_is_accepted_and_closed_without_a_word() {
        let listener = listen(SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        std::thread::spawn(move || accept(&listener));
        for _ in 0..3 {
            let mut client = std::net::TcpStream::connect(address).unwrap();
            client.set_read_timeout(Some(std::time::Duration::from_secs(5))).unwrap();
            assert_eq!(std::io::Read::read(&mut client, &mut [0; 8]).unwrap(), 0);
        }
    }

    #[test]
    fn binds_an_address_that_the_node_does_not_have() {
        let elsewhere = SocketAddrV4::new(Ipv4Addr::new(192, 0, 2, 1), 0);
        bind(elsewhere).unwrap();
        listen(elsewhere).unwrap();
    }
}
