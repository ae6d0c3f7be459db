//! A [`StatusReport`] on one screen. Pure.

use std::fmt::Write as _;
use std::time::Duration;

use serde::Serialize;

use crate::audit::facts::{
    AliasFacts, ApiFacts, EtcdFacts, EtcdRole, HeartbeatFacts, ManifestFacts, ProcessFacts, QuorumFacts, Sense,
};
use crate::audit::text::span;
use crate::audit::word;
use crate::control::report::{StatusReport, WaitReport};
use crate::decision::observation::CyclePhase;
use crate::decision::step::StepKind;
use crate::decision::verdict::Verdict;
use crate::diagnose::Mark;
use crate::policy::Mode;

/// Steps on the screen; `--json` has all that the daemon keeps.
const STEPS_SHOWN: usize = 6;

/// Pauses on the screen.
const PAUSES_SHOWN: usize = 3;

/// A value as one line of JSON, every control character in it escaped: JSON itself allows those beyond ASCII.
#[must_use]
pub fn json(value: &impl Serialize) -> String {
    // Plain values only, so this cannot fail; if it did, an empty object is valid JSON at least.
    let line = serde_json::to_string(value).unwrap_or_else(|_| "{}".to_owned());
    let mut escaped = String::with_capacity(line.len() + 1);
    for character in line.chars() {
        if character.is_control() {
            // Writing to a string cannot fail.
            write!(escaped, "\\u{:04x}", u32::from(character)).ok();
        } else {
            escaped.push(character);
        }
    }
    escaped + "\n"
}

/// The screen for `status`.
#[must_use]
pub fn render(report: &StatusReport, colour: bool) -> String {
    let mut screen = Screen { text: String::new(), colour };
    let mode = match report.policy.mode {
        Mode::Enforce => "enforce",
        Mode::Observe => "observe: nothing is changed",
    };
    screen.line("", &format!("fip-watchdog {} ({mode}), up {}", report.daemon_version, ms(report.uptime_ms)));
    screen.verdict(report);
    screen.facts(report);
    screen.line("cycle", cycle(report.facts.cycle));
    screen.diagnosis(report);
    screen.work(report);
    screen.policy(report);
    for (place, step) in report.recent_steps.iter().take(STEPS_SHOWN).enumerate() {
        let line = format!(
            "{} ago: {} {} in {}: {}",
            ms(step.age_ms),
            step.step.name(),
            step.outcome,
            ms(step.duration_ms),
            step.detail
        );
        screen.line(if place == 0 { "recent" } else { "" }, line.trim_end_matches([':', ' ']));
    }
    for (place, pause) in report.pauses.iter().take(PAUSES_SHOWN).enumerate() {
        let line = format!("{} ago: {} {}, over at {}", ms(pause.age_ms), pause.kind, ms(pause.length_ms), pause.ended_at);
        screen.line(if place == 0 { "pauses" } else { "" }, &line);
    }
    screen.text
}

/// The screen for `explain`: seen, would be done, waited for.
#[must_use]
pub fn explain(report: &StatusReport, colour: bool) -> String {
    let mut screen = Screen { text: String::new(), colour };
    screen.verdict(report);
    screen.text.push_str("\nWhat it sees\n");
    screen.facts(report);
    if let Some(diagnosis) = &report.diagnosis {
        screen.text.push_str("\nWhat is wrong with etcd\n");
        screen.diagnosis(report);
        for check in diagnosis.checks.iter().filter(|check| check.mark != Mark::Good) {
            let mark = match check.mark {
                Mark::Good => "✓",
                Mark::Bad => "✗",
                Mark::Unseen => "?",
                Mark::Warn => "!",
            };
            screen.line("", format!("{mark} {}: {} {}", check.name, check.seen, check.means).trim_end());
        }
    }
    screen.text.push_str("\nWhat it would do\n");
    let steps = report.facts.in_flight.iter().map(|step| (step, "is under way"));
    let starting = report.starting.iter().filter(|step| !report.facts.in_flight.contains(step));
    let steps: Vec<_> = steps.chain(starting.map(|step| (step, "starts now"))).collect();
    for (step, when) in &steps {
        screen.line("", &format!("{} {when}", step.name()));
    }
    let is_new = |step: &StepKind| steps.iter().all(|(known, _)| *known != step);
    for step in report.waiting_on.iter().filter_map(|waiting| waiting.step).filter(is_new) {
        screen.line("", &format!("{}, when what it waits for is over", step.name()));
    }
    if steps.is_empty() && report.waiting_on.iter().all(|waiting| waiting.step.is_none()) {
        screen.line("", nothing(report));
    }
    screen.text.push_str("\nWhat it waits for\n");
    for waiting in &report.waiting_on {
        screen.line("", &wait(waiting));
    }
    if report.waiting_on.is_empty() {
        screen.line("", "nothing but the next look");
    }
    screen.text
}

