//! How steps go: how long they take, what shows meanwhile, and how they end, unless the case says otherwise.
//!
//! The times are those of the lab: an alias step asks etcd twice and the neighbours once; a cycle is out until the old
//! pod's end and the kubelet's next tick, and ends with the new pod's first round.

use std::time::Duration;

use fip_watchdog::decision::observation::CyclePhase;
use fip_watchdog::decision::step::{Lane, StepKind, StepOutcome};

use crate::state::{Log, Patch, Process, Says};
use crate::timeline::{Course, End};

/// A change while a step runs.
#[derive(Debug, Clone)]
pub struct Phase {
    /// After the step's start.
    pub after: Duration,
    /// The open cycle from then on.
    pub cycle: Option<CyclePhase>,
    /// What changes on the node.
    pub set: Patch,
}

/// The whole course of a step.
#[derive(Debug, Clone)]
pub struct Script {
    /// From start to end.
    pub takes: Duration,
    /// What shows meanwhile.
    pub phases: Vec<Phase>,
    /// When a step on the alias acts, if it does: it verifies what it did before it ends.
    pub acts_after: Option<Duration>,
    /// How it ends.
    pub outcome: StepOutcome,
}

const ALIAS_STEP: Duration = Duration::from_millis(50);
const VERIFIES: Duration = Duration::from_millis(30);
const REFUSAL: Duration = Duration::from_millis(20);
const CYCLE: Duration = Duration::from_secs(9);
const FAILED_CYCLE: Duration = Duration::from_secs(45);

/// When the loop is killed by the watchdog, by default.
const KILLED: Duration = Duration::from_millis(2_500);

/// How long before its end a cycle puts the manifest back: the new pod starts and finishes a round.
const BACK: Duration = Duration::from_secs(3);

/// The course of a step that goes as the case says.
pub fn script(step: StepKind, course: Option<&Course>) -> Script {
    let ends = course.map(|course| course.ends.clone()).unwrap_or_default();
    let usual = match (&ends, step.lane()) {
        (End::Refused(_), _) => REFUSAL,
        (End::Succeeded | End::Failed(_) | End::PodStuck(_), Lane::Alias) => ALIAS_STEP,
        (End::Succeeded, Lane::Loop) => CYCLE,
        (End::Failed(_) | End::PodStuck(_), Lane::Loop) => FAILED_CYCLE,
    };
    let takes = course.and_then(|course| course.takes).map_or(usual, |takes| takes.0);
    let phases = if step == StepKind::CycleManifest { cycle(&ends, takes) } else { Vec::new() };
    let acts = matches!(ends, End::Succeeded) && step.lane() == Lane::Alias;
    let acts_after = acts.then(|| takes.saturating_sub(VERIFIES));
    let outcome = match ends {
        End::Succeeded => StepOutcome::Succeeded("done".to_owned()),
        End::Refused(why) => StepOutcome::Refused(why),
        End::Failed(why) => StepOutcome::Failed(why),
        End::PodStuck(why) => StepOutcome::PodStuck(why),
    };
    Script { takes, phases, acts_after, outcome }
}

fn cycle(ends: &End, takes: Duration) -> Vec<Phase> {
    let phase = |after: Duration, cycle, set| Phase { after, cycle, set };
    let process = |process| Patch { process: Some(process), ..Patch::default() };
    let out = [
        phase(Duration::ZERO, Some(CyclePhase::Intended), Patch::default()),
        phase(Duration::from_millis(30), Some(CyclePhase::Out), Patch::default()),
    ];
    let rest = match ends {
        End::Refused(_) => return Vec::new(),
        End::Failed(_) | End::PodStuck(_) => {
            vec![
                phase(takes.saturating_sub(BACK), Some(CyclePhase::Back), Patch::default()),
                phase(takes, None, Patch::default()),
            ]
        }
        End::Succeeded => vec![
            phase(KILLED, Some(CyclePhase::Out), process(Process::Absent)),
            phase(takes.saturating_sub(BACK), Some(CyclePhase::Back), Patch::default()),
            phase(takes.saturating_sub(BACK) + Duration::from_millis(700), Some(CyclePhase::Back), a_sound_loop()),
            phase(takes, None, Patch::default()),
        ],
    };
    out.into_iter().chain(rest).collect()
}

/// What a new pod brings; a case in which it is no better than the old one says so in `then`.
fn a_sound_loop() -> Patch {
    Patch {
        process: Some(Process::New),
        process_state: Some('S'),
        wchan: Some(String::new()),
        log: Some(Log::Beats),
        loop_says: Some(Says::WhatEtcdTellsIt),
        loop_acts: Some(true),
        ..Patch::default()
    }
}
