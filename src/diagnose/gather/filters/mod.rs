//! Packet filters of this node that drop or reject what etcd's members say to each other: nftables and iptables, as their tools list them.
//!
//! ```text
//!   nft -j list ruleset, iptables-save -c (bounded) ──► tables ──► etcd's packets walk through them (pure) ──► the rules that stop them
//! ```
//!
//! Invariants: lists only; a tool that is not there or is refused is said; one command at a time, and it ends with its deadline. What is
//! not understood in a ruleset stops nothing. May be dropped at any await.

mod iptables;
mod model;
mod nft;
#[cfg(test)]
mod tests;
mod values;

use std::net::IpAddr;
use std::time::Duration;

use super::aside::Aside;
use super::command::{self, Output};
use crate::audit::text::clip;
use crate::diagnose::evidence::{FilterRule, Member, Members, Seen};
use model::{Hook, Packet, Stop, Table};

/// For each of the two tools. A ruleset of a node with thousands of services takes some 100 ms.
const TOOL_TIME: Duration = Duration::from_millis(1400);
/// For both.
const TIME: Duration = Duration::from_millis(3000);
/// The largest listing that is read: some 50,000 rules.
const BYTES_MAX: usize = 16 << 20;
/// Rules that are told of.
const RULES_MAX: usize = 16;
/// Bytes of a rule or a reason that are told.
const TEXT_BYTES_MAX: usize = 200;
/// Members whose packets are tried.
const PEERS_MAX: usize = 16;

/// One of the ports from which connections are made (`net.ipv4.ip_local_port_range`), for all of them.
const CALLERS_PORT: u16 = 45_678;

static FILTERS: Aside = Aside::new("the packet filter");

/// See the module's head. `own` is the local member, when it is known.
pub(super) async fn look(members: &Seen<Members>, own: Option<&Member>) -> Seen<Vec<FilterRule>> {
    let packets = packets(members.yes(), own);
    let read = FILTERS.read(TIME, move || judge(nft_tables(), iptables_tables(), &packets)).await;
    read.unwrap_or_else(Seen::No)
}

/// Both tools' answers in one. What one of them shows counts, whatever became of the other.
fn judge(nft: Result<Vec<Table>, String>, iptables: Result<Vec<Table>, String>, packets: &[Packet]) -> Seen<Vec<FilterRule>> {
    let (tables, reasons): (Vec<_>, Vec<_>) = [nft, iptables].into_iter().partition(Result::is_ok);
    if tables.is_empty() {
        let reasons: Vec<String> = reasons.into_iter().filter_map(Result::err).collect();
        return Seen::No(clip(&reasons.join("; "), TEXT_BYTES_MAX));
    }
    let tables: Vec<Table> = tables.into_iter().filter_map(Result::ok).flatten().collect();
    Seen::Yes(rules(&tables, packets))
}

fn rules(tables: &[Table], packets: &[Packet]) -> Vec<FilterRule> {
    let mut stops: Vec<Stop> = Vec::new();
    for stop in tables.iter().flat_map(|table| packets.iter().flat_map(|packet| model::stops(table, packet))) {
        if stops.len() < RULES_MAX && !stops.contains(&stop) {
            stops.push(stop);
        }
    }
    let told = |stop: Stop| FilterRule {
        place: clip(&stop.place, TEXT_BYTES_MAX),
        rule: clip(&stop.rule, TEXT_BYTES_MAX),
        packets: stop.packets,
    };
    stops.into_iter().map(told).collect()
}

fn nft_tables() -> Result<Vec<Table>, String> {
    let listed = command::run("nft", &["-j", "list", "ruleset"], TOOL_TIME, BYTES_MAX);
    nft::parse(&succeeded("nft", listed)?)
}

fn iptables_tables() -> Result<Vec<Table>, String> {
    let listed = command::run("iptables-save", &["-c"], TOOL_TIME, BYTES_MAX);
    Ok(iptables::parse(&String::from_utf8_lossy(&succeeded("iptables-save", listed)?)))
}

fn succeeded(tool: &str, listed: Result<Output, String>) -> Result<Vec<u8>, String> {
    let listed = listed?;
    if listed.code == Some(0) {
        return Ok(listed.out);
    }
    let said = listed.error.lines().next().unwrap_or_default();
    Err(format!("{tool} failed: {}", if said.is_empty() { "it did not say why" } else { said }))
}

/// What members say to each other: each calls the other's peer and client port, and is answered.
fn packets(members: Option<&Members>, own: Option<&Member>) -> Vec<Packet> {
    let own_address = own.and_then(|own| own.address);
    let unknown = [Member::default()];
    let peers: Vec<&Member> = match members {
        Some(members) => members.list.iter().filter(|member| Some(*member) != own).take(PEERS_MAX).collect(),
        None => unknown.iter().collect(),
    };
    let ports = |member: Option<&Member>| {
        let port = |port: Option<u16>, default| port.filter(|port| *port != 0).unwrap_or(default);
        [port(member.map(|member| member.peer_port), 2380), port(member.map(|member| member.client_port), 2379)]
    };
    let mut packets = Vec::new();
    for peer in peers {
        for (ours, theirs) in ports(own).into_iter().zip(ports(Some(peer))) {
            packets.extend(four(own_address, peer.address, ours, theirs));
        }
    }
    packets
}

/// Their call, our answer, our call, their answer.
fn four(own: Option<IpAddr>, peer: Option<IpAddr>, ours: u16, theirs: u16) -> [Packet; 4] {
    let inbound = Packet {
        hook: Hook::Inbound,
        source: peer,
        destination: own,
        source_port: Some(CALLERS_PORT),
        destination_port: Some(ours),
        established: false,
    };
    let outbound = Packet {
        hook: Hook::Outbound,
        source: own,
        destination: peer,
        source_port: Some(CALLERS_PORT),
        destination_port: Some(theirs),
        established: false,
    };
    let answered = |call: Packet, hook| Packet {
        hook,
        source: call.destination,
        destination: call.source,
        source_port: call.destination_port,
        destination_port: call.source_port,
        established: true,
    };
    [inbound, answered(inbound, Hook::Outbound), outbound, answered(outbound, Hook::Inbound)]
}
