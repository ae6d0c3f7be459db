//! Holds what a scenario expects against what a run showed. Pure: every answer carries the value that was measured.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;

use super::event::{Audit, Event, Lifetime, What};
use super::expect::{Expect, HolderAtEnd, OutageBound, QuietBound, StepsBound, VerdictsBound};
use super::manifest::Directory;
use super::measure::{Timeline, longest};
use super::names::{NodeRef, StepName};
use super::node::Node;
use super::outside::Deeds;
use super::view::View;

/// A run, with what is not an event.
pub struct Evidence {
    /// What was seen.
    pub timeline: Timeline,
    /// What the scenario's variables were bound to.
    pub variables: BTreeMap<String, Node>,
    /// The manifest directories at the begin and at the end.
    pub directories: BTreeMap<Node, (Directory, Directory)>,
    /// What the watchdogs did, seen from outside; empty unless the scenario asks for it.
    pub deeds: BTreeMap<Node, Deeds>,
}

/// One expectation, judged.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// What was expected, in words.
    pub expected: String,
    /// What was measured.
    pub measured: String,
    /// Whether that is good enough.
    pub passed: bool,
}

impl Finding {
    const fn new(passed: bool, expected: String, measured: String) -> Self {
        Self { expected, measured, passed }
    }
}

/// Seconds for people.
#[must_use]
pub fn secs(length: Duration) -> String {
    format!("{:.2} s", length.as_secs_f64())
}

impl Evidence {
    /// The nodes that a reference stands for.
    #[must_use]
    pub fn nodes(&self, node: &NodeRef) -> Vec<Node> {
        resolve(node, &self.variables, self.timeline.nodes)
    }

    /// Judges one expectation.
    #[must_use]
    pub fn judge(&self, expect: &Expect) -> Finding {
        let run = &self.timeline;
        match expect {
            Expect::Outage(bound) => self.outage(bound),
            Expect::TwoHolders(bound) => {
                let longest = run.two_holders(run.since(bound.since.as_deref()), !bound.unreachable_too);
                let which = if bound.unreachable_too { "two nodes" } else { "two nodes that the client can reach" };
                let expected = match bound.at_most.0 {
                    Duration::ZERO => format!("never do {which} hold the FIP"),
                    most => format!("{which} hold the FIP for at most {}", secs(most)),
                };
                Finding::new(longest <= bound.at_most.0, expected, secs(longest))
            }
            Expect::HolderAtEnd(bound) => self.holder_at_end(bound),
            Expect::FipGoneToEnd(bound) => {
                let gone = run.gone_to_end(run.since(bound.since.as_deref()));
                let expected = format!("nobody serves the FIP for the last {} or longer", secs(bound.at_least.0));
                Finding::new(gone >= bound.at_least.0, expected, secs(gone))
            }
            Expect::NeverHolds(bound) => {
                self.each(&bound.node, "never holds the FIP", |node| self.holds(node, Duration::ZERO, bound.since.as_deref()))
            }
            Expect::Holds(bound) => {
                let expected = format!("holds the FIP for at most {} at a stretch", secs(bound.at_most.0));
                self.each(&bound.node, &expected, |node| self.holds(node, bound.at_most.0, bound.since.as_deref()))
            }
            Expect::Verdicts(bound) => self.verdicts(bound),
            Expect::Steps(bound) => self.steps(bound),
            Expect::NewContainer(bound) => self.each(&bound.node, "runs the loop in a new container", |node| {
                self.new_container(node, run.since(bound.since.as_deref()))
            }),
            Expect::ManifestIntact(bound) => self.each(&bound.node, "has its manifest directory as it was", |node| {
                self.directories.get(&node).map_or((false, "not read".to_owned()), |(before, after)| before.compare(after))
            }),
            Expect::WroteNothing(bound) => {
                let since = bound.since.as_deref().map_or(Duration::ZERO, |mark| run.since(Some(mark)));
                self.each(&bound.node, "changes nothing", |node| self.counted(node, |deeds| deeds.judge_nothing(since)))
            }
            Expect::ChangedSomething(bound) => {
                let since = run.since(bound.since.as_deref());
                self.each(&bound.node, "is seen to change something", |node| {
                    self.counted(node, |deeds| deeds.judge_something(since))
                })
            }
            Expect::Says(bound) => self.each(&bound.node, &format!("says \"{}\"", bound.text), |node| {
                let has = |text: &String| text.contains(&bound.text);
                let mut audits = self.audits(node, run.since(bound.since.as_deref()));
                let found = audits.find(|audit| has(&audit.message) || audit.reason.as_ref().is_some_and(has));
                found.map_or((false, "nothing of the kind".to_owned()), |audit| (true, format!("in {}", audit.event)))
            }),
            Expect::JournalQuiet(bound) => self.quiet(bound),
            Expect::Autopsy(bound) => self.each(&bound.node, &format!("finds the cause {}", bound.cause), |node| {
                let autopsies =
                    self.audits(node, run.since(bound.since.as_deref())).filter(|audit| audit.event == "hang_autopsied");
                let causes: Vec<&str> = autopsies.map(|audit| audit.cause.as_deref().unwrap_or("none")).collect();
                (!causes.is_empty() && causes.iter().all(|cause| *cause == bound.cause.0), list(&causes))
            }),
        }
    }

