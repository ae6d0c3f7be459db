//! From what `iptables-save -c` prints to tables. Pure; any text gives tables, and what is not understood is not told.

use super::model::{Field, Hook, Match, Rule, Table, Verdict};
use super::values;

/// Bytes of a rule that are shown.
const SHOWN_MAX: usize = 200;

/// The tables of a dump.
pub(super) fn parse(text: &str) -> Vec<Table> {
    let mut tables: Vec<Table> = Vec::new();
    for line in text.lines() {
        if let Some(name) = line.strip_prefix('*') {
            tables.push(Table { name: format!("iptables {}", name.trim()), ..Table::default() });
        } else if let Some(table) = tables.last_mut() {
            if let Some(declared) = line.strip_prefix(':') {
                chain(declared, table);
            } else if let Some((packets, words)) = counted(line) {
                append(&words, packets, table);
            }
        }
    }
    tables
}

/// `:INPUT DROP [12:3456]`
fn chain(declared: &str, table: &mut Table) {
    let mut words = declared.split_whitespace();
    let Some(name) = words.next() else { return };
    let chain = table.chains.entry(name.to_owned()).or_default();
    chain.drops_by_policy = words.next() == Some("DROP");
    chain.policy_packets = words.next().and_then(packets);
    chain.hook = match name {
        "PREROUTING" | "INPUT" => Some(Hook::Inbound),
        "OUTPUT" | "POSTROUTING" => Some(Hook::Outbound),
        _ => None,
    };
}

/// `[12:3456]`: packets, then bytes.
fn packets(counter: &str) -> Option<u64> {
    counter.strip_prefix('[')?.split(':').next()?.parse().ok()
}

/// `[0:0] -A INPUT …`, with or without its counter, in words.
fn counted(line: &str) -> Option<(Option<u64>, Vec<String>)> {
    let mut words = split(line);
    let counter = words.first().filter(|first| first.starts_with('[')).and_then(|first| packets(first));
    if words.first().is_some_and(|first| first.starts_with('[')) {
        words.remove(0);
    }
    (words.first().map(String::as_str) == Some("-A")).then_some((counter, words))
}

/// Words; one in double quotes may have blanks in it, and a backslash takes the next character as it is.
fn split(line: &str) -> Vec<String> {
    let (mut words, mut word, mut quoted, mut begun) = (Vec::new(), String::new(), false, false);
    let mut characters = line.chars();
    while let Some(character) = characters.next() {
        match character {
            '"' => (quoted, begun) = (!quoted, true),
            '\\' if quoted => word.extend(characters.next()),
            blank if blank.is_whitespace() && !quoted => {
                if begun || !word.is_empty() {
                    words.push(std::mem::take(&mut word));
                    begun = false;
                }
            }
            other => word.push(other),
        }
    }
    if begun || !word.is_empty() {
        words.push(word);
    }
    words
}

/// Adds the rule of `-A CHAIN …`.
fn append(words: &[String], packets: Option<u64>, table: &mut Table) {
    let Some((name, options)) = words.get(1).zip(words.get(2..)) else { return };
    let text = crate::audit::text::clip(&options.join(" "), SHOWN_MAX);
    let mut rule = Rule { packets, text, ..Rule::default() };
    let mut options = options.iter().map(String::as_str).peekable();
    let mut negated = false;
    while let Some(option) = options.next() {
        let mut value = || options.next().unwrap_or_default();
        match option {
            "!" => {
                negated = true;
                continue;
            }
            "-j" | "-g" => {
                rule.verdict = verdict(value(), option == "-g", table);
                // What follows are the target's own options.
                break;
            }
            // What a module adds shows by its options.
            "-m" | "--match" | "--comment" => drop(value()),
            _ if option.starts_with('-') => {
                rule.matches.push(one_match(option, value(), negated));
                // Some options have several values, or none.
                while options.next_if(|next| !next.starts_with('-') && *next != "!").is_some() {}
            }
            _ => rule.matches.push(Match::NotTold),
        }
        negated = false;
    }
    table.chains.entry(name.clone()).or_default().rules.push(rule);
}

fn one_match(option: &str, value: &str, negated: bool) -> Match {
    let of = |field, values: Option<Vec<_>>| values.map_or(Match::NotTold, |values| Match::Is { field, negated, values });
    let one = |value| values::address(value).map(|span| vec![span]);
    let word = |value: Option<u128>| value.map(|value| vec![super::model::Span::one(value)]);
    match option {
        "-s" | "--source" => of(Field::Source, one(value)),
        "-d" | "--destination" => of(Field::Destination, one(value)),
        "--sport" | "--sports" => of(Field::SourcePort, values::ports(value)),
        "--dport" | "--dports" => of(Field::DestinationPort, values::ports(value)),
        "-p" | "--protocol" => of(Field::Protocol, word(values::protocol(value))),
        "--ctstate" | "--state" => {
            of(Field::State, Some(value.split(',').map(|state| super::model::Span::one(values::state(state))).collect()))
        }
        "-i" => of(Field::InputLink, word(values::link(value))),
        "-o" => of(Field::OutputLink, word(values::link(value))),
        _ => Match::NotTold,
    }
}

fn verdict(target: &str, goes: bool, table: &Table) -> Verdict {
    match target {
        "ACCEPT" => Verdict::Accept,
        "DROP" | "REJECT" => Verdict::Stop,
        "RETURN" => Verdict::Return,
        "LOG" | "NFLOG" | "ULOG" | "MARK" | "CONNMARK" | "CT" | "NOTRACK" | "TRACE" | "TCPMSS" | "DSCP" | "TOS" | "CHECKSUM"
        | "AUDIT" => Verdict::Next,
        // All chains are declared above the rules.
        _ if table.chains.contains_key(target) && goes => Verdict::Goto(target.to_owned()),
        _ if table.chains.contains_key(target) => Verdict::Call(target.to_owned()),
        _ => Verdict::NotTold,
    }
}
