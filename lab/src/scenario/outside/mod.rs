//! What a watchdog does to the world, counted from outside of it: its system calls, and its frames on the wire.
//!
//! For `wrote_nothing`. Nothing that the watchdog says about itself is asked. A tracer that went blind, or saw nothing at
//! all, fails the expectation: a run is never judged on silence. Each daemon is traced from its first instruction on, also
//! one that systemd starts after a kill (`starts`).

pub mod calls;
pub mod frames;
pub mod starts;

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::Context as _;
use serde::Serialize;
use tokio::task::JoinSet;

use super::lab_api::{self, Lab};
use super::node::Node;
use calls::Calls;
use frames::{Frame, Frames};
use starts::Place;

/// What one node's watchdog did.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Deeds {
    /// Daemons that were traced, one after the other.
    pub daemons: usize,
    /// System calls that were looked at.
    pub looked_at: usize,
    /// Those that change something that is not the watchdog's own, with their times.
    pub changes: Vec<(Duration, String)>,
    /// Frames that tell the segment where the FIP is.
    pub announcements: Vec<Duration>,
    /// Frames that only ask.
    pub questions: usize,
    /// Why not everything was seen.
    pub blind: Option<String>,
}

/// Watches every node's watchdog until it is asked for what it saw.
pub struct Outside {
    tracers: JoinSet<(Node, Calls)>,
    stop: tokio::sync::watch::Sender<bool>,
    wire: Frames,
}

impl Outside {
    /// Begins, and starts the watchdogs anew, so that they are watched from their first instruction on.
    ///
    /// # Errors
    /// A watchdog does not start, or the tracer or the packet socket cannot be had.
    pub async fn start(lab: &Lab) -> anyhow::Result<Self> {
        let wire = Frames::start(lab.name()).context("cannot listen on the bridge")?;
        let stop = tokio::sync::watch::Sender::new(false);
        let mut tracers = JoinSet::new();
        for (node, id) in lab_api::nodes(lab) {
            let (place, stopped) = (Place::of(lab, id), stop.subscribe());
            tracers.spawn(async move { (node, starts::follow(place, stopped).await) });
        }
        let restarts = lab_api::nodes(lab).map(async |(node, id)| {
            starts::restart_held(lab, id).await.with_context(|| format!("cannot trace the watchdog of {node}"))
        });
        futures_util::future::try_join_all(restarts).await?;
        Ok(Self { tracers, stop, wire })
    }

    /// What was seen.
    pub async fn finish(mut self) -> BTreeMap<Node, Deeds> {
        self.stop.send_replace(true);
        let mut deeds: BTreeMap<Node, Deeds> = BTreeMap::new();
        while let Some(traced) = self.tracers.join_next().await {
            // A tracer that panicked leaves its node out, and the expectation says so.
            let Ok((node, calls)) = traced else { continue };
            let Calls { daemons, looked_at, changes, blind } = calls;
            deeds.insert(node, Deeds { daemons, looked_at, changes, blind, ..Deeds::default() });
        }
        let seen = self.wire.finish();
        for (at, node, frame) in seen.frames {
            let Some(deeds) = deeds.get_mut(&node) else { continue };
            match frame {
                Frame::Announces => deeds.announcements.push(at),
                Frame::Asks => deeds.questions += 1,
            }
        }
        if let Some(why) = seen.blind {
            deeds.values_mut().for_each(|deeds| deeds.blind = Some(why.clone()));
        }
        deeds
    }
}

impl Deeds {
    /// Whether nothing was changed since `since`, and what was counted.
    #[must_use]
    pub fn judge_nothing(&self, since: Duration) -> (bool, String) {
        let (changes, announcements) = self.since(since);
        let (seen, counted) = self.counted(since);
        (seen && changes == 0 && announcements == 0, counted)
    }

    /// Whether something was changed since `since`: the counting itself can fail.
    #[must_use]
    pub fn judge_something(&self, since: Duration) -> (bool, String) {
        let (changes, announcements) = self.since(since);
        let (seen, counted) = self.counted(since);
        (seen && changes + announcements > 0, counted)
    }

    /// Changes and announcements from `since` on.
    #[must_use]
    pub fn since(&self, since: Duration) -> (usize, usize) {
        let announcements = self.announcements.iter().filter(|at| **at >= since).count();
        (self.changes.iter().filter(|(at, _)| *at >= since).count(), announcements)
    }

    fn counted(&self, since: Duration) -> (bool, String) {
        if let Some(why) = &self.blind {
            return (false, format!("not everything was seen: {why}"));
        }
        if self.looked_at == 0 {
            return (false, "the tracer saw no call at all".to_owned());
        }
        let (changes, announcements) = self.since(since);
        let first = self.changes.iter().find(|(at, _)| *at >= since).map(|(_, call)| format!(": {call}")).unwrap_or_default();
        let (looked_at, questions) = (self.looked_at, self.questions);
        let counted = format!(
            "{looked_at} calls looked at, {changes} changes, {announcements} announcements, {questions} questions{first}"
        );
        (true, counted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_an_announcement_a_blind_tracer_and_an_idle_one_each_fail_it() {
        let quiet = Deeds { looked_at: 10, questions: 3, ..Deeds::default() };
        assert!(quiet.judge_nothing(Duration::ZERO).0);
        let second = Duration::from_secs(1);
        let wrote = Deeds { changes: vec![(second, "rename".to_owned())], ..quiet.clone() };
        assert!(
            !wrote.judge_nothing(Duration::ZERO).0
                && wrote.judge_something(Duration::ZERO).0
                && wrote.judge_nothing(second * 2).0
        );
        assert!(!Deeds { announcements: vec![second], ..quiet.clone() }.judge_nothing(Duration::ZERO).0);
        assert!(!Deeds { blind: Some("gone".to_owned()), ..quiet }.judge_nothing(Duration::ZERO).0);
        assert!(!Deeds::default().judge_something(Duration::ZERO).0);
        assert!(!Deeds::default().judge_nothing(Duration::ZERO).0);
    }
}