    /// Whether a node held the FIP for no longer, and for how long it did.
    fn holds(&self, node: Node, at_most: Duration, since: Option<&str>) -> (bool, String) {
        let held = self.timeline.spans(|view| view.node(node).is_some_and(|state| state.fip.is_some()));
        let longest = longest(&held, self.timeline.since(since));
        (longest <= at_most, if longest.is_zero() { "never".to_owned() } else { secs(longest) })
    }

    /// The same question to each of several nodes.
    fn each(&self, node: &NodeRef, what: &str, ask: impl Fn(Node) -> (bool, String)) -> Finding {
        let nodes = self.nodes(node);
        if let (NodeRef::Variable(name), []) = (node, nodes.as_slice()) {
            return Finding::new(false, format!("${name} {what}"), format!("${name} was never bound"));
        }
        let answers: Vec<_> = nodes.iter().map(|node| (node, ask(*node))).collect();
        let passed = !answers.is_empty() && answers.iter().all(|(_, (good, _))| *good);
        let who = match nodes.as_slice() {
            several if several.len() > 1 && several.len() == self.timeline.nodes => "every node".to_owned(),
            several => several.iter().map(Node::to_string).collect::<Vec<_>>().join(", "),
        };
        // One answer stands for all when they are the same; when some are bad, those are named.
        let measured = match answers.as_slice() {
            [(_, (_, first)), rest @ ..] if rest.iter().all(|(_, (_, said))| said == first) => first.clone(),
            several => {
                let telling = several.iter().filter(|(_, (good, _))| passed || !good);
                telling.map(|(node, (_, said))| format!("{node} {said}")).collect::<Vec<_>>().join("; ")
            }
        };
        Finding::new(passed, format!("{who} {what}"), measured)
    }

    fn counted(&self, node: Node, judge: impl Fn(&Deeds) -> (bool, String)) -> (bool, String) {
        self.deeds.get(&node).map_or((false, "not watched from outside".to_owned()), judge)
    }

    fn outage(&self, bound: &OutageBound) -> Finding {
        let run = &self.timeline;
        let outages = run.outages(run.since(bound.since.as_deref()));
        let length = |outage: &super::measure::Outage| {
            if bound.beyond_election { outage.beyond_election() } else { outage.span.length() }
        };
        let worst = outages.iter().max_by_key(|outage| length(outage));
        let longest = worst.map(length).unwrap_or_default();
        let beyond = if bound.beyond_election { " beyond the election" } else { "" };
        let mut limits = Vec::new();
        limits.extend(bound.at_most.map(|most| format!("at most {}", secs(most.0))));
        limits.extend(bound.at_least.map(|least| format!("at least {}", secs(least.0))));
        let passed = bound.at_most.is_none_or(|most| longest <= most.0) && bound.at_least.is_none_or(|least| longest >= least.0);
        let measured = match worst {
            Some(outage) if bound.beyond_election => {
                format!(
                    "{} ({} in all, {} of it without a leader)",
                    secs(longest),
                    secs(outage.span.length()),
                    secs(outage.election)
                )
            }
            Some(_) | None => secs(longest),
        };
        Finding::new(passed, format!("the client's longest outage{beyond} is {}", limits.join(" and ")), measured)
    }

    fn holder_at_end(&self, bound: &HolderAtEnd) -> Finding {
        let view = self.timeline.view_at_end();
        let wanted = self.nodes(&bound.node);
        let holders: Vec<(Node, Option<Lifetime>)> =
            view.nodes().filter(|(_, state)| state.serves()).map(|(node, state)| (node, state.fip)).collect();
        let (alone, lifetime) = match (holders.as_slice(), wanted.as_slice()) {
            ([(holder, lifetime)], [wanted]) => (holder == wanted, *lifetime),
            _none_or_several => (false, None),
        };
        let words = |lifetime: Option<Lifetime>| match lifetime {
            Some(Lifetime::Forever) => ", forever",
            Some(Lifetime::Lease) => ", by a lease",
            None => "",
        };
        let measured = match holders.as_slice() {
            [] => "nobody".to_owned(),
            several => several.iter().map(|(node, life)| format!("{node}{}", words(*life))).collect::<Vec<_>>().join(" and "),
        };
        let passed = alone && bound.lifetime.is_none_or(|wanted| lifetime == Some(wanted));
        let who = wanted.iter().map(Node::to_string).collect::<Vec<_>>().join(", ");
        Finding::new(passed, format!("at the end {who} alone holds the FIP{}", words(bound.lifetime)), measured)
    }

