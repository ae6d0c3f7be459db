//! Faults of the wires and of the address.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;

use anyhow::Context as _;

use super::{EXEC_LIMIT, Target, wire};
use crate::command;
use crate::network::{CLIENT, FIP, bridge_namespace, ip};

/// The table that `partition` makes in the node's network namespace.
const TABLE: &str = "fiplab";
/// Its name at the switch.
const WIRE: &str = "cut";

pub(super) async fn link_down(target: &Target<'_>) -> anyhow::Result<()> {
    match target.choice("side", &["bridge", "node"])? {
        "node" => set_links(target, "", "eth0", "down").await,
        _ => set_links(target, &bridge_namespace(target.lab.name()), &target.node.to_string(), "down").await,
    }
}

pub(super) async fn link_up(target: &Target<'_>) -> anyhow::Result<()> {
    set_links(target, "", "eth0", "up").await?;
    set_links(target, &bridge_namespace(target.lab.name()), &target.node.to_string(), "up").await
}

/// An empty `netns` is the node's.
async fn set_links(target: &Target<'_>, netns: &str, link: &str, state: &str) -> anyhow::Result<()> {
    let netns = if netns.is_empty() { &target.lab.node(target.node).netns } else { netns };
    ip(netns, &format!("link set {link} {state}")).await?;
    Ok(())
}

pub(super) async fn partition(target: &Target<'_>) -> anyhow::Result<()> {
    let peers = peers(target.arg("peers", "nodes"), target)?;
    let ports = ports(target.arg("ports", "all"))?;
    let direction = target.choice("direction", &["both", "in", "out"])?;
    let action = target.choice("action", &["drop", "reject"])?;
    let halves = halves(&peers, &ports, direction, action);
    join(target).await?;
    if target.choice("where", &["node", "network"])? == "network" {
        // At the switch both ends of a packet tell whose it is.
        let own = target.node.ip();
        let ends = [format!("ip daddr {own} "), format!("ip saddr {own} ")];
        let rules = halves.iter().zip(&ends).flat_map(|(rules, end)| rules.iter().map(move |rule| format!("{end}{rule}; ")));
        return wire::filter(target, WIRE, &rules.collect::<String>()).await;
    }
    let chains = halves.iter().zip(["input", "output"]).map(|(rules, hook)| {
        let rules: String = rules.iter().map(|rule| format!("{rule}; ")).collect();
        format!("chain {hook} {{ type filter hook {hook} priority 0; policy accept; {rules}}}\n")
    });
    netns_nft(target, &format!("table ip {TABLE} {{\n{}}}\n", chains.collect::<String>())).await
}

pub(super) async fn join(target: &Target<'_>) -> anyhow::Result<()> {
    delete_table(target, TABLE).await?;
    wire::pass(target, WIRE).await
}

fn peers(text: &str, target: &Target<'_>) -> anyhow::Result<BTreeSet<Ipv4Addr>> {
    let others = || target.lab.nodes().iter().filter(|node| node.id != target.node);
    let mut found = BTreeSet::new();
    for word in text.split(',').map(str::trim) {
        match word {
            "nodes" => found.extend(others().map(|node| node.ip)),
            "all" => found.extend(others().map(|node| node.ip).chain([CLIENT])),
            "client" => found.extend([CLIENT]),
            name => found.extend([target.lab.find(name.parse()?)?.ip]),
        }
    }
    Ok(found)
}

fn ports(text: &str) -> anyhow::Result<BTreeSet<u16>> {
    if text == "all" {
        return Ok(BTreeSet::new());
    }
    text.split(',').map(|word| word.trim().parse().with_context(|| format!("{word:?} is not a port"))).collect()
}

