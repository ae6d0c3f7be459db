//! The member list from another member: `GET /members` on its peer port, which every etcd serves to certificates of its CA.
//!
//! Asked only when the local member gives none. It tells of a removal: a member that was removed ends, and its own store has the old list.

use std::net::SocketAddr;
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::select_ok;
use serde::Deserialize;

use super::super::asker::Asker;
use crate::diagnose::evidence::Member;
use crate::sensor::etcd::{ListedMember, MemberList};

/// Members that are asked at once; a cluster has a handful.
const ASKED_MAX: usize = 8;
/// A list of three members has some 500 bytes.
const BODY_BYTES_MAX: usize = 64 * 1024;

#[derive(Deserialize)]
struct Told {
    id: u64,
    #[serde(default)]
    name: String,
    #[serde(rename = "peerURLs", default)]
    peer_urls: Vec<String>,
    #[serde(rename = "clientURLs", default)]
    client_urls: Vec<String>,
    #[serde(rename = "isLearner", default)]
    learner: bool,
}

/// The first list that one of them tells within `deadline`.
pub(super) async fn ask(peers: &[Member], asker: &Asker, deadline: Duration) -> Option<MemberList> {
    let asked = peers.iter().filter_map(|peer| Some(SocketAddr::new(peer.address?, peer.peer_port))).take(ASKED_MAX);
    let answers: Vec<_> = asked.map(|address| ask_one(address, asker, deadline).boxed()).collect();
    if answers.is_empty() {
        return None;
    }
    select_ok(answers).await.ok().map(|(list, _slower)| list)
}

async fn ask_one(address: SocketAddr, asker: &Asker, deadline: Duration) -> Result<MemberList, String> {
    let host = address.ip().to_string();
    let body = asker.get((&host, address), "/members", BODY_BYTES_MAX, deadline).await?;
    parse(&body).ok_or_else(|| format!("what {address} says is no member list"))
}

fn parse(body: &[u8]) -> Option<MemberList> {
    let told: Vec<Told> = serde_json::from_slice(body).ok()?;
    let members = told.into_iter().map(|told| {
        let Told { id, name, peer_urls, client_urls, learner } = told;
        ListedMember { id, name, peer_urls, client_urls, learner }
    });
    let list = MemberList { own_id: 0, members: members.collect() }.bounded();
    (!list.members.is_empty()).then_some(list)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_etcd_serves_on_its_peer_port_is_understood() {
        let body = br#"[{"id":9372538179322589801,"peerURLs":["https://192.0.2.1:2380"],"name":"cp1","clientURLs":["https://192.0.2.1:2379"]},
            {"id":2,"peerURLs":["https://192.0.2.2:2380"],"isLearner":true}]"#;
        let list = parse(body).unwrap();
        assert_eq!((list.members[0].id, list.members[0].name.as_str()), (9_372_538_179_322_589_801, "cp1"));
        assert!(list.members[1].learner && list.members[1].client_urls.is_empty());
        for none in [&b""[..], b"[]", b"{}", b"404 page not found\n"] {
            assert_eq!(parse(none), None);
        }
    }
}