/// Why there is no step.
fn nothing(report: &StatusReport) -> &'static str {
    match report.verdict {
        // The FIP is out of its place, and the loop has its time to put that right.
        Verdict::Healthy if !report.waiting_on.is_empty() => "nothing yet: that is the loop's to put right",
        Verdict::Healthy => "nothing: all is as it should be",
        Verdict::Paused => "nothing: an operator paused it",
        Verdict::Starting => "nothing yet: no verdict before every sense has answered, or the time for it is over",
        Verdict::Resumed => "nothing yet: it did not run for a while, so no age can be trusted",
        Verdict::Unknown => "nothing: what it cannot see it does not act on",
        Verdict::EtcdUnreachable | Verdict::LeaderUnproven => "nothing: without a proof of who leads no step is safe",
        Verdict::KubeletDown => "nothing: without a kubelet nobody would start the loop again",
        Verdict::ManifestMissing => "nothing: a manifest that somebody removed is not put back",
        Verdict::LeaderFlapping => "nothing yet: what is begun for one leader would be wrong under the next",
        Verdict::ManifestChanged => "nothing until the loop finishes a round under its changed manifest",
        Verdict::ManifestShadowed => {
            "nothing: with two files for one pod no cycle does what it should; remove the one that the reason names"
        }
        Verdict::LoopBlind => "nothing: a new loop would ask the same etcd in the same way; mend what the reason names",
        Verdict::HostStarved => "nothing: the node is so hard-pressed that a silence of its loop means nothing",
        Verdict::NoQuorum
        | Verdict::LoopStalledFipMissing
        | Verdict::LoopStalledFipHeld
        | Verdict::LoopStalledFollower
        | Verdict::FipOrphaned
        | Verdict::FipMissing
        | Verdict::FipDuplicated
        | Verdict::LoopMistaken
        | Verdict::LoopAbsent
        | Verdict::PodStuck
        | Verdict::LogStalled => "nothing more: the policy names no further step for this verdict, or its goal is reached",
    }
}

struct Screen {
    text: String,
    colour: bool,
}

impl Screen {
    /// A label, and what it labels in a column of its own.
    fn line(&mut self, label: &str, what: &str) {
        let start = self.text.len();
        // Writing to a string cannot fail.
        write!(self.text, "{label:<10}{what}").ok();
        self.text.truncate(start + self.text.get(start..).map_or(0, |line| line.trim_end().len()));
        self.text.push('\n');
    }

    fn painted(&self, code: &str, what: &str) -> String {
        if self.colour { format!("\x1b[{code}m{what}\x1b[0m") } else { what.to_owned() }
    }

    fn verdict(&mut self, report: &StatusReport) {
        let name = self.painted(if report.alarmed { "1;31" } else { "1;32" }, report.verdict.name());
        self.line("verdict", &format!("{name} for {}", ms(report.verdict_for_ms)));
        for reason in &report.reasons {
            self.line("", reason);
        }
        if let Some(pause) = &report.facts.paused {
            self.line("paused", &format!("for another {}: {}", ms(pause.remaining_ms), pause.reason));
        }
    }

