//! One run of one scenario: a lab of its own, brought up, watched, broken, judged and taken down.
//!
//! Invariant: the lab goes down whatever happened, on a failure and on an interrupt as well, unless it is to be kept.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context as _;
use serde::Serialize;
use tokio::sync::{mpsc, watch};
use tokio::time::timeout;

use super::clock;
use super::event::{Event, What};
use super::file::Scenario;
use super::judge::{Evidence, Finding};
use super::lab_api::{self, Lab};
use super::measure::{Outage, Timeline};
use super::node::Node;
use super::outside::starts::Gets;
use super::outside::{self, Deeds, Outside, Seen};
use super::record::Record;
use super::runner::{Run, StepFailed};
use super::source::{CHANNEL, Sources};
use crate::probe::client::PERIOD;
use crate::probe::outage::Heard;

/// What the command line says about a run.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Leave the lab running afterwards.
    pub keep: bool,
    /// Runs the watchdog or not, whatever the file says.
    pub watchdog: Option<bool>,
    /// Which watchdog.
    pub watchdog_binary: Option<PathBuf>,
    /// The watchdogs only observe: waits for what they would have done run out, see `observe`.
    pub observe: bool,
}

/// What a run showed.
#[derive(Serialize)]
pub struct Outcome {
    /// The scenario.
    pub scenario: String,
    /// Whether watchdogs ran.
    pub watchdog: bool,
    /// Every step was carried out and every expectation met.
    pub passed: bool,
    /// What was expected, with what was measured.
    pub findings: Vec<Finding>,
    /// The client's longest outage, if there was one.
    pub longest_outage: Option<Outage>,
    /// Who was who.
    pub variables: BTreeMap<String, Node>,
    /// Everything that was seen.
    pub timeline: Timeline,
    /// What the watchdogs did, seen from outside; empty unless that was counted.
    pub deeds: BTreeMap<Node, Deeds>,
    /// The last lines of each node's journal, when something failed.
    pub journals: BTreeMap<Node, String>,
}

/// Runs a scenario on a lab called `name`.
///
/// # Errors
/// The lab does not come up or cannot be watched, or the run was interrupted. What a scenario did not find is no error.
pub async fn run(
    scenario: &Scenario,
    name: &str,
    options: &Options,
    mut interrupted: watch::Receiver<bool>,
    say: &mut dyn FnMut(&str),
) -> anyhow::Result<Outcome> {
    let outcome = tokio::select! {
        outcome = up_and_watch(scenario, name, options, say) => outcome,
        stopped = interrupted.wait_for(|stop| *stop) => match stopped {
            Ok(_) => Err(anyhow::anyhow!("interrupted")),
            Err(_) => Err(anyhow::anyhow!("nobody waits for this run any more")),
        },
    };
    if !options.keep {
        say("taking the lab down");
        Lab::down(name).await.with_context(|| format!("cannot take the lab `{name}` down"))?;
    }
    outcome
}

