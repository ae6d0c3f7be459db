//! What a diagnosis sees of interfaces, addresses and filters of a real kernel, in namespaces of its own.

#![expect(clippy::unwrap_used, reason = "a failed set-up is a failed test")]

#[expect(dead_code, reason = "the segment of the alias tests can do more than is needed here")]
#[path = "../alias_netns/segment.rs"]
mod segment;

use std::io::{Read as _, Write as _};
use std::net::{IpAddr, TcpListener};
use std::process::{Child, Command};

use fip_watchdog::diagnose::evidence::{Connect, Duplicate, FilterRule, Interface, MemberSource, Seen};
use fip_watchdog::diagnose::{Evidence, diagnose};
use fip_watchdog::policy::Policy;
use segment::{NEIGHBOUR, NODE, Segment, eventually, run};

/// etcd's manifest, as far as it is read.
fn etcd(directory: &std::path::Path, flag: &str) {
    let manifest = format!("spec: {{containers: [{{name: etcd, command: [etcd, '{flag}']}}]}}");
    std::fs::File::create(directory.join("etcd.yaml")).unwrap().write_all(manifest.as_bytes()).unwrap();
}

/// A policy whose files are in `directory`, so that nothing of this machine is read.
fn policy(directory: &std::path::Path) -> Policy {
    let mut policy = Policy::with_defaults([192, 168, 111, 200].into(), "eth0");
    policy.watched_loop.manifest = directory.join("wcp-fip.yaml");
    etcd(directory, "--name=cp1");
    policy.watched_loop.log_root = directory.join("logs");
    policy.state_dir = directory.join("state");
    policy.etcd.ca = directory.join("ca.crt");
    policy.etcd.cert = directory.join("server.crt");
    policy.etcd.key = directory.join("server.key");
    policy
}

async fn evidence() -> Evidence {
    let directory = tempfile::tempdir().unwrap();
    diagnose(&policy(directory.path()), None).await.evidence
}

fn interface<'a>(seen: &'a Evidence, name: &str) -> Option<&'a Interface> {
    let interfaces = seen.interfaces.yes().unwrap_or_else(|| panic!("{:?}", seen.interfaces));
    interfaces.iter().find(|interface| interface.name == name)
}

fn runs(seen: &Evidence, name: &str) -> bool {
    interface(seen, name).is_some_and(|interface| interface.running)
}

fn address(text: &str) -> (IpAddr, u8) {
    let (address, prefix) = text.split_once('/').unwrap();
    (address.parse().unwrap(), prefix.parse().unwrap())
}

#[test]
fn interfaces_are_told_with_link_mtu_and_the_addresses_that_others_could_dial() {
    Segment::new().inside(async |segment| {
        segment.on_node(&["link", "set", "eth0", "mtu", "1400"]);
        segment.on_node(&["address", "add", "2001:db8::1/64", "dev", "eth0", "nodad"]);
        segment.on_node(&["link", "add", "pod0", "type", "veth", "peer", "name", "pod1"]);
        let seen = eventually("carrier", evidence, |seen| runs(seen, "eth0")).await;
        let eth0 = interface(&seen, "eth0").unwrap();
        assert_eq!(eth0.mtu, 1400);
        assert_eq!(eth0.addresses, [address("192.168.111.201/24"), address("2001:db8::1/64")]);
        assert_eq!(interface(&seen, "pod0"), None, "nobody dials an interface without an address");
        assert_eq!(interface(&seen, "lo").unwrap().addresses, [address("127.0.0.1/8"), address("::1/128")]);
    });
}

#[test]
fn a_link_without_carrier_or_set_down_does_not_run_and_the_fips_interface_is_told_without_addresses() {
    Segment::new().inside(async |segment| {
        eventually("carrier", evidence, |seen| runs(seen, "eth0")).await;
        segment.on_neighbour(&["link", "set", "eth0", "down"]);
        eventually("no carrier", evidence, |seen| !runs(seen, "eth0")).await;
        segment.on_neighbour(&["link", "set", "eth0", "up"]);
        segment.on_node(&["link", "set", "eth0", "down"]);
        segment.on_node(&["address", "flush", "dev", "eth0"]);
        let seen = evidence().await;
        let eth0 = interface(&seen, "eth0").unwrap();
        assert!(!eth0.running && eth0.addresses.is_empty(), "{eth0:?}");
    });
}

