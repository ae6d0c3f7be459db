//! Sentences about this node's own part in the network.

use super::etcd_here;
use super::links::peers;
use crate::diagnose::evidence::FilterRule;
use crate::diagnose::tree::network;
use crate::diagnose::tree::reach::Kind;
use crate::diagnose::tree::sight::Sight;
use crate::diagnose::tree::words;

/// This node is off the network.
pub(super) fn link_down(sight: &Sight<'_>) -> String {
    let what = network::own_interface(sight)
        .filter(|own| !own.running)
        .map_or_else(|| no_route(sight), |own| format!("{} is down or without a carrier", words::quote(&own.name)));
    format!(
        "{} is off the network: {what}; {}. Look at the virtual machine's network adapter (connected?) and at the interface's configuration; etcd heals by itself when the link is \
         back.",
        sight.me(),
        etcd_here(sight)
    )
}

/// Without an interface that has our address: one that is down, or no route.
fn no_route(sight: &Sight<'_>) -> String {
    let interfaces = sight.evidence.interfaces.yes().into_iter().flatten();
    let down: Vec<String> =
        interfaces.filter(|one| one.name != "lo" && !one.running).map(|one| words::quote(&one.name)).collect();
    if down.is_empty() || sight.address_gone().is_none() {
        return "there is no route to any peer".to_owned();
    }
    format!("{} is down or without a carrier, and lost its address with it", words::list(&down))
}

/// Two stations have one address.
pub(super) fn duplicate(sight: &Sight<'_>) -> String {
    let found = sight.evidence.duplicates.yes().map(Vec::as_slice).unwrap_or_default();
    let found: Vec<String> = found.iter().map(|other| format!("{} for {}", words::quote(&other.mac), other.address)).collect();
    format!(
        "Another station answers for this node's address: {}. Packets for {} go to one or the other, so links come and go; {}. Find the station with this MAC (a clone, a restored \
         virtual machine) and take the address off it.",
        words::list(&found),
        sight.me(),
        etcd_here(sight)
    )
}

/// Two interfaces in one subnet.
pub(super) fn two_interfaces(sight: &Sight<'_>) -> String {
    let pair = network::two_interfaces(sight).map(|(one, two)| [words::quote(&one.name), words::quote(&two.name)]);
    let ways = [Kind::Cut, Kind::OutFails, Kind::PeerPort, Kind::HostDown, Kind::InFails];
    format!(
        "{} has two interfaces, {}, in the subnet of its peers: packets to {} may leave by the wrong one, and the reverse-path filter drops what comes back; {}. Take the address off \
         one of them.",
        sight.me(),
        words::list(&pair.map(Vec::from).unwrap_or_default()),
        peers(sight, &ways),
        etcd_here(sight)
    )
}

/// A name that does not resolve.
pub(super) fn unresolved(sight: &Sight<'_>) -> String {
    let names: Vec<String> = network::unresolved(sight).unwrap_or_default().iter().map(|name| words::quote(name)).collect();
    let does = if names.len() > 1 { "do" } else { "does" };
    format!(
        "{} in etcd's peer URLs {does} not resolve on {}, so what is named so cannot be called; {}. Mend the name service (or /etc/hosts).",
        words::list(&names),
        sight.me(),
        etcd_here(sight)
    )
}

/// This node's own packet filter.
pub(super) fn firewall(sight: &Sight<'_>) -> String {
    if sight.own_client_filtered() {
        return format!(
            "{} itself drops packets to its etcd's client port: connecting there times out, while etcd answers on its peer port, so it runs. The loop and this watchdog ask etcd there. Mend the \
             packet filter of this node first (`nft list ruleset`, `iptables-save -c`), then look again.",
            sight.me()
        );
    }
    let found = network::filter(sight);
    let (rule, inward) = (found.map(rule).unwrap_or_default(), found.is_some_and(network::stops_input));
    let ways = [Kind::Cut, Kind::OutFails, Kind::PeerPort, Kind::InFails, Kind::ClientPort];
    let (those, out_fails) = (peers(sight, &ways), network::any(sight, Kind::Cut) || network::any(sight, Kind::PeerPort));
    let why = match (inward, out_fails) {
        (true, true) => format!("{those} cannot reach it and, where they have the same rule, cannot be reached"),
        (true, false) => format!("{those} cannot reach it"),
        (false, _) => format!("{those} cannot be reached"),
    };
    format!(
        "{} itself drops packets of etcd: {rule}, which explains why {}; {}. Mend the rule on this node first, then look again.",
        sight.me(),
        why,
        etcd_here(sight)
    )
}

fn rule(rule: &FilterRule) -> String {
    let counted = rule.packets.map(|packets| format!(" ({packets} packets so far)")).unwrap_or_default();
    format!("{} has \"{}\"{counted}", words::quote(&rule.place), words::quote(&rule.rule))
}
