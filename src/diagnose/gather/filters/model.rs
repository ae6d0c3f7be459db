//! A packet filter as far as it matters to etcd, and which of its rules stop etcd's packets. Pure.
//!
//! A match is true, false or not told (a mark, a limit, an extension that is not known here). Invariant: a rule is named only when it stops a
//! packet for certain, or when it names etcd's port or a peer and nothing but what is not told stands before its verdict. A policy of
//! drop is named only when no rule before it may have let the packet through: a host that lets in what it lists is not at fault.

use std::collections::BTreeMap;
use std::net::IpAddr;

/// Jumps into each other that are followed; the kernel allows 16.
const DEPTH_MAX: usize = 16;
/// Rules that are looked at for one packet, however the chains lead into each other.
const STEPS_MAX: usize = 50_000;

/// All chains of one table, by name.
#[derive(Debug, Default)]
pub(super) struct Table {
    /// `inet filter`.
    pub(super) name: String,
    pub(super) chains: BTreeMap<String, Chain>,
}

#[derive(Debug, Default)]
pub(super) struct Chain {
    /// Where the kernel calls it; `None` if only other chains do.
    pub(super) hook: Option<Hook>,
    pub(super) drops_by_policy: bool,
    pub(super) policy_packets: Option<u64>,
    pub(super) rules: Vec<Rule>,
}

/// Which packets pass a chain: those for this node, or those from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Hook {
    Inbound,
    Outbound,
}

#[derive(Debug, Default)]
pub(super) struct Rule {
    pub(super) matches: Vec<Match>,
    pub(super) verdict: Verdict,
    pub(super) packets: Option<u64>,
    /// As the tool prints it, or nearly.
    pub(super) text: String,
}

#[derive(Debug, Default, PartialEq, Eq)]
pub(super) enum Verdict {
    Accept,
    /// Drop or reject.
    Stop,
    Call(String),
    /// A call that does not come back to this chain.
    Goto(String),
    Return,
    /// Goes on with the next rule: a counter, a log, a mark.
    #[default]
    Next,
    /// It may do anything.
    NotTold,
}

#[derive(Debug)]
pub(super) enum Match {
    Is { field: Field, negated: bool, values: Vec<Span> },
    NotTold,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Field {
    Source,
    Destination,
    SourcePort,
    DestinationPort,
    /// Of the transport: 6 is TCP.
    Protocol,
    /// 0 for a new connection, 1 for an established one, 2 for anything else.
    State,
    /// 0 for the loopback interface, 1 for any other.
    InputLink,
    OutputLink,
}

/// Values from one to another, both in it. Addresses are numbers with their family above them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Span(pub(super) u128, pub(super) u128);

impl Span {
    pub(super) const fn one(value: u128) -> Self {
        Self(value, value)
    }

    /// The addresses that share the first `len` bits.
    pub(super) fn prefix(address: IpAddr, len: u32) -> Self {
        let (value, width) = (number(address), if address.is_ipv4() { 32 } else { 128 });
        let host_bits = width - len.min(width);
        let mask = 1_u128.checked_shl(host_bits).map_or(u128::MAX, |above| above - 1);
        Self(value & !mask, value | mask)
    }
}

/// An address as a number; those of IPv4 where IPv6 has them mapped.
pub(super) fn number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => u128::from(address.to_ipv6_mapped()),
        IpAddr::V6(address) => u128::from(address),
    }
}

/// One of etcd's packets.
#[derive(Debug, Clone, Copy)]
pub(super) struct Packet {
    pub(super) hook: Hook,
    /// `None` where it is not known.
    pub(super) source: Option<IpAddr>,
    pub(super) destination: Option<IpAddr>,
    pub(super) source_port: Option<u16>,
    pub(super) destination_port: Option<u16>,
    /// Of a connection that is there already.
    pub(super) established: bool,
}

/// True, false, or `None` for not told.
type Told = Option<bool>;

impl Packet {
    fn value(&self, field: Field) -> Option<u128> {
        match field {
            Field::Source => self.source.map(number),
            Field::Destination => self.destination.map(number),
            Field::SourcePort => self.source_port.map(u128::from),
            Field::DestinationPort => self.destination_port.map(u128::from),
            Field::Protocol => Some(6),
            Field::State => Some(u128::from(self.established)),
            Field::InputLink => (self.hook == Hook::Inbound).then_some(1),
            Field::OutputLink => (self.hook == Hook::Outbound).then_some(1),
        }
    }