#[test]
fn another_station_that_answers_for_this_nodes_address_is_told_by_its_mac() {
    Segment::new().inside(async |segment| {
        let directory = tempfile::tempdir().unwrap();
        let policy = policy(directory.path());
        etcd(directory.path(), &format!("--initial-cluster=cp1=https://{NODE}:2380,cp2=https://{NEIGHBOUR}:2380"));
        eventually("carrier", evidence, |seen| runs(seen, "eth0")).await;

        let alone = diagnose(&policy, None).await.evidence;
        assert_eq!(alone.duplicates, Seen::Yes(Vec::new()), "{:?}", alone.members);
        assert_eq!(alone.members.yes().unwrap().source, MemberSource::InitialCluster);

        segment.on_neighbour(&["address", "add", &format!("{NODE}/32"), "dev", "eth0"]);
        let line = segment.on_neighbour(&["-o", "link", "show", "eth0"]);
        let mac = line.split_whitespace().skip_while(|word| *word != "link/ether").nth(1).unwrap();
        let doubled = Duplicate { address: NODE.parse().unwrap(), mac: mac.to_owned() };
        eventually(
            "the duplicate",
            async || diagnose(&policy, None).await.evidence.duplicates,
            |seen| *seen == Seen::Yes(vec![doubled.clone()]),
        )
        .await;
        let cache = segment.on_neighbour(&["neighbour", "show", NODE]);
        assert!(!cache.contains("0.0.0.0"), "a probe leaves no trace: {cache}");

        segment.on_node(&["address", "delete", &format!("{NODE}/24"), "dev", "eth0"]);
        let moved = diagnose(&policy, None).await.evidence.duplicates;
        assert!(
            matches!(&moved, Seen::No(why) if why.contains("is not known") || why.contains("is on no interface")),
            "{moved:?}"
        );
    });
}

#[test]
fn what_came_in_just_before_a_drop_is_not_told_beside_calls_that_failed_in_it() {
    Segment::new().inside(async |segment| {
        let directory = tempfile::tempdir().unwrap();
        let policy = policy(directory.path());
        etcd(directory.path(), &format!("--initial-cluster=cp1=https://{NODE}:2380,cp2=https://{NEIGHBOUR}:2380"));
        eventually("carrier", evidence, |seen| runs(seen, "eth0")).await;
        let ours = TcpListener::bind((NODE, 2380)).unwrap();
        let call = format!("exec 3<>/dev/tcp/{NODE}/2380; echo >&3; read -r -u 3");
        let caller = Caller(Command::new("ip").args(["netns", "exec", &segment.neighbour, "bash", "-c", &call]).spawn().unwrap());
        let (mut stream, _) = ours.accept().unwrap();
        stream.read_exact(&mut [0]).unwrap();
        let drop_all = "add table ip cut; add chain ip cut in { type filter hook input priority 0; policy drop; }";
        run("ip", &["netns", "exec", &segment.neighbour, "nft", drop_all]);

        let seen = diagnose(&policy, None).await.evidence;
        let peer = seen.peers.first().unwrap();
        assert_eq!(peer.peer_port.yes().unwrap().connect, Connect::TimedOut);
        let inbound = peer.inbound.yes().unwrap();
        assert!(inbound.established == 1 && inbound.heard_ms.is_some_and(|heard| heard >= 3_000), "{inbound:?}");
        drop(caller);
    });
}

/// Ended and reaped on drop.
struct Caller(Child);

impl Drop for Caller {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

#[test]
fn rules_of_a_real_kernel_that_stop_etcd_are_named_with_their_counters() {
    Segment::new().inside(async |segment| {
        let nft = |command: &str| run("ip", &["netns", "exec", &segment.node, "nft", command]);
        let filters = async || evidence().await.filters;
        assert_eq!(filters().await, Seen::Yes(Vec::new()));
        nft("add table inet guard; add chain inet guard in { type filter hook input priority 0; policy drop; }");
        nft("add rule inet guard in ct state established,related accept; add rule inet guard in tcp dport 2379 accept");
        nft("add rule inet guard in tcp dport 2380 counter packets 5 bytes 300 drop");
        nft("add chain inet guard out { type filter hook output priority 0; policy accept; }");
        nft("add rule inet guard out meta mark 7 tcp dport { 2379, 2380 } reject with tcp reset");
        nft("add rule inet guard out udp dport 2380 drop; add rule inet guard out tcp dport 22 drop");
        let rule = |place: &str, rule: &str, packets| FilterRule { place: place.to_owned(), rule: rule.to_owned(), packets };
        let expected = [
            rule("inet guard in (input)", "tcp dport 2380 drop", Some(5)),
            rule("inet guard out (output)", "meta mark 7 tcp dport { 2379, 2380 } reject", None),
        ];
        assert_eq!(filters().await, Seen::Yes(expected.to_vec()));
        nft("flush ruleset; add table ip t; add chain ip t in { type filter hook input priority 0; policy drop; }");
        assert_eq!(filters().await, Seen::Yes(vec![rule("ip t in (input)", "policy drop", None)]));
    });
}
