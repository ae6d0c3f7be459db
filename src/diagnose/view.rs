//! What a daemon shares of its own sight of the peers, where `cluster.share_views` is on: a value in etcd under a lease, and back.
//!
//! Invariant: bounded both ways. What another node wrote is clipped, and what is not understood, or bears a stamp from the future, is no
//! view. Pure.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use super::evidence::{Connect, MemberId, PeerView};
use crate::audit::text::sentence;

/// Before the member's id in hexadecimal. No other key of etcd is ever written.
pub const PREFIX: &str = "/fip-watchdog/views/";

/// The largest value that is written or read.
const BYTES_MAX: usize = 4096;

/// Members of a view; etcd's own advice is seven at most.
const PORTS_MAX: usize = 16;

/// How far another node's clock may be ahead of ours for its stamp to be worth anything.
const AHEAD_MS_MAX: u64 = 5_000;

/// The value.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct SharedView {
    /// The node's name.
    pub node: String,
    /// Its verdict.
    pub verdict: String,
    /// The MAC of the FIP's interface, for whoever sees it in ARP.
    pub mac: Option<String>,
    /// Whether the FIP is there.
    pub holds_fip: Option<bool>,
    /// When the peers were looked at, in milliseconds since the Unix epoch, by its clock.
    pub wall_ms: u64,
    /// How connecting to each other member's peer port ended, by address.
    pub peer_ports: Vec<(IpAddr, Connect)>,
}

/// The key of a member.
#[must_use]
pub fn key(member_id: u64) -> String {
    format!("{PREFIX}{member_id:x}")
}

/// Whose key it is.
#[must_use]
pub fn member_of(key: &str) -> Option<MemberId> {
    u64::from_str_radix(key.strip_prefix(PREFIX)?, 16).ok().map(MemberId)
}

impl SharedView {
    /// As it is put into etcd.
    ///
    /// # Errors
    /// It would be too long.
    pub fn encode(&self) -> Result<Vec<u8>, String> {
        let view = Self { peer_ports: bounded(&self.peer_ports), ..self.clone() };
        let bytes = serde_json::to_vec(&view).map_err(|error| error.to_string())?;
        if bytes.len() > BYTES_MAX { Err(format!("a view of {} bytes is too long", bytes.len())) } else { Ok(bytes) }
    }

    /// What another node put there, as seen at `wall_ms`; none if it is no view.
    #[must_use]
    pub fn decode(bytes: &[u8], wall_ms: u64) -> Option<PeerView> {
        if bytes.len() > BYTES_MAX {
            return None;
        }
        let view: Self = serde_json::from_slice(bytes).ok()?;
        let from_the_future = view.wall_ms > wall_ms.saturating_add(AHEAD_MS_MAX);
        (!from_the_future).then(|| PeerView {
            node: sentence(&view.node),
            verdict: sentence(&view.verdict),
            age_ms: wall_ms.saturating_sub(view.wall_ms),
            peer_ports: bounded(&view.peer_ports),
        })
    }
}

fn bounded(ports: &[(IpAddr, Connect)]) -> Vec<(IpAddr, Connect)> {
    let clipped = |connect: &Connect| match connect {
        Connect::Other(text) => Connect::Other(crate::audit::text::clip(text, 100)),
        Connect::Open | Connect::Refused | Connect::TimedOut | Connect::Rejected | Connect::NoHost | Connect::NoRoute => {
            connect.clone()
        }
    };
    ports.iter().take(PORTS_MAX).map(|(address, connect)| (*address, clipped(connect))).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn view() -> SharedView {
        let peer_ports =
            vec![([192, 0, 2, 2].into(), Connect::TimedOut), ([192, 0, 2, 3].into(), Connect::Other("x".repeat(9000)))];
        SharedView { node: "cp1".to_owned(), verdict: "healthy".to_owned(), wall_ms: 50_000, peer_ports, ..SharedView::default() }
    }

    #[test]
    fn what_one_node_writes_another_reads_with_its_age() {
        let bytes = view().encode().unwrap();
        let read = SharedView::decode(&bytes, 57_000).unwrap();
        assert_eq!((read.node.as_str(), read.age_ms, read.peer_ports.len()), ("cp1", 7_000, 2));
        assert_eq!(read.peer_ports[0].1, Connect::TimedOut);
        assert_eq!(SharedView::decode(&bytes, 46_000).unwrap().age_ms, 0, "clocks are a little apart");
        assert_eq!(SharedView::decode(&bytes, 44_000), None, "how old it is cannot be told");
    }

    #[test]
    fn a_later_version_may_say_more_and_the_key_names_the_member() {
        let text = br#"{"node":"cp2","verdict":"odd","wall_ms":1,"peer_ports":[["192.0.2.1","open"]],"more":[1]}"#;
        assert_eq!(SharedView::decode(text, 2).unwrap().peer_ports, [([192, 0, 2, 1].into(), Connect::Open)]);
        assert_eq!(member_of(&key(0xfeed_0000_0000_0001)), Some(MemberId(0xfeed_0000_0000_0001)));
        for odd in ["/fip-watchdog/views/", "/fip-watchdog/views/xyz", "/registry/pods", "/fip-watchdog/views/1/2"] {
            assert_eq!(member_of(odd), None, "{odd}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_bounded_view_or_none(bytes in proptest::collection::vec(any::<u8>(), 0..256), wall_ms: u64) {
            drop(SharedView::decode(&bytes, wall_ms));
        }
    }
}
