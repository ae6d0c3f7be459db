//! What `fip-watchdog diagnose --json` says on a node, and what a scenario wants it to say. Pure.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::clock::seconds;
use super::event::{Event, What};
use super::judge::{Finding, secs};
use super::names::{DiagnosisName, NodeRef, OutcomeName};
use super::node::Node;

/// A diagnosis comes within this, whatever hangs.
pub const TAKES_LESS_THAN: Duration = Duration::from_secs(5);
/// The mark of a check that could not be seen.
const UNSEEN: &str = "unseen";
/// Of a sentence, only this much is kept.
const SENTENCE_CHARS_MAX: usize = 2000;

/// What a scenario wants to be found.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Wish {
    /// The cause.
    pub cause: DiagnosisName,
    /// Or one of these, where it depends on the moment, as while the kernel still believes in a neighbour.
    #[serde(default)]
    pub or: Vec<DiagnosisName>,
    /// The kind of fault.
    pub outcome: Option<OutcomeName>,
    /// Parts of the sentence; `$F` in them becomes the node's name.
    #[serde(default)]
    pub says: Vec<String>,
    /// Exactly these links do not work.
    pub links: Option<Vec<LinkWish>>,
    /// Exactly these checks could not be seen.
    pub unseen: Option<Vec<String>>,
    /// Who asks: root, unless this says that it is a user without rights.
    #[serde(default)]
    pub without_rights: bool,
}

/// A direction between two nodes.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LinkWish {
    /// Who calls.
    pub from: NodeRef,
    /// Who is called.
    pub to: NodeRef,
    /// The port.
    pub port: u16,
}

impl Wish {
    /// The names of the variables in it.
    pub fn variables(&self) -> impl Iterator<Item = &str> {
        let in_text = self.says.iter().flat_map(|text| text.split('$').skip(1)).map(|rest| {
            let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len());
            rest.get(..end).unwrap_or_default()
        });
        let ends = self.links.iter().flatten().flat_map(|link| [&link.from, &link.to]);
        in_text.chain(ends.filter_map(|node| if let NodeRef::Variable(name) = node { Some(name.as_str()) } else { None }))
    }

    /// Why it is not what was found; none if it is.
    #[must_use]
    pub fn lacks(&self, found: &Diagnosis, variables: &BTreeMap<String, Node>) -> Option<String> {
        if found.cause != self.cause.0 && self.or.iter().all(|other| found.cause != other.0) {
            return Some(format!("the cause is {}", found.cause));
        }
        if let Some(outcome) = self.outcome.as_ref().filter(|outcome| found.outcome != outcome.0) {
            return Some(format!("the outcome is {}, not {outcome}", found.outcome));
        }
        let text = |text: &String| variables.iter().fold(text.clone(), |text, (name, node)| replace(&text, name, *node));
        if let Some(missing) = self.says.iter().map(text).find(|text| !found.sentence.contains(text)) {
            return Some(format!("it does not say \"{missing}\""));
        }
        if let Some(wanted) = self.unseen.clone() {
            let unseen = found.checks.iter().filter(|check| check.mark == UNSEEN).map(|check| check.name.clone());
            if let Some(words) = differ("checks that could not be seen", unseen.collect(), wanted) {
                return Some(words);
            }
        }
        let links = self.links.as_ref()?;
        let name = |node: &NodeRef| super::judge::resolve(node, variables, 0).first().map(Node::to_string).unwrap_or_default();
        let wanted = links.iter().map(|link| format!("{} > {}:{}", name(&link.from), name(&link.to), link.port));
        differ("links", found.links.iter().map(Link::to_string).collect(), wanted.collect())
    }
}

/// Whether what was seen is what was wanted, in whatever order; the words if it is not.
fn differ(what: &str, mut seen: Vec<String>, mut wanted: Vec<String>) -> Option<String> {
    seen.sort();
    wanted.sort();
    (wanted != seen).then(|| format!("the {what} are {}, not {}", list(&seen), list(&wanted)))
}

/// `$F` is not the begin of `$Follower`.
fn replace(text: &str, name: &str, node: Node) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('$') {
        out.push_str(before);
        rest = after;
        match after.strip_prefix(name) {
            Some(tail) if !tail.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_') => {
                out.push_str(&node.to_string());
                rest = tail;
            }
            _other => out.push('$'),
        }
    }
    out + rest
}

fn list(words: &[String]) -> String {
    if words.is_empty() { "none".to_owned() } else { words.join(", ") }
}

/// What the command said; of its JSON the fields that are asked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Diagnosis {
    /// The cause's name.
    pub cause: String,
    /// The kind of fault.
    pub outcome: String,
    /// The sentence for people.
    pub sentence: String,
    /// Directions that do not work.
    pub links: Vec<Link>,
    /// What was looked at.
    #[serde(skip_serializing)]
    pub checks: Vec<Check>,
    /// How long it took, seen from outside.
    #[serde(skip_deserializing, serialize_with = "seconds")]
    pub took: Duration,
}