    fn new_container(&self, node: Node, since: Duration) -> (bool, String) {
        let mut before = View::new(self.timeline.nodes);
        self.timeline.events.iter().take_while(|event| event.at <= since).for_each(|event| before.apply(event));
        let after = self.timeline.view_at_end();
        let container = |view: &View| view.node(node).and_then(|state| state.container.clone());
        match (container(&before), container(&after)) {
            (Some(old), Some(new)) if old.id == new.id => (false, "the same container".to_owned()),
            (Some(_), Some(new)) if new.running => (true, format!("new, attempt {}", new.attempt)),
            (Some(_), Some(_)) => (false, "new, but it does not run".to_owned()),
            (None, _) => (false, "the first container was not seen".to_owned()),
            (Some(_), None) => (false, "none".to_owned()),
        }
    }

    fn verdicts(&self, bound: &VerdictsBound) -> Finding {
        let wanted: Vec<&str> = bound.in_order.iter().map(|name| name.0.as_str()).collect();
        let never: Vec<&str> = bound.never.iter().map(|name| name.0.as_str()).collect();
        let mut what = Vec::new();
        what.extend((!wanted.is_empty()).then(|| format!("says {}", wanted.join(", then "))));
        what.extend((!never.is_empty()).then(|| format!("never says {}", never.join(" or "))));
        let since = self.timeline.since(bound.since.as_deref());
        self.each(&bound.node, &what.join(" and "), |node| {
            let audits = self.audits(node, since).filter(|audit| audit.event == "verdict_changed");
            let said: Vec<&str> = audits.filter_map(|audit| audit.verdict.as_deref()).collect();
            (is_subsequence(&wanted, &said) && !said.iter().any(|verdict| never.contains(verdict)), list(&said))
        })
    }

    fn steps(&self, bound: &StepsBound) -> Finding {
        let words = |steps: &[StepName]| steps.iter().map(|step| step.0.clone()).collect::<Vec<_>>();
        let (wanted, never) = (words(&bound.in_order), words(&bound.never));
        let only = bound.only.as_deref().map(words);
        let mut what = Vec::new();
        what.extend((!wanted.is_empty()).then(|| format!("does {}", wanted.join(", then "))));
        what.extend((!never.is_empty()).then(|| format!("never begins {}", never.join(" or "))));
        what.extend(only.as_ref().map(|only| match only.as_slice() {
            [] => "takes no action".to_owned(),
            some => format!("takes no action but {}", some.join(" or ")),
        }));
        let since = self.timeline.since(bound.since.as_deref());
        self.each(&bound.node, &what.join(" and "), |node| {
            let steps = |event: &'static str| self.audits(node, since).filter(move |audit| audit.event == event);
            let done: Vec<&str> = steps("step_succeeded").filter_map(|audit| audit.step.as_deref()).collect();
            let begun: Vec<&str> = steps("step_started").filter_map(|audit| audit.step.as_deref()).collect();
            let forbidden = |step: &str| {
                never.iter().any(|name| name == step) || only.as_ref().is_some_and(|only| !only.iter().any(|name| name == step))
            };
            let wanted: Vec<&str> = wanted.iter().map(String::as_str).collect();
            let shown = if wanted.is_empty() { &begun } else { &done };
            (is_subsequence(&wanted, &done) && !begun.iter().any(|step| forbidden(step)), list(shown))
        })
    }

    fn quiet(&self, bound: &QuietBound) -> Finding {
        let since = self.timeline.since(bound.since.as_deref());
        self.each(&bound.node, &format!("logs at most {} entries", bound.at_most), |node| {
            // An entry about several steps names them all, with a blank between them.
            let steps = |audit: &Audit| audit.step.clone().unwrap_or_default();
            let excepted = |step: &str| bound.except_steps.iter().any(|name| name.0 == step);
            let excused = |audit: &Audit| !steps(audit).is_empty() && steps(audit).split_whitespace().all(excepted);
            let counts =
                |event: &&Event| matches!(event.what, What::Log(_)) || event.audit().is_some_and(|audit| !excused(audit));
            let entries = self.timeline.events_of(node, since).filter(counts).count();
            (entries <= bound.at_most, entries.to_string())
        })
    }

    fn audits(&self, node: Node, since: Duration) -> impl Iterator<Item = &Audit> {
        self.timeline.events_of(node, since).filter_map(Event::audit)
    }
}

/// The nodes that a reference stands for.
#[must_use]
pub fn resolve(node: &NodeRef, variables: &BTreeMap<String, Node>, nodes: usize) -> Vec<Node> {
    match node {
        NodeRef::Named(node) => vec![*node],
        NodeRef::Variable(name) => variables.get(name).copied().into_iter().collect(),
        NodeRef::All => (1_u8..).take(nodes).map(Node::new).collect(),
    }
}

fn is_subsequence(wanted: &[&str], said: &[&str]) -> bool {
    let mut said = said.iter();
    wanted.iter().all(|wanted| said.any(|said| said == wanted))
}

/// Repeats in a row are one word; nothing is said so.
fn list(words: &[&str]) -> String {
    let mut words = words.to_vec();
    words.dedup();
    if words.is_empty() { "nothing".to_owned() } else { words.join(", ") }
}

#[cfg(test)]
#[path = "judge_tests.rs"]
mod tests;
