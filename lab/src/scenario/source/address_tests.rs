//! The address monitor on a real kernel, in a namespace of the test's own.

use std::process::{Command as Blocking, Stdio};

use tokio::sync::mpsc::{Receiver, channel};

use super::*;
use crate::scenario::event::Event;
use crate::scenario::node::Node;

#[test]
fn the_fip_with_its_lifetime_is_read_with_and_without_labels() {
    let lease = r"3: eth0    inet 192.168.111.200/32 scope global dynamic eth0\       valid_lft 10sec preferred_lft 10sec";
    let forever = r"3: eth0    inet 192.168.111.200/32 scope global eth0\       valid_lft forever preferred_lft forever";
    assert_eq!(parse(lease), Some(Line::Held(Lifetime::Lease)));
    assert_eq!(parse(forever), Some(Line::Held(Lifetime::Forever)));
    assert_eq!(parse(&format!("[ADDR]{forever}")), Some(Line::Held(Lifetime::Forever)));
    assert_eq!(parse(&format!("Deleted {forever}")), Some(Line::Gone));
    assert_eq!(parse(&format!("[ADDR]Deleted {lease}")), Some(Line::Gone));
}

#[test]
fn other_addresses_and_other_interfaces_are_not_the_fip() {
    for line in [
        r"3: eth0    inet 192.168.111.201/24 brd 192.168.111.255 scope global eth0\       valid_lft forever preferred_lft forever",
        r"3: eth0    inet 192.168.111.20/32 scope global eth0\       valid_lft forever preferred_lft forever",
        r"3: eth0    inet6 fe80::443b:66ff:fe27:50a8/64 scope link tentative \       valid_lft forever preferred_lft forever",
        r"4: eth1    inet 192.168.111.200/32 scope global eth1\       valid_lft forever preferred_lft forever",
        r"2: p0@eth0: <BROADCAST,MULTICAST,UP,LOWER_UP> mtu 1500 qdisc noqueue state UP",
        "",
        "3:",
        "3: eth0",
        "3: eth0: not-flags",
    ] {
        assert_eq!(parse(line), None, "{line}");
    }
}

#[test]
fn a_link_is_up_only_with_a_carrier() {
    let link = |flags: &str| {
        parse(&format!(r"[LINK]3: eth0@if4: <{flags}> mtu 1500 qdisc noqueue state UP group default \    link/ether 46:3b"))
    };
    assert_eq!(link("BROADCAST,MULTICAST,UP,LOWER_UP"), Some(Line::Link { up: true }));
    assert_eq!(link("NO-CARRIER,BROADCAST,MULTICAST,UP"), Some(Line::Link { up: false }));
    assert_eq!(link("NO-CARRIER,BROADCAST,MULTICAST,UP,LOWER_UP"), Some(Line::Link { up: false }));
    assert_eq!(link("BROADCAST,MULTICAST"), Some(Line::Link { up: false }));
}

#[test]
fn a_renewed_lease_is_no_news_and_a_hand_over_is() {
    let mut known = Known::default();
    assert_eq!(known.news(Line::Held(Lifetime::Lease)), Some(What::FipHeld(Lifetime::Lease)));
    assert_eq!(known.news(Line::Held(Lifetime::Lease)), None);
    assert_eq!(known.news(Line::Held(Lifetime::Forever)), Some(What::FipHeld(Lifetime::Forever)));
    assert_eq!(known.news(Line::Gone), Some(What::FipGone));
    assert_eq!(known.news(Line::Gone), None);
}

/// A network namespace that goes away with the test.
struct Namespace(String);

impl Namespace {
    fn new() -> Self {
        let name = format!("fip-lab-address-test-{}", std::process::id());
        let namespace = Self(name.clone());
        assert!(Blocking::new("ip").args(["netns", "add", &name]).status().unwrap().success(), "this test needs root");
        namespace.ip("link add eth0 type veth peer name port");
        namespace.ip("link set port up");
        namespace.ip("link set eth0 up");
        namespace
    }

    fn ip(&self, words: &str) {
        let done = Blocking::new("ip").args(["-n", &self.0]).args(words.split(' ')).status().unwrap();
        assert!(done.success(), "ip {words}");
    }

    fn command(&self, argv: &[&str]) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.0]).args(argv);
        command
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        Blocking::new("ip").args(["netns", "delete", &self.0]).stderr(Stdio::null()).status().ok();
    }
}

async fn next(events: &mut Receiver<Event>) -> What {
    tokio::time::timeout(Duration::from_secs(10), events.recv()).await.expect("no event in time").expect("the source ended").what
}

#[tokio::test]
async fn a_real_kernel_is_followed_from_its_state_through_lease_hand_over_and_a_lost_carrier() {
    let namespace = Namespace::new();
    namespace.ip("addr add 192.168.111.200/32 dev eth0 valid_lft 60 preferred_lft 60");
    let (send, mut events) = channel(64);
    let monitor = super::super::spawn(namespace.command(&MONITOR)).unwrap();
    let lists = LISTS.map(|list| namespace.command(&list));
    let task = tokio::spawn(follow(monitor, lists, Out { node: Node::new(1), events: send }));
    assert_eq!(next(&mut events).await, What::FipHeld(Lifetime::Lease));
    assert_eq!(next(&mut events).await, What::Link { up: true });
    namespace.ip("addr change 192.168.111.200/32 dev eth0 valid_lft 50 preferred_lft 50");
    namespace.ip("addr change 192.168.111.200/32 dev eth0 valid_lft forever preferred_lft forever");
    assert_eq!(next(&mut events).await, What::FipHeld(Lifetime::Forever));
    namespace.ip("link set port down");
    assert_eq!(next(&mut events).await, What::Link { up: false });
    namespace.ip("addr del 192.168.111.200/32 dev eth0");
    assert_eq!(next(&mut events).await, What::FipGone);
    task.abort();
}
