//! Values of matches: addresses, prefixes, ports, protocols, states, links; as nft and iptables spell them. Pure.

use std::net::IpAddr;

use serde_json::Value;

use super::model::{Field, Span, number};

/// Bytes of a value that are shown.
const SHOWN_MAX: usize = 80;
/// A value that no packet of etcd's has.
const NOBODY: u128 = u128::MAX;

/// The values of a field's match in nft's JSON; `None` if they are not understood.
pub(super) fn of_field(field: Field, right: &Value) -> Option<Vec<Span>> {
    match field {
        Field::Source | Field::Destination | Field::SourcePort | Field::DestinationPort => of_json(right),
        Field::Protocol => words(right, protocol),
        Field::State => words(right, |word| Some(state(word))),
        Field::InputLink | Field::OutputLink => words(right, link),
    }
}

/// Addresses and ports: a value, a prefix, a range, or a set of those.
pub(super) fn of_json(value: &Value) -> Option<Vec<Span>> {
    if let Some(list) = value.as_array().or_else(|| value.get("set").and_then(Value::as_array)) {
        return list.iter().map(of_json).collect::<Option<Vec<_>>>().map(|spans| spans.concat());
    }
    if let Some(element) = value.get("elem") {
        // A set's element with a counter or a time-out around it.
        return of_json(element.get("val").unwrap_or(element));
    }
    if let Some(prefix) = value.get("prefix") {
        let address = prefix.get("addr")?.as_str()?.parse().ok()?;
        return Some(vec![Span::prefix(address, u32::try_from(prefix.get("len")?.as_u64()?).ok()?)]);
    }
    if let Some(range) = value.get("range").and_then(Value::as_array) {
        let [from, to] = range.as_slice() else { return None };
        return Some(vec![Span(one(from)?, one(to)?)]);
    }
    one(value).map(|value| vec![Span::one(value)])
}

fn one(value: &Value) -> Option<u128> {
    value.as_u64().map(u128::from).or_else(|| value.as_str()?.parse::<IpAddr>().ok().map(number))
}

fn words(value: &Value, meaning: impl Fn(&str) -> Option<u128> + Copy) -> Option<Vec<Span>> {
    if let Some(list) = value.as_array().or_else(|| value.get("set").and_then(Value::as_array)) {
        return list.iter().map(|item| words(item, meaning)).collect::<Option<Vec<_>>>().map(|spans| spans.concat());
    }
    if let Some(number) = value.as_u64() {
        return Some(vec![Span::one(u128::from(number))]);
    }
    meaning(value.as_str()?).map(|value| vec![Span::one(value)])
}

/// TCP is 6; the others are nobody's here.
pub(super) fn protocol(word: &str) -> Option<u128> {
    Some(match word {
        "tcp" | "6" => 6,
        _ => NOBODY,
    })
}

/// See [`Field::State`].
pub(super) fn state(word: &str) -> u128 {
    match word.trim().to_ascii_lowercase().as_str() {
        "new" => 0,
        "established" => 1,
        _ => 2,
    }
}

/// See [`Field::InputLink`]; a name with a wildcard may be any.
pub(super) fn link(word: &str) -> Option<u128> {
    match word {
        "lo" => Some(0),
        // Which of the others a packet passes is not told here.
        _ => None,
    }
}

/// `192.0.2.0/24`, `192.0.2.1`, as iptables spells them.
pub(super) fn address(text: &str) -> Option<Span> {
    let (address, len) = text.split_once('/').map_or((text, None), |(address, len)| (address, Some(len)));
    let address: IpAddr = address.parse().ok()?;
    let len = len.map_or(Some(128), |len| len.parse().ok())?;
    Some(Span::prefix(address, len))
}

/// `2379`, `2379:2380`, `22,2379:2380`.
pub(super) fn ports(text: &str) -> Option<Vec<Span>> {
    let port = |text: &str| text.parse::<u16>().ok().map(u128::from);
    let range = |text: &str| match text.split_once(':') {
        Some((from, to)) => {
            let from = if from.is_empty() { Some(0) } else { port(from) };
            let to = if to.is_empty() { Some(u128::from(u16::MAX)) } else { port(to) };
            Some(Span(from?, to?))
        }
        None => port(text).map(Span::one),
    };
    text.split(',').map(range).collect()
}

/// A value in JSON as people read it.
pub(super) fn show(value: &Value) -> String {
    let text = if let Some(text) = value.as_str() {
        text.to_owned()
    } else if let Some(list) = value.as_array().or_else(|| value.get("set").and_then(Value::as_array)) {
        format!("{{ {} }}", list.iter().take(8).map(show).collect::<Vec<_>>().join(", "))
    } else if let Some([from, to]) = value.get("range").and_then(Value::as_array).map(Vec::as_slice) {
        format!("{}-{}", show(from), show(to))
    } else if let Some(prefix) = value.get("prefix") {
        let part = |name: &str| prefix.get(name).map(show).unwrap_or_default();
        format!("{}/{}", part("addr"), part("len"))
    } else {
        value.to_string()
    };
    crate::audit::text::clip(&text, SHOWN_MAX)
}