    fn facts(&mut self, report: &StatusReport) {
        let facts = &report.facts;
        self.line("FIP", &format!("{} on {}: {}", report.policy.fip, report.policy.interface, sense(&facts.alias, alias)));
        self.line("etcd", &sense(&facts.etcd, etcd));
        self.line("loop", &sense(&facts.heartbeat, heartbeat));
        self.line("", &format!("process {}", sense(&facts.process, process)));
        self.line("manifest", &sense(&facts.manifest, manifest));
        self.line("kubelet", &sense(&facts.kubelet, |kubelet| if kubelet.running { "running" } else { "down" }.to_owned()));
        if let Some(facts) = &facts.api {
            self.line("API", &api(facts));
        }
    }

    /// The last diagnosis of etcd, with its age.
    fn diagnosis(&mut self, report: &StatusReport) {
        let Some(diagnosis) = &report.diagnosis else { return };
        let over = diagnosis.recovered_age_ms.map(|age| format!(", over {} ago", ms(age))).unwrap_or_default();
        let cause = word(&diagnosis.cause);
        self.line("diagnosis", &format!("{} ago{over}: {cause}: {}", ms(diagnosis.age_ms), diagnosis.sentence));
        if let Some(next) = diagnosis.next.first().filter(|_| diagnosis.recovered_age_ms.is_none()) {
            self.line("", &format!("next: {next}"));
        }
    }

    fn work(&mut self, report: &StatusReport) {
        let mut steps: Vec<&str> = report.facts.in_flight.iter().map(|step| step.name()).collect();
        steps.extend(report.starting.iter().filter(|step| !report.facts.in_flight.contains(step)).map(|step| step.name()));
        if !steps.is_empty() {
            self.line("doing", &steps.join(", "));
        }
        for (place, waiting) in report.waiting_on.iter().enumerate() {
            self.line(if place == 0 { "waiting" } else { "" }, &wait(waiting));
        }
    }

    fn policy(&mut self, report: &StatusReport) {
        let policy = &report.policy;
        self.line("policy", &format!("{}, in force for {}", policy.path, ms(policy.in_force_ms)));
        if let Some(rejection) = &policy.rejection {
            let line = format!("an edit {} ago was refused, the policy before it stays in force:", ms(rejection.age_ms));
            let line = self.painted("1;31", &line);
            self.line("", &line);
            for fault in &rejection.faults {
                self.line("", &format!("  {fault}"));
            }
        }
    }
}

fn ms(milliseconds: u64) -> String {
    span(Duration::from_millis(milliseconds))
}

fn ago(milliseconds: Option<u64>) -> String {
    milliseconds.map_or_else(|| "never".to_owned(), |milliseconds| format!("{} ago", ms(milliseconds)))
}

fn sense<T>(sense: &Sense<T>, say: impl Fn(&T) -> String) -> String {
    match sense {
        Sense::Fresh { value, .. } => say(value),
        Sense::Stale { age_ms } => format!("stale, last read {} ago", ms(*age_ms)),
        Sense::Unknown { reason } => format!("cannot tell: {reason}"),
    }
}

fn alias(facts: &AliasFacts) -> String {
    let lease = facts.entries.iter().filter_map(|entry| entry.valid_for_ms).min();
    let held = match (facts.held, lease) {
        (false, _) => "not here".to_owned(),
        (true, None) => "held here".to_owned(),
        (true, Some(left)) => format!("held here by us, lease has {} left", ms(left)),
    };
    match (facts.up, facts.carrier) {
        (true, true) => held,
        (false, _) => held + "; the interface is down",
        (true, false) => held + "; the interface has no carrier",
    }
}

