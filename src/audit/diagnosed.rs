//! The entry about a diagnosis of etcd.
//!
//! Invariant: bounded whatever was found: links, then checks are written until [`EVIDENCE_BYTES_MAX`], and how many were left out is said.
//! Pure.

use serde::Serialize;
use serde_json::{Value, json};

use super::event::Entry;
use super::text::{ITEMS_MAX, clip, millis, sentence};
use crate::decision::verdict::Verdict;
use crate::diagnose::evidence::Connect;
use crate::diagnose::{Check, Diagnosed, Link, Mark};

/// Longest evidence, in bytes of JSON: below what a field may have, so that it is cut here with a count and not dropped there.
const EVIDENCE_BYTES_MAX: usize = 24 * 1024;

/// Longest sentence, in bytes: one for people, who are told no more than they can act on.
const SENTENCE_BYTES_MAX: usize = 1500;

/// Commands that are kept; the first is what to do next.
const NEXT_MAX: usize = 4;

/// Its entry; `verdict` is the trouble's.
pub(super) fn entry(verdict: Verdict, diagnosed: &Diagnosed) -> Entry {
    let diagnosis = &diagnosed.diagnosis;
    Entry {
        message: clip(&diagnosis.sentence, SENTENCE_BYTES_MAX),
        verdict: Some(verdict),
        cause: Some(word(&diagnosis.cause)),
        outcome: Some(word(&diagnosis.outcome)),
        command: diagnosis.next.first().map(|command| sentence(command)),
        duration_ms: Some(millis(diagnosed.took)),
        evidence: Some(evidence(diagnosed)),
        ..Entry::default()
    }
}

fn evidence(diagnosed: &Diagnosed) -> Value {
    let diagnosis = &diagnosed.diagnosis;
    let mut room = EVIDENCE_BYTES_MAX;
    let links: Vec<Value> = diagnosis.links.iter().map(link).take_while(|value| fits(value, &mut room)).collect();
    // What is wrong first: that is what must not be left out.
    let mut sorted: Vec<&Check> = diagnosis.checks.iter().collect();
    sorted.sort_by_key(|check| check.mark == Mark::Good);
    let checks: Vec<Value> = sorted.into_iter().map(check).take_while(|value| fits(value, &mut room)).collect();
    let next: Vec<String> = diagnosis.next.iter().take(NEXT_MAX).map(|command| sentence(command)).collect();
    let left_out = diagnosis.links.len() + diagnosis.checks.len() - links.len() - checks.len();
    let also: Vec<String> = diagnosis.also.iter().take(ITEMS_MAX).map(word).collect();
    let node = sentence(&diagnosis.evidence.node);
    json!({ "node": node, "links": links, "checks": checks, "also": also, "next": next, "left_out": left_out })
}

fn fits(value: &Value, room: &mut usize) -> bool {
    match room.checked_sub(value.to_string().len() + 1) {
        Some(left) => *room = left,
        None => return false,
    }
    true
}

fn link(link: &Link) -> Value {
    let shows = link.shows.as_ref().map(|shows| if let Connect::Other(text) = shows { sentence(text) } else { word(shows) });
    json!({ "from": sentence(&link.from), "to": sentence(&link.to), "address": link.address, "port": link.port, "shows": shows })
}

/// A good check needs no more than what was seen.
fn check(check: &Check) -> Value {
    let (name, mark, seen) = (sentence(&check.name), word(&check.mark), sentence(&check.seen));
    match check.mark {
        Mark::Good => json!({ "name": name, "mark": mark, "seen": seen }),
        Mark::Bad | Mark::Unseen | Mark::Warn => {
            json!({ "name": name, "mark": mark, "seen": seen, "means": sentence(&check.means), "by_hand": sentence(&check.by_hand) })
        }
    }
}

/// The word by which JSON has a value that is one of a few.
#[must_use]
pub fn word(value: &impl Serialize) -> String {
    serde_json::to_value(value).ok().and_then(|value| value.as_str().map(sentence)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::decision::time::Moment;
    use crate::diagnose::{Cause, Diagnosis, Outcome};

    fn diagnosed(checks: usize, noise: &str) -> Diagnosed {
        let check = |number: usize| Check {
            name: format!("peer_port cp{number}"),
            mark: if number + 1 == checks { Mark::Bad } else { Mark::Good },
            seen: noise.to_owned(),
            means: noise.to_owned(),
            by_hand: noise.to_owned(),
        };
        let shows = Some(Connect::Other(noise.to_owned()));
        let link = Link { from: noise.to_owned(), to: "cp2".to_owned(), address: None, port: 2380, shows };
        let diagnosis = Diagnosis {
            outcome: Outcome::Network,
            cause: Cause::PeerPortBlocked,
            checks: (0..checks).map(check).collect(),
            links: vec![link; 3],
            next: vec![noise.to_owned(); 9],
            ..Diagnosis::given_up(Duration::ZERO)
        };
        Diagnosed { diagnosis, took: Duration::from_millis(1200), ended_at: Moment::default() }
    }

    #[test]
    fn cause_outcome_and_the_next_command_are_fields_of_their_own() {
        let entry = entry(Verdict::NoQuorum, &diagnosed(2, "x"));
        assert_eq!(entry.cause.as_deref(), Some("peer_port_blocked"));
        assert_eq!(entry.outcome.as_deref(), Some("network"));
        assert_eq!((entry.command.as_deref(), entry.duration_ms), (Some("x"), Some(1200)));
        let evidence = entry.evidence.unwrap();
        assert_eq!(evidence["checks"][0]["mark"], "bad", "what is wrong comes first");
        assert_eq!((evidence["links"][0]["shows"].as_str(), evidence["left_out"].as_u64()), (Some("x"), Some(0)));
    }

    #[test]
    fn the_evidence_is_bounded_and_says_what_was_left_out() {
        let evidence = evidence(&diagnosed(500, &"\"\\\u{1}é".repeat(500)));
        assert!(evidence.to_string().len() < 32 * 1024, "{} bytes", evidence.to_string().len());
        let kept = evidence["checks"].as_array().unwrap().len() + evidence["links"].as_array().unwrap().len();
        assert_eq!(evidence["left_out"].as_u64(), Some(503 - u64::try_from(kept).unwrap()));
        assert_eq!(evidence["checks"][0]["mark"], "bad");
    }
}
