//! From what `nft -j list ruleset` prints (libnftables-json(5)) to tables. Pure; any text gives tables or a reason.

use std::collections::BTreeMap;

use serde_json::Value;

use super::model::{Field, Hook, Match, Rule, Span, Table, Verdict};
use super::values;

/// Bytes of an expression that is shown as it is.
const SHOWN_MAX: usize = 60;

/// Named sets, by family, table and name.
type Sets = BTreeMap<String, Vec<Span>>;

/// The tables of the families that packets of IP pass.
pub(super) fn parse(text: &[u8]) -> Result<Vec<Table>, String> {
    let root: Value = serde_json::from_slice(text).map_err(|error| format!("what nft prints is not understood: {error}"))?;
    let items = root.get("nftables").and_then(Value::as_array).ok_or("what nft prints is no ruleset")?;
    let mut tables: BTreeMap<String, Table> = BTreeMap::new();
    let mut sets = Sets::new();
    for set in items.iter().filter_map(|item| item.get("set").or_else(|| item.get("map"))) {
        let elements = set.get("elem").and_then(Value::as_array);
        if let (Some(key), Some(name), Some(elements)) = (place(set), string(set, "name"), elements) {
            // One element that is not understood makes the set one that is not.
            if let Some(spans) = elements.iter().map(values::of_json).collect::<Option<Vec<_>>>() {
                sets.insert(format!("{key} {name}"), spans.concat());
            }
        } else if let (Some(key), Some(name)) = (place(set), string(set, "name")) {
            sets.insert(format!("{key} {name}"), Vec::new());
        }
    }
    for item in items {
        if let Some(chain) = item.get("chain") {
            let (Some(key), Some(name)) = (place(chain), string(chain, "name")) else { continue };
            let table = tables.entry(key.clone()).or_insert_with(|| Table { name: key, ..Table::default() });
            let known = table.chains.entry(name.to_owned()).or_default();
            known.hook = string(chain, "hook").and_then(hook);
            known.drops_by_policy = string(chain, "policy") == Some("drop");
        } else if let Some(rule) = item.get("rule") {
            let (Some(key), Some(name)) = (place(rule), string(rule, "chain")) else { continue };
            let parsed = self::rule(rule, &key, &sets);
            let table = tables.entry(key.clone()).or_insert_with(|| Table { name: key, ..Table::default() });
            table.chains.entry(name.to_owned()).or_default().rules.push(parsed);
        }
    }
    Ok(tables.into_values().collect())
}

fn string<'a>(value: &'a Value, name: &str) -> Option<&'a str> {
    value.get(name).and_then(Value::as_str)
}

/// `inet filter`; `None` for families that etcd's packets do not pass on this node.
fn place(item: &Value) -> Option<String> {
    let family = string(item, "family").filter(|family| matches!(*family, "ip" | "ip6" | "inet"))?;
    // A chain and a rule name their table so, a set likewise.
    string(item, "table").map(|table| format!("{family} {table}"))
}

fn hook(name: &str) -> Option<Hook> {
    match name {
        "prerouting" | "input" => Some(Hook::Inbound),
        "output" | "postrouting" => Some(Hook::Outbound),
        _ => None,
    }
}

fn rule(rule: &Value, place: &str, sets: &Sets) -> Rule {
    let mut parsed = Rule::default();
    let mut text = Vec::new();
    for expression in rule.get("expr").and_then(Value::as_array).into_iter().flatten() {
        let Some((kind, body)) = expression.as_object().and_then(|object| object.iter().next()) else { continue };
        match kind.as_str() {
            "match" => {
                let (one, shown) = self::one_match(body, place, sets);
                parsed.matches.push(one);
                text.push(shown);
                continue;
            }
            "counter" => {
                parsed.packets = body.get("packets").and_then(Value::as_u64);
                continue;
            }
            "accept" => parsed.verdict = Verdict::Accept,
            "drop" | "reject" => parsed.verdict = Verdict::Stop,
            "return" => parsed.verdict = Verdict::Return,
            "jump" => parsed.verdict = Verdict::Call(string(body, "target").unwrap_or_default().to_owned()),
            "goto" => parsed.verdict = Verdict::Goto(string(body, "target").unwrap_or_default().to_owned()),
            // Neither stops a packet nor lets it through.
            "log" | "mangle" | "ct helper" | "notrack" | "meter" => continue,
            // A limit is a match that comes and goes; an extension of iptables may be match or verdict.
            "limit" => parsed.matches.push(Match::NotTold),
            _ => {
                parsed.matches.push(Match::NotTold);
                parsed.verdict = Verdict::NotTold;
            }
        }
        text.push(kind.clone());
    }
    parsed.text = text.join(" ");
    parsed
}