    fn passes(&self, rule: &Match) -> Told {
        match rule {
            Match::NotTold => None,
            Match::Is { field, negated, values } => {
                let value = self.value(*field)?;
                Some(values.iter().any(|Span(from, to)| (*from..=*to).contains(&value)) != *negated)
            }
        }
    }
}

/// A rule, or a policy, that stops a packet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Stop {
    pub(super) place: String,
    pub(super) rule: String,
    pub(super) packets: Option<u64>,
}

/// What stops `packet` in the chains of a table.
pub(super) fn stops(table: &Table, packet: &Packet) -> Vec<Stop> {
    let mut walk = Walk { table, packet, found: Vec::new(), may_pass: false, steps: 0 };
    for (name, chain) in table.chains.iter().filter(|(_, chain)| chain.hook == Some(packet.hook)) {
        walk.may_pass = false;
        let ended = walk.chain(name, chain, (true, false), 0);
        if ended == Ended::AtItsEnd && chain.drops_by_policy && !walk.may_pass {
            let place = place(table, name, packet.hook);
            walk.found.push(Stop { place, rule: "policy drop".to_owned(), packets: chain.policy_packets });
        }
    }
    walk.found
}

/// Table and chain, and the direction where the chain's own name does not tell it.
fn place(table: &Table, chain: &str, hook: Hook) -> String {
    let direction = match hook {
        Hook::Inbound => "input",
        Hook::Outbound => "output",
    };
    let told = if chain.eq_ignore_ascii_case(direction) { String::new() } else { format!(" ({direction})") };
    format!("{} {chain}{told}", table.name)
}

#[derive(Debug, PartialEq, Eq)]
enum Ended {
    /// A verdict, for certain.
    Decided,
    AtItsEnd,
}

struct Walk<'a> {
    table: &'a Table,
    packet: &'a Packet,
    found: Vec<Stop>,
    /// A rule may have accepted it, and that is not told.
    may_pass: bool,
    steps: usize,
}

impl Walk<'_> {
    /// `certain`: the packet comes here for certain; `named`: a rule on the way here names etcd's port or a peer.
    fn chain(&mut self, name: &str, chain: &Chain, (certain, named): (bool, bool), depth: usize) -> Ended {
        for rule in &chain.rules {
            self.steps += 1;
            if self.steps > STEPS_MAX {
                // Whatever comes after this is not told.
                self.may_pass = true;
                return Ended::AtItsEnd;
            }
            let told: Vec<Told> = rule.matches.iter().map(|one| self.packet.passes(one)).collect();
            if told.contains(&Some(false)) {
                continue;
            }
            let certain = certain && told.iter().all(Option::is_some);
            let named = named || rule.matches.iter().any(|one| self.names(one));
            match &rule.verdict {
                Verdict::Next => {}
                Verdict::NotTold => self.may_pass = true,
                Verdict::Accept if certain => return Ended::Decided,
                Verdict::Accept => self.may_pass = true,
                Verdict::Stop => {
                    if certain && !self.may_pass || named {
                        let place = place(self.table, name, self.packet.hook);
                        self.found.push(Stop { place, rule: rule.text.clone(), packets: rule.packets });
                    }
                    if certain {
                        return Ended::Decided;
                    }
                }
                Verdict::Return if certain => return Ended::AtItsEnd,
                // It may go on with the rules of this chain, or not.
                Verdict::Return => self.may_pass = true,
                Verdict::Call(target) | Verdict::Goto(target) => {
                    let ended = match self.table.chains.get(target) {
                        Some(called) if depth < DEPTH_MAX => self.chain(target, called, (certain, named), depth + 1),
                        Some(_) | None => {
                            self.may_pass = true;
                            Ended::AtItsEnd
                        }
                    };
                    if certain && (ended == Ended::Decided || matches!(rule.verdict, Verdict::Goto(_))) {
                        return ended;
                    }
                }
            }
        }
        Ended::AtItsEnd
    }

    /// Whether it is about just such packets: a port or an address of theirs, and not all but some.
    fn names(&self, one: &Match) -> bool {
        let Match::Is { field, negated: false, .. } = one else { return false };
        let own = match field {
            Field::Source | Field::Destination | Field::SourcePort | Field::DestinationPort => true,
            Field::Protocol | Field::State | Field::InputLink | Field::OutputLink => false,
        };
        own && self.packet.passes(one) == Some(true)
    }
}