/// One look, and how it went.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Check {
    name: String,
    mark: String,
}

/// A direction.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Link {
    from: String,
    to: String,
    port: u16,
}

impl std::fmt::Display for Link {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} > {}:{}", self.from, self.to, self.port)
    }
}

impl Diagnosis {
    /// Reads the command's output.
    ///
    /// # Errors
    /// It is none.
    pub fn parse(json: &[u8], took: Duration) -> Result<Self, String> {
        let mut diagnosis: Self = serde_json::from_slice(json).map_err(|error| format!("no diagnosis: {error}"))?;
        if let Some((end, _)) = diagnosis.sentence.char_indices().nth(SENTENCE_CHARS_MAX) {
            diagnosis.sentence.truncate(end);
        }
        diagnosis.took = took;
        Ok(diagnosis)
    }
}

/// Whether every diagnosis of a run came in time; none where nobody asked for one.
#[must_use]
pub fn in_time(events: &[Event]) -> Option<Finding> {
    let took = events.iter().filter_map(|event| if let What::Diagnosis(found) = &event.what { Some(found.took) } else { None });
    let (count, longest) = took.fold((0_usize, Duration::ZERO), |(count, longest), took| (count + 1, longest.max(took)));
    (count > 0).then(|| Finding {
        expected: format!("each of {count} diagnoses takes less than {}", secs(TAKES_LESS_THAN)),
        measured: format!("{} at most", secs(longest)),
        passed: longest < TAKES_LESS_THAN,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const JSON: &str = r#"{"outcome":"network","cause":"inbound_blocked","sentence":"cp1 reaches cp2, and cp2 does not reach cp1.",
        "checks":[{"name":"certificates","mark":"unseen","seen":"not permitted"},{"name":"host","mark":"good"}],"links":[{"from":"cp2","to":"cp1","address":null,"port":2380,"shows":null}],"next":[]}"#;

    fn wish(text: &str) -> Wish {
        serde_saphyr::from_str(text).unwrap()
    }

    fn lacks(text: &str) -> Option<String> {
        let variables = BTreeMap::from([("L".to_owned(), Node::new(1)), ("F".to_owned(), Node::new(2))]);
        wish(text).lacks(&Diagnosis::parse(JSON.as_bytes(), Duration::ZERO).unwrap(), &variables)
    }

    #[test]
    fn cause_outcome_sentence_and_links_are_held_against_what_was_found() {
        let whole = "{ cause: inbound_blocked, outcome: network, says: [\"$F does not reach $L\"], links: [{ from: $F, to: $L, port: 2380 }] }";
        assert_eq!(lacks(whole), None);
        assert_eq!(lacks("{ cause: inbound_blocked }"), None);
        assert_eq!(lacks("{ cause: link_down, or: [inbound_blocked] }"), None);
        assert!(lacks("{ cause: outbound_blocked, or: [link_down] }").is_some());
        assert!(lacks("{ cause: outbound_blocked }").unwrap().contains("inbound_blocked"));
        assert!(lacks("{ cause: inbound_blocked, outcome: node }").unwrap().contains("network"));
        assert!(lacks("{ cause: inbound_blocked, says: [\"$L does not reach\"] }").unwrap().contains("cp1 does not reach"));
        assert!(lacks("{ cause: inbound_blocked, links: [] }").unwrap().contains("cp2 > cp1:2380, not none"));
        assert_eq!(lacks("{ cause: inbound_blocked, unseen: [certificates] }"), None);
        assert!(lacks("{ cause: inbound_blocked, unseen: [host] }").unwrap().contains("are certificates, not host"));
    }

    #[test]
    fn variables_are_found_in_texts_and_links_and_longer_names_are_other_names() {
        let wish = wish("{ cause: healthy, says: [\"$L and $Other.\"], links: [{ from: $F, to: cp1, port: 1 }] }");
        assert_eq!(wish.variables().collect::<Vec<_>>(), ["L", "Other", "F"]);
        assert_eq!(replace("$L, $Lx, $5 and $L", "L", Node::new(3)), "cp3, $Lx, $5 and cp3");
    }

    #[test]
    fn one_late_diagnosis_fails_the_run() {
        let event = |took| {
            let found = Diagnosis::parse(JSON.as_bytes(), Duration::from_secs(took)).unwrap();
            Event { at: Duration::ZERO, node: Some(Node::new(1)), what: What::Diagnosis(found) }
        };
        assert!(in_time(&[event(1), event(2)]).unwrap().passed);
        assert!(!in_time(&[event(1), event(5)]).unwrap().passed);
        assert_eq!(in_time(&[]), None);
    }
}