/// With ports, `in` and `out` are about who asks: both halves of such a connection are cut at once, since etcd's streams carry
/// messages in answers, and half a connection goes on delivering for a while. Without ports all packets of that direction go.
/// The rules for packets that come to the node, and for those that leave it.
fn halves(peers: &BTreeSet<Ipv4Addr>, ports: &BTreeSet<u16>, direction: &str, action: &str) -> [Vec<String>; 2] {
    let set = |words: Vec<String>| format!("{{ {} }}", words.join(", "));
    let peers = set(peers.iter().map(ToString::to_string).collect());
    let number = set(ports.iter().map(ToString::to_string).collect());
    // What a filtering router answers; the asking side sees EHOSTUNREACH at once.
    let verdict = if action == "reject" { "reject with icmp type host-prohibited" } else { "drop" };
    let includes = |wanted: &str| direction == "both" || direction == wanted;
    [("saddr", "in", "out"), ("daddr", "out", "in")].map(|(side, request, answer)| {
        let mut rules = Vec::new();
        if ports.is_empty() && includes(request) {
            rules.push(format!("ip {side} {peers} {verdict}"));
        }
        for (field, direction) in [("dport", request), ("sport", answer)] {
            if !ports.is_empty() && includes(direction) {
                rules.push(format!("ip {side} {peers} th {field} {number} {verdict}"));
            }
        }
        rules
    })
}

/// Loads rules into the node's network namespace.
pub(super) async fn netns_nft(target: &Target<'_>, rules: &str) -> anyhow::Result<()> {
    command::success(&mut target.lab.netns_command(target.node, &["nft", rules]), EXEC_LIMIT).await?;
    Ok(())
}

/// Removes a table; nft before 1.1 has no `destroy`, but adding one that is there is no error.
pub(super) async fn delete_table(target: &Target<'_>, table: &str) -> anyhow::Result<()> {
    netns_nft(target, &format!("add table ip {table}; delete table ip {table}")).await
}

pub(super) async fn add_fip(target: &Target<'_>) -> anyhow::Result<()> {
    ip(&target.lab.node(target.node).netns, &format!("addr replace {FIP}/32 dev eth0")).await?;
    Ok(())
}

/// Deletes what is there, whatever its prefix.
pub(super) async fn delete_fip(target: &Target<'_>) -> anyhow::Result<()> {
    let netns = &target.lab.node(target.node).netns;
    let listed = ip(netns, "-4 -o addr show dev eth0").await?;
    for address in held(&listed) {
        ip(netns, &format!("addr del {address} dev eth0")).await?;
    }
    Ok(())
}

fn held(listed: &str) -> Vec<&str> {
    let addresses = listed.lines().filter_map(|line| line.split_ascii_whitespace().skip_while(|word| *word != "inet").nth(1));
    addresses.filter(|address| address.split_once('/').is_some_and(|(ip, _)| ip == FIP.to_string())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_halves_of_a_connection_are_cut_and_the_other_direction_goes_on() {
        let peers = BTreeSet::from([Ipv4Addr::new(192, 168, 111, 202)]);
        let [incoming, outgoing] = halves(&peers, &BTreeSet::from([2379, 2380]), "in", "drop");
        assert_eq!(incoming, ["ip saddr { 192.168.111.202 } th dport { 2379, 2380 } drop"]);
        assert_eq!(outgoing, ["ip daddr { 192.168.111.202 } th sport { 2379, 2380 } drop"]);
        let [incoming, outgoing] = halves(&peers, &BTreeSet::new(), "both", "reject");
        assert_eq!(incoming, ["ip saddr { 192.168.111.202 } reject with icmp type host-prohibited"]);
        assert_eq!(outgoing, ["ip daddr { 192.168.111.202 } reject with icmp type host-prohibited"]);
    }

    #[test]
    fn the_fip_is_found_with_any_prefix_and_nothing_else_is() {
        let listed = "2: eth0    inet 192.168.111.201/24 brd 192.168.111.255 scope global eth0\\       valid_lft forever\n\
                      2: eth0    inet 192.168.111.200/32 scope global eth0\\  x\n2: eth0    inet 192.168.111.200/24 scope global secondary eth0";
        assert_eq!(held(listed), ["192.168.111.200/32", "192.168.111.200/24"]);
    }

    #[test]
    fn ports_are_numbers_or_all() {
        assert!(ports("all").unwrap().is_empty());
        assert_eq!(ports("2380,2379").unwrap().into_iter().collect::<Vec<_>>(), [2379, 2380]);
        assert!(ports("http").is_err());
    }
}
