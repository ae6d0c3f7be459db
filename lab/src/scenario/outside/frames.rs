//! ARP on the bridge, as every station hears it: who announces the FIP, and who asks for it.
//!
//! A thread of its own in the bridge's network namespace: setns moves one thread, and it never comes back. It ends when it
//! is asked to, or dropped, within `LOOK_EVERY`.

use std::io::{self, Read as _};
use std::os::fd::AsFd as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use socket2::{Domain, Protocol, Socket, Type};

use crate::network::{FIP, bridge_namespace, namespace_path};
use crate::scenario::clock;
use crate::scenario::node::Node;

/// `ETH_P_ARP`.
const ETH_P_ARP: u16 = 0x0806;
/// The longest that a stop waits for the thread.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// Room for an ARP frame.
const FRAME: usize = 128;
/// More than any run makes; beyond it the wire counts as not seen.
const FRAMES_MAX: usize = 100_000;
/// The nodes' MACs without their last digit, see `network::mac`.
const NODE_MAC: [u8; 5] = [0x00, 0x50, 0x56, 0x87, 0x5b];

/// A frame about the FIP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Frame {
    /// Sender and target are the FIP (RFC 5227 section 2.3). The kernel sends none by itself.
    Announces,
    /// A probe (section 2.1.1): no sender address, no cache is touched.
    Asks,
}

/// Everything that was heard.
#[derive(Debug, Default)]
pub struct Heard {
    /// When, whose, what.
    pub frames: Vec<(Duration, Node, Frame)>,
    /// Why not everything was heard.
    pub blind: Option<String>,
}

/// A thread that listens.
pub struct Frames {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Heard>>,
}

impl Frames {
    /// Begins to listen on the bridge of the lab.
    ///
    /// # Errors
    /// The namespace cannot be entered or the socket cannot be had.
    pub fn start(lab: &str) -> io::Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let asked = Arc::clone(&stop);
        let namespace = namespace_path(&bridge_namespace(lab));
        let (ready, is_ready) = std::sync::mpsc::sync_channel(1);
        let thread = std::thread::Builder::new().name("wire".to_owned()).spawn(move || {
            let opened = std::fs::File::open(&namespace).and_then(|file| open(&file));
            match opened {
                Ok(socket) => {
                    // The starter waits for it, so that the receiver is there.
                    drop(ready.send(Ok(())));
                    listen(&socket, &asked)
                }
                Err(error) => {
                    drop(ready.send(Err(error)));
                    Heard::default()
                }
            }
        })?;
        is_ready.recv().map_err(io::Error::other)??;
        Ok(Self { stop, thread: Some(thread) })
    }

    /// Ends and tells.
    #[must_use]
    pub fn finish(mut self) -> Heard {
        self.stop.store(true, Ordering::Relaxed);
        let lost = || Heard { blind: Some("the listener on the bridge broke off".to_owned()), ..Heard::default() };
        self.thread.take().and_then(|thread| thread.join().ok()).unwrap_or_else(lost)
    }
}

impl Drop for Frames {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

fn open(namespace: &std::fs::File) -> io::Result<Socket> {
    move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network))?;
    // Not bound to an interface: the ports of a bridge hand everything to it before a protocol sees it, so that
    // each broadcast arrives once.
    let socket = Socket::new(Domain::PACKET, Type::RAW, Some(Protocol::from(i32::from(ETH_P_ARP.to_be()))))?;
    socket.set_read_timeout(Some(LOOK_EVERY))?;
    Ok(socket)
}

fn listen(mut socket: &Socket, stop: &AtomicBool) -> Heard {
    let mut heard = Heard::default();
    let mut buffer = [0; FRAME];
    while !stop.load(Ordering::Relaxed) {
        match socket.read(&mut buffer) {
            Ok(length) => {
                if let Some((node, frame)) = buffer.get(..length).and_then(read) {
                    heard.frames.push((clock::now(), node, frame));
                }
            }
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {}
            Err(error) => heard.blind = Some(format!("the bridge: {error}")),
        }
        if heard.frames.len() >= FRAMES_MAX {
            heard.blind = Some("too many frames on the bridge".to_owned());
        }
        if heard.blind.is_some() {
            break;
        }
    }
    heard
}

/// An Ethernet frame with ARP in it (RFC 826), from one of the nodes and about the FIP.
fn read(frame: &[u8]) -> Option<(Node, Frame)> {
    let source = frame.get(6..12)?;
    let (sender, target) = (frame.get(28..32)?, frame.get(38..42)?);
    let node = Node::new(source.strip_prefix(&NODE_MAC)?.first()?.checked_sub(0xd0)?);
    let fip = FIP.octets();
    if target != fip {
        return None;
    }
    match sender {
        sender if sender == fip => Some((node, Frame::Announces)),
        [0, 0, 0, 0] => Some((node, Frame::Asks)),
        // A station that looks for the holder, as every client does.
        _other => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(source: [u8; 6], sender: [u8; 4], target: [u8; 4]) -> Vec<u8> {
        let mut bytes = vec![0xff; 6];
        bytes.extend(source);
        bytes.extend([8, 6, 0, 1, 8, 0, 6, 4, 0, 1]);
        bytes.extend(source);
        bytes.extend(sender);
        bytes.extend([0; 6]);
        bytes.extend(target);
        bytes
    }

    #[test]
    fn announcements_and_probes_of_nodes_are_told_apart_and_everything_else_is_left_out() {
        let fip = FIP.octets();
        let cp2 = [0x00, 0x50, 0x56, 0x87, 0x5b, 0xd2];
        assert_eq!(read(&frame(cp2, fip, fip)), Some((Node::new(2), Frame::Announces)));
        assert_eq!(read(&frame(cp2, [0; 4], fip)), Some((Node::new(2), Frame::Asks)));
        assert_eq!(read(&frame(cp2, fip, [192, 168, 111, 10])), None, "the kernel looks for the client");
        assert_eq!(read(&frame(cp2, [192, 168, 111, 202], fip)), None);
        assert_eq!(read(&frame([0x00, 0x50, 0x56, 0x87, 0x5b, 0x0a], [0; 4], fip)), None, "the client is no node");
        assert_eq!(read(&frame(cp2, fip, fip)[..30]), None);
    }
}