fn one_match(body: &Value, place: &str, sets: &Sets) -> (Match, String) {
    let not_told = || (Match::NotTold, shown(body).unwrap_or_else(|| crate::audit::text::clip(&body.to_string(), SHOWN_MAX)));
    let (Some(left), Some(right)) = (body.get("left"), body.get("right")) else { return not_told() };
    if let Some(name) = other_transport(left) {
        let never = Match::Is { field: Field::Protocol, negated: false, values: Vec::new() };
        return (never, format!("{name} {}", values::show(right)));
    }
    let Some((field, name)) = field(left) else { return not_told() };
    let negated = match string(body, "op") {
        Some("==" | "in") => false,
        Some("!=") => true,
        Some(_) | None => return not_told(),
    };
    let values = match right.as_str().and_then(|name| name.strip_prefix('@')) {
        Some(set) => sets.get(&format!("{place} {set}")).cloned(),
        None => values::of_field(field, right),
    };
    let shown = format!("{name}{} {}", if negated { " !=" } else { "" }, values::show(right));
    values.map_or_else(|| (Match::NotTold, shown.clone()), |values| (Match::Is { field, negated, values }, shown.clone()))
}

/// A match that is not judged, as nft spells it: `meta mark 7`.
fn shown(body: &Value) -> Option<String> {
    let (kind, left) = body.get("left")?.as_object()?.iter().next()?;
    let key = string(left, "key").or_else(|| string(left, "field"))?;
    let kind = string(left, "protocol").unwrap_or(kind);
    let not = if string(body, "op") == Some("!=") { " !=" } else { "" };
    Some(format!("{kind} {key}{not} {}", values::show(body.get("right")?)))
}

/// What is looked at, and how nft spells it.
fn field(left: &Value) -> Option<(Field, String)> {
    if let Some(payload) = left.get("payload") {
        let (protocol, name) = (string(payload, "protocol")?, string(payload, "field")?);
        let field = match (protocol, name) {
            ("ip" | "ip6", "saddr") => Field::Source,
            ("ip" | "ip6", "daddr") => Field::Destination,
            ("tcp" | "th", "sport") => Field::SourcePort,
            ("tcp" | "th", "dport") => Field::DestinationPort,
            ("ip", "protocol") | ("ip6", "nexthdr") => Field::Protocol,
            _ => return None,
        };
        return Some((field, format!("{protocol} {name}")));
    }
    if let Some(key) = left.get("meta").and_then(|meta| string(meta, "key")) {
        let field = match key {
            "iifname" | "iif" => Field::InputLink,
            "oifname" | "oif" => Field::OutputLink,
            "l4proto" => Field::Protocol,
            _ => return None,
        };
        return Some((field, key.to_owned()));
    }
    let state = left.get("ct").and_then(|ct| string(ct, "key")) == Some("state");
    state.then(|| (Field::State, "ct state".to_owned()))
}

/// A match on the header of another transport is never true of TCP.
fn other_transport(left: &Value) -> Option<String> {
    let payload = left.get("payload")?;
    let protocol = string(payload, "protocol")?;
    let other = matches!(protocol, "udp" | "sctp" | "dccp" | "udplite" | "icmp" | "icmpv6" | "igmp" | "esp" | "ah");
    other.then(|| format!("{protocol} {}", string(payload, "field").unwrap_or_default()))
}
