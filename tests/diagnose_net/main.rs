//! Ports as a diagnosis tries them: against servers with every fault of a certificate, against a real etcd, and over links that lose packets.

#![expect(clippy::unwrap_used, reason = "a failed set-up is a failed test")]

#[allow(dead_code, reason = "shared with another test")]
#[path = "../etcd_proof/cluster.rs"]
mod cluster;
mod links;
#[allow(dead_code, reason = "shared with another test")]
#[path = "../alias_netns/segment.rs"]
mod segment;
mod stand_in;
mod whole;

use std::net::SocketAddr;

use fip_watchdog::diagnose::evidence::{Connect, Port, Tls};
use fip_watchdog::diagnose::try_port;
use fip_watchdog::runtime::clock;
use rcgen::{CertificateParams, ExtendedKeyUsagePurpose, date_time_ymd};
use rustix::process::Signal;
use stand_in::{Authority, Files, Server, VERSIONS};
use tokio::net::TcpListener;

async fn bound() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    (listener, address)
}

/// What is seen of a server whose certificate was changed so.
async fn seen_of(change: impl FnOnce(&mut CertificateParams)) -> Port {
    let ca = Authority::new();
    let files = Files::new(&ca, &ca.issue(|_| ()));
    let (listener, address) = bound().await;
    Server::new(&ca, &ca.issue(change), VERSIONS[0]).serve(listener);
    try_port(&files.policy(), address).await
}

fn untrusted(port: &Port) -> &str {
    match &port.tls {
        Some(Tls::Untrusted(why)) => why,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_port_that_answers_shows_its_clock_and_that_large_packets_pass() {
    for version in VERSIONS {
        let ca = Authority::new();
        let files = Files::new(&ca, &ca.issue(|_| ()));
        let (listener, address) = bound().await;
        Server::new(&ca, &ca.issue(|_| ()), version).serve(listener);
        let port = try_port(&files.policy(), address).await;
        assert_eq!((&port.connect, &port.tls, port.large_passes), (&Connect::Open, &Some(Tls::Answered), Some(true)));
        // The stand-in's clock stands at the beginning of 2026.
        let off = i64::try_from(clock::wall().as_secs()).unwrap() - 1_767_225_600;
        assert!((port.clock_offset_ms.unwrap() / 1000 + off).abs() <= 2, "{port:?}");
    }
}

#[tokio::test]
async fn why_a_certificate_is_not_trusted_is_told() {
    let expired = seen_of(|params| params.not_after = date_time_ymd(2020, 1, 1)).await;
    assert!(untrusted(&expired).starts_with("expired: "), "{expired:?}");
    let early = seen_of(|params| params.not_before = date_time_ymd(3000, 1, 1)).await;
    assert!(untrusted(&early).starts_with("not yet valid: "), "{early:?}");
    let named = seen_of(|params| drop(params.subject_alt_names.remove(0))).await;
    assert!(untrusted(&named).starts_with("wrong name: "), "{named:?}");
    let used = seen_of(|params| params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth]).await;
    assert!(untrusted(&used).starts_with("wrong usage: "), "{used:?}");
}

#[tokio::test]
async fn another_ca_is_told_at_either_end() {
    for version in VERSIONS {
        let (ours, theirs) = (Authority::new(), Authority::new());
        let of_theirs = Files::new(&ours, &theirs.issue(|_| ()));
        let (listener, address) = bound().await;
        Server::new(&theirs, &theirs.issue(|_| ()), version).serve(listener);
        let port = try_port(&of_theirs.policy(), address).await;
        assert!(untrusted(&port).starts_with("unknown CA: "), "{port:?}");

        let of_ours = Files::new(&theirs, &ours.issue(|_| ()));
        let port = try_port(&of_ours.policy(), address).await;
        assert!(matches!(&port.tls, Some(Tls::RefusedOurs(why)) if why.starts_with("alert ")), "{port:?}");
        assert_eq!(port.large_passes, None);
    }
}

#[tokio::test]
async fn without_a_usable_key_the_servers_certificate_is_judged_all_the_same() {
    let (ca, other) = (Authority::new(), Authority::new());
    let files = Files::new(&ca, &ca.issue(|_| ()));
    std::fs::remove_file(files.path("key")).unwrap();
    let (listener, address) = bound().await;
    Server::new(&ca, &ca.issue(|_| ()), VERSIONS[0]).serve(listener);
    let port = try_port(&files.policy(), address).await;
    assert_eq!((&port.connect, &port.tls), (&Connect::Open, &None));

    let (listener, address) = bound().await;
    Server::new(&other, &other.issue(|_| ()), VERSIONS[0]).serve(listener);
    let port = try_port(&files.policy(), address).await;
    assert!(untrusted(&port).starts_with("unknown CA: "), "{port:?}");

    std::fs::remove_file(files.path("ca")).unwrap();
    let port = try_port(&files.policy(), address).await;
    assert_eq!((&port.connect, &port.tls), (&Connect::Open, &None));
}

#[tokio::test]
async fn who_listens_and_never_answers_times_out_and_is_no_black_hole() {
    let ca = Authority::new();
    let files = Files::new(&ca, &ca.issue(|_| ()));
    let (listener, address) = bound().await;
    let begun = clock::now();
    let port = try_port(&files.policy(), address).await;
    assert_eq!((&port.connect, &port.tls, port.large_passes), (&Connect::Open, &Some(Tls::TimedOut), None));
    assert!(clock::now().since(begun).as_millis() < 3400);
    drop(listener);
    assert_eq!(try_port(&files.policy(), address).await.connect, Connect::Refused);
}

/// The port of an URL among a member's arguments.
fn port_of(member: &cluster::Member, flag: &str) -> u16 {
    let value = member.arguments.iter().skip_while(|argument| *argument != flag).nth(1).unwrap();
    value.rsplit_once(':').unwrap().1.parse().unwrap()
}

#[tokio::test]
async fn a_real_etcd_answers_on_both_ports_and_takes_large_requests_until_it_is_stopped() {
    let cluster = cluster::Cluster::start(1);
    let policy = cluster.policy(0);
    for port in [port_of(&cluster.members[0], "--listen-client-urls"), port_of(&cluster.members[0], "--listen-peer-urls")] {
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        // While it starts, its answers come late or not at all.
        let passes = |port: &Port| port.large_passes == Some(true) && port.tls == Some(Tls::Answered);
        let seen = cluster::eventually("etcd", async || try_port(&policy, address).await, passes).await;
        assert!(seen.clock_offset_ms.unwrap().abs() < 1500, "{seen:?}");
    }
    let log = std::fs::read_to_string(cluster.dir.path().join("m0.log")).unwrap();
    assert!(!log.contains("rejected connection"), "{log}");
    cluster.members[0].signal(Signal::STOP);
    let address = SocketAddr::from(([127, 0, 0, 1], port_of(&cluster.members[0], "--listen-peer-urls")));
    let seen = try_port(&policy, address).await;
    assert_eq!((seen.connect, seen.tls, seen.large_passes), (Connect::Open, Some(Tls::TimedOut), None));
}
