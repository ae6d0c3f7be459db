//! A case is played: the machine is asked when its own deadlines, its wakes and the ends of its steps say so, as the
//! supervisor does it, and what it says is kept.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use fip_watchdog::actuator::alias::AnnounceSchedule;
use fip_watchdog::decision::machine::Machine;
use fip_watchdog::decision::plan::{Decision, EtcdDepth};
use fip_watchdog::decision::step::{Lane, StepKind, StepOutcome};
use fip_watchdog::decision::time::Moment;
use fip_watchdog::decision::verdict::Verdict;
use fip_watchdog::policy::{Mode, Policy};
use fip_watchdog::runtime::gap::GapWatch;

use crate::node::Node;
use crate::state::Patch;
use crate::steps::{Phase, Script, script};
use crate::timeline::{PauseClock, PauseOf, Timeline, WallClock};
use crate::words::{Entry, waiting};

/// Least time between two rounds, as in the supervisor.
const ROUND_MIN: Duration = Duration::from_millis(20);

/// What was seen of a case.
#[derive(Debug, Default)]
pub struct Seen {
    /// Each new verdict, and when it was given.
    pub verdicts: Vec<(Duration, Verdict)>,
    /// Each step, and when it was started. Renewals of a lease that follow one another are one.
    pub steps: Vec<(Duration, StepKind)>,
    /// Reasons as they were given.
    pub reasons: Vec<(Duration, Verdict, String)>,
    /// What was waited for.
    pub waits: Vec<(Duration, Verdict, String)>,
    /// The pause ledger.
    pub ledger: Vec<(Duration, Entry)>,
    /// The longest time between two rounds.
    pub longest_silence: Duration,
    /// The FIP at the end.
    pub held_at_end: bool,
}

/// A change that is due.
enum Due {
    Change { set: Patch, lasts: Option<Duration>, pause: Option<(PauseOf, PauseClock)> },
    SetWallClock(WallClock),
    Restart,
    Phase(Phase),
    Act(StepKind),
    End { step: StepKind, script: Script },
}

struct Player<'a> {
    policy: &'a Policy,
    timeline: &'a Timeline,
    node: Node,
    machine: Machine,
    gap: GapWatch,
    agenda: BTreeMap<(Duration, usize), Due>,
    queued: usize,
    in_flight: BTreeSet<StepKind>,
    unproven: BTreeSet<StepKind>,
    /// The starts of cycles that the journal knows of.
    cycles: Vec<Moment>,
    repeats: AnnounceSchedule,
    round_at: Duration,
    last_round: Duration,
    /// Nothing wakes a watchdog that stands still.
    asleep_until: Duration,
    depth: EtcdDepth,
    seen: Seen,
}

/// Plays a timeline under a policy.
pub fn run(policy: &Policy, timeline: &Timeline) -> Seen {
    run_from(policy, timeline, &timeline.node)
}

/// Plays a timeline from another begin.
pub fn run_from(policy: &Policy, timeline: &Timeline, begin: &Patch) -> Seen {
    let node = Node::new(policy, begin);
    let now = node.now();
    let past: Vec<Moment> =
        timeline.past_cycles.iter().map(|ago| Moment::from_origin(now.since_origin().saturating_sub(ago.0))).collect();
    let mut player = Player {
        policy,
        timeline,
        machine: Machine::new(now, &past),
        gap: GapWatch::new(node.clocks()),
        node,
        agenda: BTreeMap::new(),
        queued: 0,
        in_flight: BTreeSet::new(),
        unproven: BTreeSet::new(),
        cycles: past.clone(),
        repeats: AnnounceSchedule::default(),
        round_at: Duration::ZERO,
        last_round: Duration::ZERO,
        asleep_until: Duration::ZERO,
        depth: EtcdDepth::Status,
        seen: Seen::default(),
    };
    if !timeline.watchdog_starts {
        let first = player.node.observe(EtcdDepth::Status, BTreeSet::new(), None);
        player.machine.step(&first, policy, now);
        player.machine.on_step_finished(StepKind::AnnounceAlias, &StepOutcome::Succeeded("before the case".to_owned()), now);
    }
    player.queue_events();
    player.play();
    player.seen
}