async fn up_and_watch(scenario: &Scenario, name: &str, options: &Options, say: &mut dyn FnMut(&str)) -> anyhow::Result<Outcome> {
    let mut wishes = scenario.lab.clone();
    wishes.watchdog = options.watchdog.unwrap_or(wishes.watchdog);
    let up = lab_api::options(&wishes, options.watchdog_binary.clone())?;
    // A lab that an earlier run left behind would be in the way.
    Lab::down(name).await.with_context(|| format!("cannot clear the lab `{name}`"))?;
    let lab = Lab::up(name, &up, say).await.with_context(|| format!("cannot bring the lab `{name}` up"))?;

    let outside = match gets(scenario) {
        gets if wishes.watchdog && gets.any() => Some(Outside::start(&lab, gets).await?),
        _nothing => None,
    };

    let began = clock::now();
    let (send, events) = mpsc::channel(CHANNEL);
    let sources = Sources::start(&lab, &send)?;
    let tell = send.clone();
    let on_change = Box::new(move |last_answer, heard| {
        // Shown where the first datagram went unanswered, so that a fault comes before its effect.
        let at = if heard == Heard::Silence { last_answer + PERIOD } else { last_answer };
        // Full only if nobody reads any more; the segments are complete all the same.
        drop(tell.try_send(Event { at, node: None, what: What::Client(heard) }));
    });
    let client = lab_api::client(name, on_change)?;
    let before = lab_api::directories(&lab);

    let nodes = lab.nodes().len();
    let record = Record::new(nodes, began);
    let (watchdog, observe) = (wishes.watchdog, options.observe);
    let mut run = Run { lab: &lab, watchdog, observe, record, variables: BTreeMap::new(), events, say };
    let steps = match timeout(scenario.limit.0, run.steps(scenario)).await {
        Ok(done) => done,
        Err(_elapsed) => Err(StepFailed {
            step: "all steps together".to_owned(),
            why: format!("not within {}", humantime::format_duration(scenario.limit.0)),
        }),
    };
    let ended = clock::now();
    let segments = client.snapshot().segments().to_vec();
    let after = lab_api::directories(&lab);
    (run.say)("reading the journals to their ends");
    let mut gaps = run.flush().await;
    gaps.extend(run.record.gaps());
    let held = outside.is_some();
    let Seen { deeds, gaps: unserved } = match outside {
        Some(outside) => outside.finish().await,
        None => Seen::default(),
    };
    gaps.extend(unserved);
    if held && options.keep {
        outside::hold_no_more(&lab).await?;
    }
    drop((sources, client));

    let Run { record, variables, .. } = run;
    // What came after the last step is not part of the run.
    let events = record.into_events().into_iter().filter(|event| event.at <= ended).collect();
    let timeline = Timeline::new(nodes, began, ended, events, segments);
    let directories =
        before.into_iter().zip(after).filter_map(|((node, old), (_, new))| Some((node, (old.ok()?, new.ok()?)))).collect();
    let evidence = Evidence { timeline, variables, directories, deeds };
    let mut outcome = judge(scenario, evidence, steps, &gaps);
    outcome.watchdog = wishes.watchdog;
    if !outcome.passed {
        outcome.journals = journals(&lab).await;
    }
    Ok(outcome)
}

/// What each watchdog must get before it begins.
fn gets(scenario: &Scenario) -> Gets {
    let tracer = scenario.expect.value.iter().any(|expect| expect.value.counts());
    Gets { tracer, own_clock: scenario.sets_wall_clock() }
}

fn judge(scenario: &Scenario, evidence: Evidence, steps: Result<(), StepFailed>, gaps: &[String]) -> Outcome {
    let mut findings = Vec::new();
    if let Err(failed) = steps {
        findings.push(Finding { expected: failed.step, measured: failed.why, passed: false });
    }
    if !gaps.is_empty() {
        let expected = "every source can be read to the end".to_owned();
        findings.push(Finding { expected, measured: gaps.join("; "), passed: false });
    }
    findings.extend(super::diagnosis::in_time(&evidence.timeline.events));
    findings.extend(scenario.expect.value.iter().map(|expect| evidence.judge(&expect.value)));
    let timeline = evidence.timeline;
    Outcome {
        scenario: scenario.name.value.clone(),
        watchdog: true,
        passed: findings.iter().all(|finding| finding.passed),
        findings,
        longest_outage: timeline.outages(timeline.since(None)).first().copied(),
        variables: evidence.variables,
        timeline,
        deeds: evidence.deeds,
        journals: BTreeMap::new(),
    }
}

async fn journals(lab: &Lab) -> BTreeMap<Node, String> {
    let nodes: Vec<Node> = lab_api::nodes(lab).map(|(node, _)| node).collect();
    let tails = nodes.into_iter().map(async |node| {
        let tail = lab_api::journal_tail(lab, node).await;
        (node, tail.unwrap_or_else(|error| format!("(cannot be read: {error:#})")))
    });
    futures_util::future::join_all(tails).await.into_iter().collect()
}

/// How long the run was watched.
#[must_use]
pub fn length(outcome: &Outcome) -> Duration {
    outcome.timeline.ended.saturating_sub(outcome.timeline.began)
}
