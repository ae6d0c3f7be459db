//! What a watchdog does to the world, counted from outside of it: its system calls, and its frames on the wire.
//!
//! For `wrote_nothing`, and for `clock-jump`, which needs each daemon before it begins as well. Nothing that the watchdog says about itself is asked. A tracer that went blind, or saw nothing at
//! all, fails the expectation: a run is never judged on silence. Each daemon is traced from its first instruction on, also
//! one that systemd starts after a kill (`starts`).

pub mod calls;
pub mod frames;
pub mod own_clock;
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
use starts::{Gets, Place};

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
    followers: JoinSet<(Node, Calls)>,
    stop: tokio::sync::watch::Sender<bool>,
    /// None if nothing is counted.
    wire: Option<Frames>,
}

/// What a run was like from outside.
#[derive(Debug, Default)]
pub struct Seen {
    /// What each watchdog did; empty unless that was counted.
    pub deeds: BTreeMap<Node, Deeds>,
    /// The daemons that did not get what they should have got.
    pub gaps: Vec<String>,
}

impl Outside {
    /// Begins, and starts the watchdogs anew, so that each gets what it should before its first instruction.
    ///
    /// # Errors
    /// A watchdog does not start, or the tracer or the packet socket cannot be had.
    pub async fn start(lab: &Lab, gets: Gets) -> anyhow::Result<Self> {
        let wire = if gets.tracer { Some(Frames::start(lab.name()).context("cannot listen on the bridge")?) } else { None };
        let stop = tokio::sync::watch::Sender::new(false);
        let mut followers = JoinSet::new();
        for (node, id) in lab_api::nodes(lab) {
            let (place, stopped) = (Place::of(lab, id), stop.subscribe());
            followers.spawn(async move { (node, starts::follow(place, gets, stopped).await) });
        }
        let restarts = lab_api::nodes(lab).map(async |(node, id)| {
            starts::restart_held(lab, id).await.with_context(|| format!("cannot begin with the watchdog of {node}"))
        });
        futures_util::future::try_join_all(restarts).await?;
        Ok(Self { followers, stop, wire })
    }

    /// What was seen. From here on no start is served any more.
    pub async fn finish(mut self) -> Seen {
        self.stop.send_replace(true);
        let mut seen = Seen::default();
        while let Some(followed) = self.followers.join_next().await {
            // A follower that panicked leaves its node out, and the expectation says so.
            let Ok((node, calls)) = followed else { continue };
            let Calls { daemons, looked_at, changes, blind } = calls;
            if self.wire.is_some() {
                seen.deeds.insert(node, Deeds { daemons, looked_at, changes, blind, ..Deeds::default() });
            } else if let Some(why) = blind {
                seen.gaps.push(format!("{node}: {why}"));
            }
        }
        let Some(wire) = self.wire.map(Frames::finish) else { return seen };
        for (at, node, frame) in wire.frames {
            let Some(deeds) = seen.deeds.get_mut(&node) else { continue };
            match frame {
                Frame::Announces => deeds.announcements.push(at),
                Frame::Asks => deeds.questions += 1,
            }
        }
        if let Some(why) = wire.blind {
            seen.deeds.values_mut().for_each(|deeds| deeds.blind = Some(why.clone()));
        }
        seen
    }
}

/// Lets the nodes' services start as on real nodes again, in a lab that stays.
///
/// # Errors
/// A node does not answer.
pub async fn hold_no_more(lab: &Lab) -> anyhow::Result<()> {
    let nodes = lab_api::nodes(lab).map(async |(_, id)| starts::hold_no_more(lab, id).await);
    futures_util::future::try_join_all(nodes).await?;
    Ok(())
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