impl Player<'_> {
    fn queue(&mut self, at: Duration, due: Due) {
        self.agenda.insert((at, self.queued), due);
        self.queued += 1;
    }

    fn queue_events(&mut self) {
        for event in &self.timeline.events {
            for time in 0..event.times {
                let at = event.at.0 + event.every.map_or(Duration::ZERO, |every| every.0) * time;
                let pause = event.pause.map(|pause| (pause.of, pause.clock));
                self.queue(at, Due::Change { set: event.set.clone(), lasts: event.lasts.map(|lasts| lasts.0), pause });
                if event.watchdog_restarts {
                    self.queue(at, Due::Restart);
                }
                if let Some(by) = event.wall_clock {
                    let after_a_pause = event.pause.and(event.lasts).map_or(Duration::ZERO, |lasts| lasts.0);
                    self.queue(at + after_a_pause, Due::SetWallClock(by));
                }
            }
        }
    }

    fn play(&mut self) {
        loop {
            let next_due = self.agenda.first_key_value().map_or(Duration::MAX, |((at, _), _)| *at);
            let next = self.round_at.min(next_due).min(self.node.next_own());
            if next > self.timeline.until.0 {
                self.seen.held_at_end = !self.node.is_absent();
                return;
            }
            let mut woken = self.node.pass_to(next);
            while let Some(entry) = self.agenda.first_entry().filter(|entry| entry.key().0 <= next) {
                let due = entry.remove();
                woken |= self.handle(due);
            }
            if woken {
                self.round_at = self.round_at.min(next.max(self.last_round + ROUND_MIN).max(self.asleep_until));
            }
            if next >= self.round_at {
                self.round();
            }
        }
    }

    /// One thing happens; whether it wakes the watchdog.
    fn handle(&mut self, due: Due) -> bool {
        let now = self.node.time;
        match due {
            Due::Change { set, lasts, pause } => {
                let (back, wakes) = self.node.change(&set);
                if let (Some(lasts), None) = (lasts, pause) {
                    self.queue(now + lasts, Due::Change { set: back, lasts: None, pause: None });
                }
                if let (Some((of, clock)), Some(lasts)) = (pause, lasts) {
                    self.stand_still(of, clock, lasts);
                    return false;
                }
                wakes
            }
            Due::SetWallClock(by) => {
                self.node.set_wall_clock(by);
                false
            }
            Due::Restart => {
                self.restart();
                true
            }
            Due::Phase(phase) => {
                self.node.cycle = phase.cycle;
                self.node.change(&phase.set);
                true
            }
            // One that needs a proof asks for it right before it acts, and is refused where none can be had.
            Due::Act(step) => {
                let proven = step == StepKind::ReleaseAlias || self.node.is_proven_leader();
                if proven {
                    self.node.alias_step(step);
                } else {
                    self.unproven.insert(step);
                }
                proven
            }
            Due::End { step, script } => {
                self.end(step, script);
                true
            }
        }
    }

    /// A new process: steps that were under way end where they are, and an open cycle has been brought home before the first verdict.
    fn restart(&mut self) {
        let (now, known_good) = (self.node.now(), self.machine.known_good().map(str::to_owned));
        self.agenda.retain(|_, due| !matches!(due, Due::Phase(_) | Due::Act(_) | Due::End { .. }));
        self.node.cycle = None;
        self.node.seen_for_the_first_time();
        self.machine = Machine::new(now, &self.cycles).knowing(known_good);
        self.gap = GapWatch::new(self.node.clocks());
        self.in_flight.clear();
        self.unproven.clear();
        self.asleep_until = self.node.time;
        (self.repeats, self.depth) = (AnnounceSchedule::default(), EtcdDepth::Status);
    }

    /// Rounds and steps of a watchdog that stands still wait.
    fn stand_still(&mut self, of: PauseOf, clock: PauseClock, lasts: Duration) {
        if of != PauseOf::Watchdog {
            self.node.stand_still(lasts, clock == PauseClock::StandsStill);
        }
        if of != PauseOf::Loop {
            self.round_at = self.round_at.max(self.node.time) + lasts;
            self.asleep_until = self.node.time + lasts;
            for (at, due) in std::mem::take(&mut self.agenda) {
                let waits = matches!(due, Due::End { .. } | Due::Act(_) | Due::Phase(_));
                self.agenda.insert((at.0 + if waits { lasts } else { Duration::ZERO }, at.1), due);
            }
        }
    }

    /// One round of the supervisor.
    fn round(&mut self) {
        let time = self.node.time;
        self.seen.longest_silence = self.seen.longest_silence.max(time - self.last_round);
        self.last_round = time;
        let now = self.node.now();
        let pauses = self.gap.back(self.node.clocks()).map(|record| (time, Entry::of(record.kind)));
        self.seen.ledger.extend(pauses);
        let observation = self.node.observe(self.depth, self.in_flight.clone(), self.gap.resumed_at());
        let decision = self.machine.step(&observation, self.policy, now);
        self.note(&decision);
        for step in &decision.start {
            self.start(*step);
        }
        let alias_is_busy = self.in_flight.iter().any(|step| step.lane() == Lane::Alias);
        if self.repeats.take_due(now) && self.policy.mode == Mode::Enforce && !alias_is_busy {
            self.start(StepKind::AnnounceAlias);
        }
        self.depth = decision.etcd_depth;
        let repeat = self.repeats.next_due().unwrap_or(decision.next_deadline);
        let deadline = decision.next_deadline.min(repeat).max(now + ROUND_MIN);
        self.gap.expect_back_by(deadline);
        self.round_at = time + deadline.since(now);
    }

    fn note(&mut self, decision: &Decision) {
        let (time, verdict) = (self.node.time, decision.verdict);
        if self.seen.verdicts.last().is_none_or(|(_, last)| *last != verdict) {
            self.seen.verdicts.push((time, verdict));
        }
        self.seen.reasons.extend(decision.reasons.iter().map(|reason| (time, verdict, reason.clone())));
        self.seen.waits.extend(decision.waiting_on.iter().map(|on| (time, verdict, waiting(on))));
    }

    fn start(&mut self, step: StepKind) {
        let goes_on = step == StepKind::RenewAlias && self.seen.steps.last().is_some_and(|(_, last)| *last == step);
        if !goes_on {
            self.seen.steps.push((self.node.time, step));
        }
        self.machine.on_step_started(step, self.node.now());
        self.cycles.extend((step == StepKind::CycleManifest).then(|| self.node.now()));
        self.in_flight.insert(step);
        let script = script(step, self.timeline.steps.get(&step));
        for phase in script.phases.clone() {
            self.queue(self.node.time + phase.after, Due::Phase(phase));
        }
        if let Some(after) = script.acts_after {
            self.queue(self.node.time + after, Due::Act(step));
        }
        self.queue(self.node.time + script.takes, Due::End { step, script });
    }

    fn end(&mut self, step: StepKind, script: Script) {
        self.in_flight.remove(&step);
        let refused = self.unproven.remove(&step);
        let outcome = if refused { StepOutcome::Refused("the leadership was lost meanwhile".to_owned()) } else { script.outcome };
        let succeeded = matches!(outcome, StepOutcome::Succeeded(_));
        let arrival = step == StepKind::ApplyAlias || (step == StepKind::AnnounceAlias && self.machine.announces_arrival());
        self.machine.on_step_finished(step, &outcome, self.node.now());
        match step {
            StepKind::ReleaseAlias if succeeded => self.repeats.stop(),
            StepKind::AnnounceAlias if !succeeded => self.repeats.stop(),
            StepKind::ApplyAlias | StepKind::AnnounceAlias if succeeded && arrival => {
                self.repeats = AnnounceSchedule::starting(self.node.now());
            }
            StepKind::ApplyAlias
            | StepKind::AnnounceAlias
            | StepKind::ReleaseAlias
            | StepKind::RenewAlias
            | StepKind::HandOverAlias
            | StepKind::LeaseAlias
            | StepKind::CycleManifest => {}
        }
        for then in self.timeline.steps.get(&step).map(|course| course.then.clone()).unwrap_or_default() {
            let due = Due::Change { set: then.set, lasts: None, pause: None };
            self.queue(self.node.time + then.after.0, due);
        }
    }
}
