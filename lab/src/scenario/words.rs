//! One event of a timeline in words. Pure; `timeline` puts them on paper.

use std::time::Duration;

use super::event::{Audit, Event, Lifetime, What};
use super::paint::Ink;
use super::view::View;
use crate::probe::outage::Heard;

/// One event in words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// The node, if it is about one.
    pub who: String,
    /// What is spoken of.
    pub kind: &'static str,
    /// What happened.
    pub text: String,
    /// Why, if somebody said so.
    pub why: String,
    /// How to paint it.
    pub ink: Ink,
}

impl Line {
    /// A remark.
    #[must_use]
    pub fn faint(text: &str) -> Self {
        Self { who: String::new(), kind: "", text: text.to_owned(), why: String::new(), ink: Ink::Faint }
    }

    /// An event in words; none for what changes nothing that a person would look for.
    #[must_use]
    pub fn of(event: &Event, before: &View, silent_since: Option<Duration>) -> Option<Self> {
        let state = event.node.and_then(|node| before.node(node));
        let who = event.node.map(|node| node.to_string()).unwrap_or_default();
        let line = |kind, ink, text: String| Some(Self { who: who.clone(), kind, text, why: String::new(), ink });
        match &event.what {
            What::Audit(audit) => audit_words(audit).map(|(kind, ink, text)| Self { who, kind, text, why: why(audit), ink }),
            What::Leads { term } => line("etcd", Ink::Plain, format!("leads, term {term}")),
            What::LeadsNoMore => {
                state.filter(|state| state.leads).and_then(|_| line("etcd", Ink::Plain, "leads no more".to_owned()))
            }
            What::FipHeld(Lifetime::Forever) if state.is_some_and(|state| state.fip == Some(Lifetime::Lease)) => {
                line("FIP", Ink::Good, "is there forever".to_owned())
            }
            What::FipHeld(Lifetime::Forever) => line("FIP", Ink::Good, "on eth0, forever".to_owned()),
            What::FipHeld(Lifetime::Lease) => line("FIP", Ink::Good, "on eth0, by a lease".to_owned()),
            What::FipGone => line("FIP", Ink::Plain, "gone from eth0".to_owned()),
            What::Link { up } if state.is_some_and(|state| state.link_up == *up) => None,
            What::Link { up: true } => line("link", Ink::Good, "up".to_owned()),
            What::Link { up: false } => line("link", Ink::Bad, "down".to_owned()),
            What::Container(container) => {
                let id: String = container.id.chars().take(8).collect();
                let runs = if container.running { "runs" } else { "has ended" };
                line("loop", Ink::Plain, format!("container {id}, attempt {}, {runs}", container.attempt))
            }
            What::Manifest { present: true } => line("manifest", Ink::Plain, "is in its directory".to_owned()),
            What::Manifest { present: false } => line("manifest", Ink::Plain, "is out".to_owned()),
            What::Client(Heard::Silence) => line("client", Ink::Bad, "hears nobody from here on".to_owned()),
            What::Client(Heard::Node(node)) => {
                let gap = silent_since.filter(|_| before.heard == Heard::Silence).map(|since| event.at.saturating_sub(since));
                let after = gap.map(|gap| format!(" after {:.2} s of silence", gap.as_secs_f64())).unwrap_or_default();
                line("client", if gap.is_some() { Ink::Good } else { Ink::Plain }, format!("hears {node}{after}"))
            }
            What::Diagnosis(found) if state.is_some_and(|state| state.diagnosis.as_ref() == Some(&found.cause)) => None,
            What::Diagnosis(found) => {
                let text = format!("{}: {}", found.cause, found.sentence);
                line("diagnose", Ink::Thought, text)
            }
            What::Fault(fault) => line("FAULT", Ink::Deed, fault.to_string()),
            What::Heal(fault) => line("HEAL", Ink::Deed, fault.to_string()),
            What::Note(text) if !text.starts_with("waited") => line("", Ink::Faint, text.clone()),
            What::SourceLost(what) => line("", Ink::Bad, what.clone()),
            What::Note(_) | What::Mark(_) | What::Log(_) | What::JournalRead { .. } => None,
        }
    }
}

/// The first of several reasons is the one that decided; the journal has them all.
fn why(audit: &Audit) -> String {
    let reason = audit.reason.as_deref().and_then(|reason| reason.split("; ").next());
    // The message of these says it already.
    let said = matches!(audit.event.as_str(), "verdict_changed" | "step_succeeded" | "step_failed" | "step_refused");
    reason.filter(|_| said).unwrap_or_default().to_owned()
}

fn audit_words(audit: &Audit) -> Option<(&'static str, Ink, String)> {
    let step = audit.step.as_deref().unwrap_or_default();
    let took = audit.duration_ms.map(|ms| format!(" in {ms} ms")).unwrap_or_default();
    match audit.event.as_str() {
        "verdict_changed" => {
            let to = audit.verdict.as_deref().unwrap_or("?");
            let from = audit.from.as_deref().map(|from| format!("{from} → ")).unwrap_or_default();
            Some(("verdict", Ink::Thought, format!("{from}{to}")))
        }
        // Renewals and plans repeat what the steps say.
        "step_started" if step == "renew_alias" => None,
        "step_succeeded" if step == "renew_alias" => None,
        "plan_started" | "lease_renewed" => None,
        "step_started" => Some(("step", Ink::Plain, format!("{step} …"))),
        "step_succeeded" => Some(("step", Ink::Good, format!("{step} done{took}"))),
        "step_failed" => Some(("step", Ink::Bad, format!("{step} failed{took}"))),
        "step_refused" => Some(("step", Ink::Bad, format!("{step} refused"))),
        _other => Some(("watchdog", Ink::Plain, audit.message.clone())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::node::Node;

    fn said(audit: Audit) -> Option<Line> {
        let event = Event { at: Duration::from_secs(1), node: Some(Node::new(2)), what: What::Audit(audit) };
        Line::of(&event, &View::new(3), None)
    }

    fn audit(event: &str, step: &str) -> Audit {
        Audit { event: event.to_owned(), step: Some(step.to_owned()), ..Audit::default() }
    }

    #[test]
    fn a_verdict_names_both_ends_and_the_first_reason() {
        let line = said(Audit {
            event: "verdict_changed".to_owned(),
            verdict: Some("healthy".to_owned()),
            from: Some("starting".to_owned()),
            reason: Some("it leads; confirmed".to_owned()),
            ..Audit::default()
        });
        let line = line.unwrap();
        assert_eq!((line.who.as_str(), line.text.as_str(), line.why.as_str()), ("cp2", "starting → healthy", "it leads"));
    }

    #[test]
    fn renewals_and_plans_say_nothing_of_their_own() {
        assert_eq!(said(audit("step_started", "renew_alias")), None);
        assert_eq!(said(audit("step_succeeded", "renew_alias")), None);
        assert_eq!(said(audit("plan_started", "apply_alias cycle_manifest")), None);
        assert_eq!(said(audit("step_failed", "renew_alias")).unwrap().text, "renew_alias failed");
    }

    #[test]
    fn an_answer_after_a_silence_says_how_long_it_was() {
        let event = Event { at: Duration::from_secs(5), node: None, what: What::Client(Heard::Node(Node::new(1))) };
        let line = Line::of(&event, &View::new(3), Some(Duration::from_secs(3))).unwrap();
        assert_eq!(line.text, "hears cp1 after 2.00 s of silence");
    }
}
