//! The tree, a line a check, in the order in which an on-call person goes: the article's first (members, container, log, kubelet, own ports, peers),
//! then what it does not look at.

mod etcd;
mod node;
mod peers;

use super::sight::Sight;
use crate::diagnose::diagnosis::{Check, Mark};

/// Most peers that have lines of their own.
const PEERS_MAX: usize = 12;

/// All lines.
pub(super) fn all(sight: &Sight<'_>) -> Vec<Check> {
    let mut checks = vec![etcd::members(sight), etcd::container(sight), etcd::log(sight), node::kubelet(sight)];
    checks.extend(etcd::own_ports(sight));
    checks.push(etcd::status(sight));
    checks.push(node::link(sight));
    for reach in sight.reaches.iter().take(PEERS_MAX) {
        checks.extend(peers::lines(sight, reach));
    }
    checks.extend(peers::left_out(&sight.reaches, PEERS_MAX));
    checks.extend(node::certificates(sight));
    checks.push(node::clock(sight));
    checks.push(etcd::space(sight));
    checks.push(etcd::disk(sight));
    checks.push(node::address(sight));
    checks.push(node::duplicates(sight));
    checks.push(node::two_interfaces(sight));
    checks.push(node::filters(sight));
    checks.push(node::host(sight));
    checks
}

/// A line.
fn line(
    name: impl Into<String>,
    mark: Mark,
    seen: impl Into<String>,
    means: impl Into<String>,
    by_hand: impl Into<String>,
) -> Check {
    Check { name: name.into(), mark, seen: seen.into(), means: means.into(), by_hand: by_hand.into() }
}

/// What could not be seen, and why.
fn unseen(name: impl Into<String>, why: &str, by_hand: impl Into<String>) -> Check {
    line(name, Mark::Unseen, format!("not seen: {why}"), "", by_hand)
}
