//! The heartbeat: the loop's own log, followed, and its finished rounds.
//!
//! `candidates` finds the log, `follow` reads what is appended, `cri` takes the framing off, `trace` knows the loop's
//! grammar. Invariant: a beat was appended after following began and ends a round; history, a touched file and growth
//! without end of a round are no beats. Reading blocks on the file system, so the runtime calls it where blocking is
//! allowed; abandoning a call is safe, since each one leaves the sensor's state whole.

mod candidates;
mod cri;
mod follow;
mod trace;

use std::error::Error;

use candidates::Target;
use cri::Lines;
use follow::{Follower, Sink};
use trace::Trace;

use crate::decision::observation::{Beat, HeartbeatView, Reading};
use crate::decision::time::Moment;
use crate::policy::LoopPolicy;

/// The sense that reads the loop's log.
#[derive(Debug)]
pub struct HeartbeatSensor {
    follower: Follower,
    pulse: Pulse,
    pod_uid: Option<String>,
}

/// What the bytes amount to so far.
#[derive(Debug, Default)]
struct Pulse {
    lines: Lines,
    trace: Trace,
    /// Time of the call that is under way.
    now: Moment,
    following_since: Moment,
    last_beat: Option<(Beat, Moment)>,
    last_growth_at: Option<Moment>,
}

impl HeartbeatSensor {
    /// A sensor that has not looked yet.
    #[must_use]
    pub fn new(policy: &LoopPolicy) -> Self {
        Self { follower: Follower::new(Target::new(policy)), pulse: Pulse::default(), pod_uid: None }
    }

    /// Takes over another policy. If it names another log, following starts anew.
    pub fn set_policy(&mut self, policy: &LoopPolicy) {
        if *self.follower.target() != Target::new(policy) {
            *self = Self::new(policy);
        }
    }

    /// Reads what the loop wrote since the last call, at most 1 MiB of it. Blocking.
    ///
    /// When another container's log takes over (restart, new pod, cycle), `following_since` starts anew and the beats
    /// of the old one are forgotten; a rotation changes neither.
    pub fn read(&mut self, now: Moment) -> Reading<HeartbeatView> {
        self.pulse.now = now;
        match self.follower.poll(now, &mut self.pulse) {
            Ok((log, uid)) => {
                if self.pod_uid.as_deref() != Some(uid) {
                    self.pod_uid = Some(uid.to_owned());
                }
                Reading::Fresh { value: self.pulse.view(log), at: now }
            }
            Err(error) => Reading::Unknown(match error.source() {
                Some(cause) => format!("{error}: {cause}"),
                None => error.to_string(),
            }),
        }
    }

    /// The uid of the loop's pod, from the name of the log directory that is or was last followed. A static pod keeps
    /// its uid as long as its manifest, so it outlives the directory.
    #[must_use]
    pub fn pod_uid(&self) -> Option<String> {
        self.pod_uid.clone()
    }
}

impl Pulse {
    fn view(&self, log: &std::path::Path) -> HeartbeatView {
        HeartbeatView {
            last_beat: self.last_beat.as_ref().map(|(beat, _)| beat.clone()),
            last_beat_at: self.last_beat.as_ref().map(|(_, at)| *at),
            following_since: self.following_since,
            last_growth_at: self.last_growth_at,
            log: log.to_owned(),
        }
    }

    /// Runs bytes through framing and grammar; the last round that ended in them.
    fn take(&mut self, bytes: &[u8]) -> Option<Beat> {
        let mut last = None;
        let trace = &mut self.trace;
        self.lines.feed(bytes, |line| last = trace.line(line).or(last.take()));
        last
    }
}

impl Sink for Pulse {
    fn began(&mut self) {
        *self = Self { now: self.now, following_since: self.now, ..Self::default() };
    }

    fn history(&mut self, bytes: &[u8], inside_line: bool) {
        if inside_line {
            self.lines.reset_inside_line();
        }
        // Rounds that ended before following began are no beats.
        drop(self.take(bytes));
    }

    fn appended(&mut self, bytes: &[u8]) {
        self.last_growth_at = Some(self.now);
        if let Some(beat) = self.take(bytes) {
            self.last_beat = Some((beat, self.now));
        }
    }

    fn cut(&mut self, inside_line: bool) {
        self.trace.reset();
        if inside_line {
            self.lines.reset_inside_line();
        } else {
            self.lines.reset();
        }
    }
}

#[cfg(test)]
mod tests;
