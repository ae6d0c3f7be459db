//! What a diagnosis sees of interfaces, addresses and filters of a real kernel, in namespaces of its own.

#![expect(clippy::unwrap_used, reason = "a failed set-up is a failed test")]

#[expect(dead_code, reason = "the segment of the alias tests can do more than is needed here")]
#[path = "../alias_netns/segment.rs"]
mod segment;

use std::net::IpAddr;

use fip_watchdog::diagnose::evidence::Interface;
use fip_watchdog::diagnose::{Evidence, diagnose};
use fip_watchdog::policy::Policy;
use segment::{Segment, eventually};

/// A policy whose files are in `directory`, so that nothing of this machine is read.
fn policy(directory: &std::path::Path) -> Policy {
    let mut policy = Policy::with_defaults([192, 168, 111, 200].into(), "eth0");
    policy.watched_loop.manifest = directory.join("manifests/wcp-fip.yaml");
    policy.watched_loop.log_root = directory.join("logs");
    policy.state_dir = directory.join("state");
    policy.etcd.ca = directory.join("ca.crt");
    policy.etcd.cert = directory.join("server.crt");
    policy.etcd.key = directory.join("server.key");
    policy
}

async fn evidence() -> Evidence {
    let directory = tempfile::tempdir().unwrap();
    diagnose(&policy(directory.path())).await.evidence
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
