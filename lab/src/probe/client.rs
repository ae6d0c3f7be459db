//! The client: a thread in the client's network namespace that asks the FIP every 20 ms who is there.
//!
//! One UDP socket and the namespace's own neighbour cache: a FIP that moved without an announcement is as unreachable
//! for this client as for a real one. The thread ends when its handle is dropped; it holds nothing but the socket.

use std::io;
use std::net::{Ipv4Addr, SocketAddrV4, UdpSocket};
use std::os::fd::AsFd as _;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use super::outage::{Heard, Recorder};
use crate::scenario::clock;
use crate::scenario::node::Node;

/// Between two datagrams.
pub const PERIOD: Duration = Duration::from_millis(20);
/// Woken this much too late, the client itself did not run: its silence then says nothing about the FIP.
const LATE: Duration = Duration::from_millis(60);
/// The longest answer that is looked at.
const ANSWER_BYTES_MAX: usize = 64;
/// Answers read in one go; more wait for the next datagram's turn.
const ANSWERS_AT_ONCE: usize = 256;

/// Told of each change: since when the client hears whom.
pub type OnChange = Box<dyn FnMut(Duration, Heard) + Send>;

/// A client that asks.
pub struct Client {
    recorder: Arc<Mutex<Recorder>>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Client {
    /// Starts asking from within the network namespace at `namespace`.
    ///
    /// # Errors
    /// The namespace cannot be entered or the socket cannot be made.
    pub fn start(namespace: PathBuf, server: Ipv4Addr, port: u16, on_change: OnChange) -> io::Result<Self> {
        let recorder = Arc::new(Mutex::new(Recorder::new(clock::now())));
        let stop = Arc::new(AtomicBool::new(false));
        let (ready, is_ready) = std::sync::mpsc::sync_channel(1);
        let asker = Asker { recorder: Arc::clone(&recorder), stop: Arc::clone(&stop), on_change };
        // A thread of its own: setns moves one thread, and it never comes back.
        let thread = std::thread::Builder::new().name("client".to_owned()).spawn(move || {
            let socket = enter(&namespace).and_then(|()| socket(SocketAddrV4::new(server, port)));
            let (socket, outcome) = match socket {
                Ok(socket) => (Some(socket), Ok(())),
                Err(error) => (None, Err(error)),
            };
            // The starter waits for it, so that the receiver is there.
            if ready.send(outcome).is_ok()
                && let Some(socket) = socket
            {
                asker.run(&socket);
            }
        })?;
        is_ready.recv().map_err(|_closed| io::Error::other("the client's thread ended at once"))??;
        Ok(Self { recorder, stop, thread: Some(thread) })
    }

    /// What the client has seen so far.
    #[must_use]
    pub fn snapshot(&self) -> Recorder {
        self.recorder.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // It ends within a period; a panic in it has been printed already.
            drop(thread.join());
        }
    }
}

fn enter(namespace: &std::path::Path) -> io::Result<()> {
    let file = std::fs::File::open(namespace)
        .map_err(|error| io::Error::new(error.kind(), format!("cannot open {}: {error}", namespace.display())))?;
    Ok(move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network))?)
}

fn socket(server: SocketAddrV4) -> io::Result<UdpSocket> {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
    socket.connect(server)?;
    socket.set_nonblocking(true)?;
    Ok(socket)
}

struct Asker {
    recorder: Arc<Mutex<Recorder>>,
    stop: Arc<AtomicBool>,
    on_change: OnChange,
}

impl Asker {
    fn run(mut self, socket: &UdpSocket) {
        let mut sequence: u64 = 0;
        let mut due = clock::now();
        while !self.stop.load(Ordering::Relaxed) {
            sequence += 1;
            // An unresolved neighbour or a pending ICMP error is an unanswered datagram like any other.
            drop(socket.send(sequence.to_string().as_bytes()));
            self.record(|recorder| {
                recorder.sent();
                Vec::new()
            });
            due += PERIOD;
            self.listen_until(socket, due);
            let now = clock::now();
            self.record(|recorder| recorder.idle(now).map(|since| (since, Heard::Silence)).into_iter().collect());
            // After a stall there is nothing to catch up on.
            due = due.max(now.saturating_sub(PERIOD));
        }
    }

    fn listen_until(&mut self, socket: &UdpSocket, due: Duration) {
        for _ in 0..ANSWERS_AT_ONCE {
            let now = clock::now();
            let Some(left) = due.checked_sub(now).filter(|left| !left.is_zero()) else { return };
            let mut ready = [rustix::event::PollFd::new(socket, rustix::event::PollFlags::IN)];
            let timeout = rustix::event::Timespec { tv_sec: 0, tv_nsec: i64::from(left.subsec_nanos()) };
            let readable = rustix::event::poll(&mut ready, Some(&timeout)).is_ok_and(|count| count > 0);
            let woken = clock::now();
            let late = woken.saturating_sub(due);
            if late > LATE {
                self.record(|recorder| {
                    recorder.slept(late);
                    Vec::new()
                });
            }
            if readable {
                self.receive(socket, woken);
            }
        }
    }

    fn receive(&mut self, socket: &UdpSocket, now: Duration) {
        let mut answer = [0; ANSWER_BYTES_MAX];
        // An ICMP error is delivered here once, and is no answer.
        if let Ok(length) = socket.recv(&mut answer)
            && let Some(node) = answered_by(&answer[..length])
        {
            self.record(|recorder| recorder.answer(now, node));
        }
    }

    fn record(&mut self, change: impl FnOnce(&mut Recorder) -> Vec<(Duration, Heard)>) {
        let changes = change(&mut self.recorder.lock().unwrap_or_else(PoisonError::into_inner));
        for (since, heard) in changes {
            (self.on_change)(since, heard);
        }
    }
}

/// `41 cp2` was answered by cp2.
fn answered_by(answer: &[u8]) -> Option<Node> {
    let (_sequence, node) = std::str::from_utf8(answer).ok()?.trim().split_once(' ')?;
    node.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_answer_that_names_a_node_counts() {
        assert_eq!(answered_by(b"41 cp2"), Some(Node::new(2)));
        for wrong in [&b""[..], b"41", b"41 ", b"41 nobody", b"\xff cp1", b"cp1"] {
            assert_eq!(answered_by(wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn an_answer_and_then_silence_are_seen_over_a_real_socket() {
        let server = UdpSocket::bind("127.0.0.1:0").unwrap();
        server.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        let port = server.local_addr().unwrap().port();
        let (tell, told) = std::sync::mpsc::channel();
        let on_change: OnChange = Box::new(move |_, heard| {
            tell.send(heard).ok();
        });
        let client = Client::start("/proc/self/ns/net".into(), Ipv4Addr::LOCALHOST, port, on_change).unwrap();
        let mut buffer = [0; 64];
        let (length, from) = server.recv_from(&mut buffer).unwrap();
        let question = std::str::from_utf8(&buffer[..length]).unwrap().to_owned();
        server.send_to(format!("{question} cp3").as_bytes(), from).unwrap();
        let limit = Duration::from_secs(10);
        let mut heard = told.recv_timeout(limit).unwrap();
        if heard == Heard::Silence {
            heard = told.recv_timeout(limit).unwrap();
        }
        assert_eq!(heard, Heard::Node(Node::new(3)));
        assert_eq!(told.recv_timeout(limit).unwrap(), Heard::Silence);
        drop(client);
    }
}
