//! A whole diagnosis beside a real cluster on loopback.

use std::net::Ipv4Addr;
use std::time::Duration;

use fip_watchdog::diagnose::evidence::{Connect, Evidence, MemberSource, Port, Seen, Sockets, Tls};
use fip_watchdog::diagnose::{PATIENCE, diagnose};
use fip_watchdog::policy::Policy;
use fip_watchdog::runtime::clock;
use rustix::process::Signal;

use crate::cluster::{Cluster, eventually};

/// Put beside the deadline: a machine that builds something else meanwhile wakes up late.
const SLACK: Duration = Duration::from_secs(3);

fn policy(cluster: &Cluster) -> Policy {
    Policy {
        etcd: cluster.policy(0),
        state_dir: cluster.dir.path().join("state"),
        ..Policy::with_defaults(Ipv4Addr::new(192, 0, 2, 1), "lo")
    }
}

async fn look(policy: &Policy) -> Evidence {
    let begun = clock::now();
    let evidence = diagnose(policy, None).await.evidence;
    let took = clock::now().since(begun);
    assert!(took < PATIENCE + SLACK, "{took:?} {evidence:#?}");
    evidence
}

fn answers(port: &Seen<Port>) -> bool {
    port.yes().is_some_and(|port| port.connect == Connect::Open && port.tls == Some(Tls::Answered))
}

fn lives(sockets: &Seen<Sockets>) -> bool {
    sockets.yes().is_some_and(|sockets| sockets.established > 0 && sockets.heard_ms.is_none_or(|age| age < 2000))
}

/// All that is to be seen in health.
fn is_sound(seen: &Evidence) -> bool {
    let metrics = seen.metrics.yes().is_some_and(|metrics| {
        metrics.has_leader == Some(true)
            && metrics.db_bytes.is_some()
            && metrics.fsync_ms.is_some()
            && metrics.late_heartbeats.is_some()
    });
    let peers = seen.peers.iter().filter(|peer| {
        let ports = [&peer.peer_port, &peer.client_port];
        let passes = ports.iter().all(|port| answers(port) && port.yes().is_some_and(|port| port.large_passes == Some(true)));
        passes && lives(&peer.inbound) && lives(&peer.outbound)
    });
    // Heartbeats go between the leader and each follower; two followers have little to say to each other.
    let talks = |bytes: Option<u64>| bytes.is_some_and(|bytes| bytes > 0);
    peers.count() == 2
        && seen.peers.iter().any(|peer| talks(peer.received_bytes) && talks(peer.sent_bytes))
        && metrics
        && answers(&seen.own_client_port)
        && answers(&seen.own_peer_port)
        && seen.members.yes().is_some_and(|members| members.source == MemberSource::Etcd && members.list.len() == 3)
}

#[tokio::test]
async fn a_sound_cluster_is_seen_as_such_and_a_peer_that_is_stopped_or_killed_is_told_apart() {
    let mut cluster = Cluster::start(3);
    let policy = policy(&cluster);
    eventually("a sound cluster", async || look(&policy).await, is_sound).await;
    // Busy machines are slow, but not each time.
    let quick = async || {
        let begun = clock::now();
        look(&policy).await;
        clock::now().since(begun)
    };
    eventually("an answer in health", quick, |took| *took < Duration::from_secs(2)).await;

    cluster.members[1].signal(Signal::STOP);
    cluster.members[2].kill();
    let hurt = look(&policy).await;
    let port = |name: &str| {
        let peer = hurt.peers.iter().find(|peer| peer.member.name == name).unwrap();
        let port = peer.peer_port.yes().unwrap();
        (port.connect.clone(), port.tls.clone(), port.large_passes)
    };
    assert_eq!(port("m1"), (Connect::Open, Some(Tls::TimedOut), None), "{hurt:#?}");
    assert_eq!(port("m2"), (Connect::Refused, None, None));
    assert!(answers(&hurt.own_peer_port));
}
