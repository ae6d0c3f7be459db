//! From YAML text to a scenario that can be run: everything that is wrong with it, each at its line.
//!
//! Invariant: what passes here refers to nothing that does not exist. Faults, verdicts and steps are known names,
//! variables are bound before they are used, marks are set, every wait has a limit, and something is expected.

use std::collections::BTreeSet;
use std::fmt;
use std::path::Path;

use serde_saphyr::Spanned;

use super::diagnosis::Wish;
use super::expect::Expect;
use super::file::{FaultStep, Scenario, Step};
use super::measure::HEALTHY;
use super::names::NodeRef;

/// Most nodes that a scenario may ask for.
const NODES_MAX: u8 = 5;

/// One thing that is wrong, and where.
#[derive(Debug, PartialEq, Eq)]
pub struct Flaw {
    /// Line, from 1; 0 if the place is not known.
    pub line: u64,
    /// Column, from 1.
    pub column: u64,
    /// What is wrong.
    pub what: String,
}

impl fmt::Display for Flaw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.line, self.column, self.what)
    }
}

/// Reads a scenario. `path` gives the name that it must have.
///
/// # Errors
/// Every flaw that was found; the parser itself stops at its first.
pub fn parse(text: &str, path: &Path) -> Result<Scenario, Vec<Flaw>> {
    let options = serde_saphyr::options! { strict_booleans: true };
    let scenario: Scenario = serde_saphyr::from_str_with_options(text, options).map_err(|error| {
        let (line, column) = error.location().map_or((0, 0), |at| (at.line(), at.column()));
        let first = error.without_snippet().to_string();
        let what = first.split(" at line ").next().unwrap_or(&first);
        vec![Flaw { line, column, what: what.trim_end_matches(':').to_owned() }]
    })?;
    let mut checker = Checker { nodes: scenario.lab.nodes, ..Checker::default() };
    checker.name(&scenario, path);
    if scenario.steps.is_empty() {
        checker.flaw(&scenario.name, "a scenario without steps shows nothing".to_owned());
    }
    for step in &scenario.steps {
        checker.step(step);
    }
    if scenario.expect.value.is_empty() {
        checker.flaw(&scenario.expect, "a scenario that expects nothing proves nothing".to_owned());
    }
    for expect in &scenario.expect.value {
        checker.expectation(expect);
    }
    if checker.flaws.is_empty() { Ok(scenario) } else { Err(checker.flaws) }
}

#[derive(Default)]
struct Checker {
    nodes: u8,
    flaws: Vec<Flaw>,
    variables: BTreeSet<String>,
    marks: BTreeSet<String>,
}

impl Checker {
    fn flaw<T>(&mut self, at: &Spanned<T>, what: String) {
        self.flaws.push(Flaw { line: at.referenced.line(), column: at.referenced.column(), what });
    }

    fn name(&mut self, scenario: &Scenario, path: &Path) {
        let stem = path.file_stem().and_then(|stem| stem.to_str());
        if !(1..=NODES_MAX).contains(&scenario.lab.nodes) {
            let what = format!("`{}` is no number of nodes: 1 to {NODES_MAX}", scenario.lab.nodes);
            self.flaw(&scenario.name, what);
        }
        if !scenario.lab.policy.is_object() {
            self.flaw(&scenario.name, "lab.policy is no mapping".to_owned());
        }
        if stem != Some(scenario.name.value.as_str()) {
            self.flaw(&scenario.name, format!("`{}` is not the name of the file", scenario.name.value));
        }
    }

    fn step(&mut self, step: &Spanned<Step>) {
        match &step.value {
            Step::Let(bindings) => {
                if bindings.is_empty() {
                    self.flaw(step, "binds nothing".to_owned());
                }
                self.variables.extend(bindings.values().cloned());
            }
            Step::Wait(wait) => match wait.condition() {
                Ok(condition) => {
                    self.node(step, &condition.node);
                    for name in wait.diagnosis.iter().flat_map(Wish::variables) {
                        self.variable(step, name);
                    }
                }
                Err(what) => self.flaw(step, what),
            },
            Step::Fault(fault) | Step::Heal(fault) => self.fault(step, fault),
            Step::Mark(name) => {
                if name == HEALTHY || !self.marks.insert(name.clone()) {
                    self.flaw(step, format!("the mark `{name}` is set twice"));
                }
            }
            Step::Hold(length) => {
                if length.0.is_zero() {
                    self.flaw(step, "holds for no time".to_owned());
                }
            }
        }
    }

    fn fault(&mut self, at: &Spanned<Step>, fault: &FaultStep) {
        self.node(at, &fault.node);
        if let Some(what) = super::lab_api::fault_flaw(&fault.name.0, &fault.args) {
            self.flaw(at, what);
        }
        for value in fault.args.values() {
            for word in value.split(',').filter_map(|word| word.trim().strip_prefix('$')) {
                self.variable(at, word);
            }
        }
    }

    fn node<T>(&mut self, at: &Spanned<T>, node: &NodeRef) {
        match node {
            NodeRef::Variable(name) => self.variable(at, name),
            NodeRef::Named(node) if node.number() > self.nodes => {
                self.flaw(at, format!("the lab has no {node}: it has {} nodes", self.nodes));
            }
            NodeRef::Named(_) | NodeRef::All => {}
        }
    }

    fn variable<T>(&mut self, at: &Spanned<T>, name: &str) {
        if !self.variables.contains(name) {
            self.flaw(at, format!("`${name}` was not bound by a `let` before"));
        }
    }

    fn since<T>(&mut self, at: &Spanned<T>, since: Option<&String>) {
        if let Some(mark) = since.filter(|mark| *mark != HEALTHY && !self.marks.contains(*mark)) {
            self.flaw(at, format!("no step sets the mark `{mark}`"));
        }
    }

    fn expectation(&mut self, expect: &Spanned<Expect>) {
        let empty = match &expect.value {
            Expect::Outage(bound) => bound.at_most.is_none() && bound.at_least.is_none(),
            Expect::Verdicts(bound) => bound.in_order.is_empty() && bound.never.is_empty(),
            Expect::Steps(bound) => bound.in_order.is_empty() && bound.never.is_empty() && bound.only.is_none(),
            Expect::Says(bound) => bound.text.trim().is_empty(),
            Expect::TwoHolders(_)
            | Expect::HolderAtEnd(_)
            | Expect::FipGoneToEnd(_)
            | Expect::NeverHolds(_)
            | Expect::Holds(_)
            | Expect::NewContainer(_)
            | Expect::ManifestIntact(_)
            | Expect::WroteNothing(_)
            | Expect::ChangedSomething(_)
            | Expect::JournalQuiet(_)
            | Expect::Autopsy(_) => false,
        };
        if empty {
            self.flaw(expect, "this expectation can never fail".to_owned());
        }
        let (node, since) = expect.value.node_and_since();
        if let Some(node) = node {
            self.node(expect, node);
        }
        self.since(expect, since);
        if let Expect::HolderAtEnd(bound) = &expect.value
            && bound.node == NodeRef::All
        {
            self.flaw(expect, "one node holds the FIP, not `all`".to_owned());
        }
    }
}

#[cfg(test)]
#[path = "check_tests.rs"]
mod tests;
