//! Carries out the steps of a scenario on a running lab, while every source is being read.
//!
//! Invariant: every wait ends, by its condition or by its limit. Not to be cancelled half-way but by dropping the whole
//! run, after which the lab is taken down.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use tokio::sync::mpsc::Receiver;
use tokio::time::timeout;

use super::clock;
use super::condition::{Condition, Kind};
use super::diagnosis::Wish;
use super::event::{Event, Fault, What};
use super::file::{FaultStep, Role, Scenario, Step, Wait};
use super::judge::{resolve, secs};
use super::lab_api::{self, Lab};
use super::measure::HEALTHY;
use super::names::NodeRef;
use super::node::Node;
use super::observe;
use super::record::Record;

/// Conditions on time alone (silence) are looked at this often; all others when an event arrives.
const TICK: Duration = Duration::from_millis(50);
/// Between two diagnoses of a wait.
const ASK_AGAIN: Duration = Duration::from_millis(500);
/// A leader must be known for a `let`; after an election it takes a moment.
const LET_LIMIT: Duration = Duration::from_secs(5);
/// After a flush was written, the follower of the journal reads it at once or never.
const FLUSH_LIMIT: Duration = Duration::from_secs(10);

/// The step that could not be carried out, and why.
#[derive(Debug, thiserror::Error)]
#[error("{step}: {why}")]
pub struct StepFailed {
    /// The step, in words.
    pub step: String,
    /// What went wrong.
    pub why: String,
}

/// A run in progress.
pub struct Run<'a> {
    /// The lab.
    pub lab: &'a Lab,
    /// Whether watchdogs run in it.
    pub watchdog: bool,
    /// Whether they only observe, so that what they would have brought about does not come.
    pub observe: bool,
    /// Everything seen so far.
    pub record: Record,
    /// What the variables are bound to.
    pub variables: BTreeMap<String, Node>,
    /// Where the sources' events arrive.
    pub events: Receiver<Event>,
    /// Tells a person what is going on.
    pub say: &'a mut dyn FnMut(&str),
}

