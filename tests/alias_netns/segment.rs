//! Two network namespaces joined by a veth pair: a node and its neighbour.

use std::fs::File;
use std::io::ErrorKind;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::os::fd::AsFd;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

pub const NODE: &str = "192.168.111.201";
pub const NEIGHBOUR: &str = "192.168.111.202";

/// `eth0` in each namespace; both are deleted on drop, and the veth pair with them.
pub struct Segment {
    pub node: String,
    pub neighbour: String,
}

impl Segment {
    pub fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let id = format!("fipwd-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        // Built first, so that a failure half way is cleaned up as well.
        let segment = Self { node: format!("{id}-a"), neighbour: format!("{id}-b") };
        run("ip", &["netns", "add", &segment.node]);
        run("ip", &["netns", "add", &segment.neighbour]);
        let pair =
            ["link", "add", "eth0", "netns", &segment.node, "type", "veth", "peer", "name", "eth0", "netns", &segment.neighbour];
        run("ip", &pair);
        for (name, address) in [(&segment.node, NODE), (&segment.neighbour, NEIGHBOUR)] {
            run("ip", &["-n", name, "link", "set", "lo", "up"]);
            run("ip", &["-n", name, "address", "add", &format!("{address}/24"), "dev", "eth0"]);
            run("ip", &["-n", name, "link", "set", "eth0", "up"]);
        }
        segment
    }

    /// `ip …` in the node's namespace.
    pub fn on_node(&self, arguments: &[&str]) -> String {
        run("ip", &[&["-n", &self.node], arguments].concat())
    }

    /// `ip …` in the neighbour's namespace.
    pub fn on_neighbour(&self, arguments: &[&str]) -> String {
        run("ip", &[&["-n", &self.neighbour], arguments].concat())
    }

    /// Run the body in a thread of its own that lives in the node's namespace.
    pub fn inside<F>(&self, body: F)
    where
        F: AsyncFnOnce(&Self) + Send,
    {
        within(&self.node, || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(body(self));
        });
    }

    /// Run something on a thread of its own that lives in the neighbour's namespace.
    pub fn neighbour_speaks<F>(&self, body: F)
    where
        F: AsyncFnOnce() + Send,
    {
        within(&self.neighbour, || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(body());
        });
    }

    /// Whether the neighbour reaches an address: its kernel refuses the connection, as nobody listens.
    pub fn neighbour_reaches(&self, address: Ipv4Addr) -> bool {
        within(&self.neighbour, || {
            let port = SocketAddr::from((address, 6443));
            let refused = TcpStream::connect_timeout(&port, Duration::from_secs(10)).map_err(|error| error.kind());
            refused.is_err_and(|kind| kind == ErrorKind::ConnectionRefused)
        })
    }
}

/// Run the body in a thread of its own in a namespace.
fn within<T: Send>(namespace: &str, body: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            let namespace = File::open(format!("/run/netns/{namespace}")).unwrap();
            move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network)).unwrap();
            body()
        });
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

impl Drop for Segment {
    fn drop(&mut self) {
        for name in [&self.node, &self.neighbour] {
            let deleted = Command::new("ip").args(["netns", "delete", name]).output();
            if !deleted.as_ref().is_ok_and(|output| output.status.success()) && !std::thread::panicking() {
                panic!("cannot delete network namespace {name}: {deleted:?}");
            }
        }
    }
}

pub fn run(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output().unwrap_or_else(|error| panic!("cannot run {program}: {error}"));
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{program} {arguments:?} failed (these tests need root and iproute2): {err}");
    out.into_owned()
}

/// Ask until the answer is as wanted; the last answer is in the panic.
pub async fn eventually<T: std::fmt::Debug>(what: &str, mut ask: impl AsyncFnMut() -> T, wanted: impl Fn(&T) -> bool) -> T {
    const TRIES: u32 = 400;
    let mut last = None;
    for _ in 0..TRIES {
        let answer = ask().await;
        if wanted(&answer) {
            return answer;
        }
        last = Some(answer);
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("{what}: not within {TRIES} tries; last answer {last:?}");
}
