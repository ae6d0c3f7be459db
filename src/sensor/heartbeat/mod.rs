//! The heartbeat: the loop's own log, followed, and its finished rounds.
//!
//! `candidates` finds the log, `follow` reads what is appended, `cri` takes the framing off, `trace` knows the loop's
//! grammar, `parser` joins the two. Invariant: a beat is the end of a round that the loop wrote since following began;
//! history, a touched file and growth without end of a round are no beats.
//!
//! What makes a round new? Not the file's mtime (a copy or `touch` sets it), and not its numbers: an idle cluster
//! answers many rounds with one revision and raft index. It is its place: bytes beyond those that were read, in a file
//! that is held open, were written since. Where place proves nothing, because the bytes stood there when the file was
//! first seen or was seen truncated (a new container, or an old copy put back), the runtime's stamp on the line
//! decides: later than every round before it. Stamps are wall-clock time, so they order rounds there and nowhere else,
//! and no age is made from them: after a clock was set back, what is written under our eyes still counts.
//!
//! Reading blocks on the file system, so the runtime calls it where blocking is allowed; abandoning a call is safe,
//! since each one leaves the sensor's state whole.

mod candidates;
pub(crate) mod cri;
mod follow;
mod parser;
mod trace;

use std::error::Error;

use candidates::Target;
use follow::{Follower, Sink};
use jiff::Timestamp;
pub use parser::{BeatParser, FinishedRound};

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
    parser: BeatParser,
    /// The latest stamp of any round, in whichever file.
    newest: Option<Timestamp>,
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

    /// Runs bytes through framing and grammar. A round that ends in them is a beat if it is new.
    fn take(&mut self, bytes: &[u8], origin: Origin) {
        let Self { parser, newest, last_beat, now, .. } = self;
        parser.feed(bytes, |FinishedRound { beat, stamp }| {
            let is_new = match origin {
                Origin::History => false,
                Origin::Found => newest.is_none() || stamp > *newest,
                Origin::Written => true,
            };
            *newest = stamp.max(*newest);
            if is_new {
                *last_beat = Some((beat, *now));
            }
        });
    }
}

/// How bytes came to us.
#[derive(Debug, Clone, Copy)]
enum Origin {
    /// They were there before following began.
    History,
    /// They stood in the file when it was first seen, or was seen truncated.
    Found,
    /// They were written while the file was followed.
    Written,
}

impl Sink for Pulse {
    fn began(&mut self) {
        *self = Self { now: self.now, following_since: self.now, newest: self.newest, ..Self::default() };
    }

    fn history(&mut self, bytes: &[u8], inside_line: bool) {
        if inside_line {
            self.parser.cut(true);
        }
        self.take(bytes, Origin::History);
    }

    fn found(&mut self, bytes: &[u8]) {
        self.last_growth_at = Some(self.now);
        self.take(bytes, Origin::Found);
    }

    fn appended(&mut self, bytes: &[u8]) {
        self.last_growth_at = Some(self.now);
        self.take(bytes, Origin::Written);
    }

    fn cut(&mut self, inside_line: bool) {
        self.parser.cut(inside_line);
    }
}

#[cfg(test)]
mod news_tests;
#[cfg(test)]
mod properties;
#[cfg(test)]
mod tests;