fn etcd(facts: &EtcdFacts) -> String {
    match facts {
        EtcdFacts::None { fault, detail } => {
            let fault = match fault.as_str() {
                "refused" => "nothing listens",
                "timed_out" => "no answer in time",
                "tls" => "TLS is rejected",
                other => other,
            };
            format!("{fault}: {detail}").trim_end_matches([':', ' ']).to_owned()
        }
        EtcdFacts::Status { role, raft_term, quorum, errors, version, .. } => {
            let role = match role {
                EtcdRole::Leader => "leader",
                EtcdRole::Follower => "follower",
                EtcdRole::Learner => "learner",
                EtcdRole::NoLeader => "knows of no leader",
            };
            let quorum = match quorum {
                QuorumFacts::NotAsked => "quorum not asked".to_owned(),
                QuorumFacts::Confirmed { age_ms } => format!("confirmed by a quorum {} ago", ms(*age_ms)),
                QuorumFacts::Denied { reason } => format!("not confirmed: {reason}"),
            };
            let errors = if errors.is_empty() { String::new() } else { format!("; {}", errors.join("; ")) };
            format!("{role}, term {raft_term}, {quorum}, etcd {version}{errors}")
        }
    }
}

fn heartbeat(facts: &HeartbeatFacts) -> String {
    let Some(verdict) = &facts.verdict else {
        let growth = ago(facts.last_growth_age_ms);
        return format!("no finished round in {} of following; log grew {growth}", ms(facts.following_ms));
    };
    let fip = facts.fip.as_deref().unwrap_or("untouched");
    format!("last beat {}: {verdict}, FIP {fip}; log grew {}", ago(facts.last_beat_age_ms), ago(facts.last_growth_age_ms))
}

fn process(facts: &ProcessFacts) -> String {
    match facts {
        ProcessFacts::Absent { for_ms } => format!("absent for {}", ms(*for_ms)),
        ProcessFacts::Present { pid, process_state, progress_age_ms, wchan, copies, .. } => {
            let mut line = format!("{pid} in state {process_state}, progress {} ago", ms(*progress_age_ms));
            if let Some(wchan) = wchan.as_deref().filter(|wchan| !wchan.is_empty() && *wchan != "0") {
                line.push_str(", in ");
                line.push_str(wchan);
            }
            if *copies > 1 {
                write!(line, "; {copies} copies run").ok();
            }
            line
        }
    }
}

fn manifest(facts: &ManifestFacts) -> String {
    let mut line = facts
        .sha256
        .as_deref()
        .map_or_else(|| "missing".to_owned(), |hash| format!("present, sha256 {}", hash.get(..12).unwrap_or(hash)));
    if let Some(reason) = &facts.immovable {
        write!(line, "; cannot be moved: {reason}").ok();
    }
    if !facts.shadows.is_empty() {
        write!(line, "; shadowed by {}", facts.shadows.join(", ")).ok();
    }
    line
}

fn api(facts: &ApiFacts) -> String {
    let port = facts.port;
    match (facts.silent_ms, facts.answered_age_ms) {
        (None, None) => format!("port {port} is being asked"),
        (None, Some(age)) => format!("port {port} answers, asked {} ago", ms(age)),
        (Some(silent), answered) => {
            let how = facts.how.as_deref().unwrap_or_default();
            format!("port {port} has not answered for {}, last answer {}: {how}", ms(silent), ago(answered))
        }
    }
}

const fn cycle(phase: Option<CyclePhase>) -> &'static str {
    match phase {
        None => "none open",
        Some(CyclePhase::Intended) => "intended, the manifest is still in place",
        Some(CyclePhase::Out) => "out, waiting for the old pod to die",
        Some(CyclePhase::Back) => "back, waiting for the new pod to beat",
    }
}

fn wait(waiting: &WaitReport) -> String {
    let step = waiting.step.map(|step| format!("{}: ", step.name())).unwrap_or_default();
    let left = waiting.remaining_ms.map(|left| format!(", {} left", ms(left))).unwrap_or_default();
    format!("{step}{}{left}", waiting.reason)
}

#[cfg(test)]
pub(crate) mod tests;