impl Run<'_> {
    /// Carries out all steps.
    ///
    /// # Errors
    /// The first step that failed.
    pub async fn steps(&mut self, scenario: &Scenario) -> Result<(), StepFailed> {
        for step in &scenario.steps {
            let words = format!("line {}: {}", step.referenced.line(), self.words(&step.value));
            (self.say)(&words);
            self.step(&step.value).await.map_err(|why| StepFailed { step: words, why })?;
        }
        Ok(())
    }

    async fn step(&mut self, step: &Step) -> Result<(), String> {
        match step {
            Step::Let(bindings) => self.bind(bindings).await,
            Step::Wait(wait) => self.wait(wait).await,
            Step::Fault(fault) => self.fault(fault, false).await,
            Step::Heal(fault) => self.fault(fault, true).await,
            Step::Mark(name) => {
                self.drain();
                self.note(None, What::Mark(name.clone()));
                Ok(())
            }
            Step::Hold(length) => {
                self.until(length.0, |_| false).await;
                Ok(())
            }
        }
    }

    async fn bind(&mut self, bindings: &BTreeMap<Role, String>) -> Result<(), String> {
        self.until(LET_LIMIT, |run| run.record.view.leader().is_some()).await;
        let leader = self.record.view.leader().ok_or("no node, or more than one, leads")?;
        let followers: Vec<Node> = self.record.view.nodes().map(|(node, _)| node).filter(|node| *node != leader).collect();
        let mut said = Vec::new();
        for (role, name) in bindings {
            let (node, words) = match role {
                Role::Leader => (Some(leader), "leader"),
                Role::Follower => (followers.first().copied(), "follower"),
                Role::OtherFollower => (followers.get(1).copied(), "other follower"),
            };
            let node = node.ok_or_else(|| format!("there is no {words}"))?;
            self.variables.insert(name.clone(), node);
            said.push(format!("{name} = {node} ({words})"));
        }
        self.note(None, What::Note(said.join(", ")));
        Ok(())
    }

    async fn wait(&mut self, wait: &Wait) -> Result<(), String> {
        let condition = wait.condition()?;
        let nodes = self.resolve(&condition.node);
        if let Kind::Diagnosis(wish) = &condition.kind {
            let alone = self.observe.then(|| observe::alone(wish));
            return self.diagnose(alone.as_ref().unwrap_or(wish), &nodes, wait.limit.0).await;
        }
        let began = clock::now();
        let watchdog = self.watchdog;
        // A run that has gone blind would only wait for its limit.
        let holds = |run: &Self| condition.kind.holds(&nodes, &run.record.seen(clock::now(), watchdog));
        // The lab itself must come up well; after that a wait may be for what nobody does.
        let limit = if self.observe && self.record.marked(HEALTHY) {
            Some(observe::patience(&condition.kind, wait.limit.0))
        } else {
            None
        };
        let ended = self.until(limit.unwrap_or(wait.limit.0), |run| holds(run) || !run.record.is_complete()).await;
        if !self.record.is_complete() {
            return Err(format!("gave up: {}", self.record.gaps().join("; ")));
        }
        if let (false, Some(limit)) = (ended, limit) {
            let words = self.condition_words(&condition);
            self.note(None, What::Note(format!("did not come within {}, as is right in observe mode: {words}", secs(limit))));
            return Ok(());
        }
        if !ended {
            return Err(format!("not within {}", humantime::format_duration(wait.limit.0)));
        }
        let now = clock::now();
        if condition.kind == Kind::Healthy && !self.record.marked(HEALTHY) {
            self.note(None, What::Mark(HEALTHY.to_owned()));
        }
        let words = self.condition_words(&condition);
        self.note(None, What::Note(format!("waited {:.2} s: {words}", now.saturating_sub(began).as_secs_f64())));
        Ok(())
    }

    /// Asks all of the nodes until each says what is wished.
    async fn diagnose(&mut self, wish: &Wish, nodes: &[Node], limit: Duration) -> Result<(), String> {
        let (lab, deadline) = (self.lab, clock::now() + limit);
        loop {
            let asked =
                futures_util::future::join_all(nodes.iter().map(|node| lab_api::diagnose(lab, *node, wish.without_rights)));
            tokio::pin!(asked);
            let answers = loop {
                tokio::select! {
                    answers = &mut asked => break answers,
                    Some(event) = self.events.recv() => self.record.take(event),
                }
            };
            let mut lacking = Vec::new();
            for (node, answer) in nodes.iter().zip(answers) {
                let found = answer.map_err(|error| format!("{error:#}"))?;
                if let Some(lacks) = wish.lacks(&found, &self.variables) {
                    lacking.push(format!("{node}: {lacks}; it says: {}", found.sentence));
                }
                self.note(Some(*node), What::Diagnosis(found));
            }
            if lacking.is_empty() {
                return Ok(());
            }
            if clock::now() >= deadline {
                return Err(format!("not within {}: {}", humantime::format_duration(limit), lacking.join("; ")));
            }
            self.until(ASK_AGAIN, |_| false).await;
        }
    }

    async fn fault(&mut self, step: &FaultStep, heal: bool) -> Result<(), String> {
        self.drain();
        let args: BTreeMap<String, String> = step.args.iter().map(|(key, value)| (key.clone(), self.expand(value))).collect();
        for node in self.resolve(&step.node) {
            let fault = Fault { name: step.name.0.clone(), args: args.clone() };
            self.note(Some(node), if heal { What::Heal(fault) } else { What::Fault(fault) });
            let done = lab_api::apply(self.lab, heal, &step.name.0, node, &args).await;
            done.map_err(|error| format!("{error:#}"))?;
        }
        Ok(())
    }

    /// `cp2,$F` with the variables put in.
    fn expand(&self, value: &str) -> String {
        let word = |word: &str| {
            let node = word.trim().strip_prefix('$').and_then(|name| self.variables.get(name));
            node.map_or_else(|| word.to_owned(), Node::to_string)
        };
        value.split(',').map(word).collect::<Vec<_>>().join(",")
    }

    /// Reads events until `done` or until `limit` has passed; whether it was `done`.
    pub async fn until(&mut self, limit: Duration, mut done: impl FnMut(&Self) -> bool) -> bool {
        let deadline = clock::now() + limit;
        loop {
            if done(self) {
                return true;
            }
            let left = deadline.saturating_sub(clock::now());
            // One event at a time: a state that lasted only from one event to the next has been seen.
            if let Ok(event) = self.events.try_recv() {
                self.record.take(event);
            } else if left.is_zero() {
                return false;
            } else if let Ok(Some(event)) = timeout(left.min(TICK), self.events.recv()).await {
                self.record.take(event);
            }
        }
    }

    fn drain(&mut self) {
        while let Ok(event) = self.events.try_recv() {
            self.record.take(event);
        }
    }

    fn note(&mut self, node: Option<Node>, what: What) {
        self.record.take(Event { at: clock::now(), node, what });
    }

    fn resolve(&self, node: &NodeRef) -> Vec<Node> {
        resolve(node, &self.variables, self.lab.nodes().len())
    }

    /// Reads every journal to its end. Returns the nodes whose journal could not be.
    pub async fn flush(&mut self) -> Vec<String> {
        let token = format!("{:?}", clock::now());
        let nodes: Vec<Node> = lab_api::nodes(self.lab).map(|(node, _)| node).collect();
        let lab = self.lab;
        let flushes = nodes.iter().map(async |node| {
            let own = format!("{node} {token}");
            (*node, lab_api::flush_journal(lab, *node, &own).await.map(|()| own))
        });
        let mut gaps = Vec::new();
        for (node, flushed) in futures_util::future::join_all(flushes).await {
            match flushed {
                Ok(own) => {
                    if !self.until(FLUSH_LIMIT, |run| run.record.read_up_to(&own)).await {
                        gaps.push(format!("{node}: the end of the journal did not arrive"));
                    }
                }
                Err(error) => gaps.push(format!("{node}: the journal could not be flushed: {error:#}")),
            }
        }
        gaps
    }

    fn words(&self, step: &Step) -> String {
        let fault = |fault: &FaultStep| {
            let nodes = self.resolve(&fault.node).iter().map(Node::to_string).collect::<Vec<_>>().join(", ");
            format!("{} on {nodes}", fault.name)
        };
        match step {
            Step::Let(_) => "who leads?".to_owned(),
            Step::Wait(wait) => match wait.condition() {
                Ok(condition) => {
                    format!(
                        "wait until {} (at most {})",
                        self.condition_words(&condition),
                        humantime::format_duration(wait.limit.0)
                    )
                }
                Err(what) => what,
            },
            Step::Fault(step) => fault(step),
            Step::Heal(step) => format!("heal {}", fault(step)),
            Step::Mark(name) => format!("mark {name}"),
            Step::Hold(length) => format!("watch for {}", humantime::format_duration(length.0)),
        }
    }

    fn condition_words(&self, condition: &Condition) -> String {
        let nodes = self.resolve(&condition.node).iter().map(Node::to_string).collect::<Vec<_>>().join(", ");
        format!("{} ({nodes})", condition.kind)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Healthy => f.write_str("all is healthy"),
            Self::Recovered => f.write_str("all is healthy again"),
            Self::Diagnosis(wish) => write!(f, "the diagnosis is {}", wish.cause),
            Self::Diagnosed(cause) => write!(f, "the daemon finds {cause}"),
            Self::Verdict(verdict) => write!(f, "the verdict is {verdict}"),
            Self::Audit { event, step: Some(step) } => write!(f, "{event} {step}"),
            Self::Audit { event, step: None } => f.write_str(event),
            Self::Fip(state) => write!(f, "the FIP is {}", format!("{state:?}").to_lowercase()),
            Self::Manifest(presence) => write!(f, "the manifest is {}", format!("{presence:?}").to_lowercase()),
            Self::Container(state) => write!(f, "the container is {}", format!("{state:?}").to_lowercase()),
            Self::AnsweredBy => f.write_str("the client is answered"),
            Self::Silence(length) => write!(f, "the client hears nobody for {}", humantime::format_duration(*length)),
            Self::Leader => f.write_str("etcd leads"),
            Self::LeaderOtherThan => f.write_str("the leader is another one"),
        }
    }
}
