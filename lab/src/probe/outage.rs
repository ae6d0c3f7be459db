//! What the client saw, as segments: answered by a node, or silence. Pure; no clock, no socket.
//!
//! Bounded: consecutive answers of one node are one segment, so that a run of hours costs what its changes cost.
//! An outage is the time between two successive answers. It is measured at reception: a datagram that waits in the
//! kernel for an ARP reply is answered late, and the client was without the service until then.

use std::time::Duration;

use serde::{Serialize, Serializer};

use crate::scenario::node::Node;

/// Ten datagrams in a row without an answer. On two busy cores gaps of 100 to 120 ms were measured with nothing wrong.
pub const SILENCE_AFTER: Duration = Duration::from_millis(200);

/// More segments than any run makes (a flap every 200 ms for a quarter of an hour); beyond it the last one is stretched.
const SEGMENTS_MAX: usize = 8192;

/// Who answered during a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Heard {
    /// This node answered.
    Node(Node),
    /// Nobody did.
    Silence,
}

impl Serialize for Heard {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Node(node) => node.serialize(serializer),
            Self::Silence => serializer.serialize_none(),
        }
    }
}

/// A stretch of time with one answer to "who serves?".
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Segment {
    /// Begin, on `CLOCK_MONOTONIC`.
    #[serde(serialize_with = "crate::scenario::clock::seconds")]
    pub from: Duration,
    /// End, on `CLOCK_MONOTONIC`.
    #[serde(serialize_with = "crate::scenario::clock::seconds")]
    pub to: Duration,
    /// Who answered.
    pub heard: Heard,
    /// Answers counted in it.
    pub answers: u64,
}

/// Folds answers into segments.
#[derive(Debug, Clone)]
pub struct Recorder {
    /// Begin of the first segment.
    began: Duration,
    segments: Vec<Segment>,
    /// Datagrams sent.
    sent: u64,
    /// Datagrams answered.
    answered: u64,
}

impl Recorder {
    /// Starts in silence at `now`.
    #[must_use]
    pub const fn new(now: Duration) -> Self {
        Self { began: now, segments: Vec::new(), sent: 0, answered: 0 }
    }

    /// One datagram went out.
    pub const fn sent(&mut self) {
        self.sent += 1;
    }

    /// An answer of `node` was received at `at`. Returns what changed for the client, if anything did, oldest first.
    pub fn answer(&mut self, at: Duration, node: Node) -> Vec<(Duration, Heard)> {
        self.answered += 1;
        let mut changes = Vec::new();
        let known_until = self.segments.last().map_or(self.began, |last| last.to);
        let already_silent = self.segments.last().is_some_and(|last| last.heard == Heard::Silence);
        if !already_silent && at.saturating_sub(known_until) > SILENCE_AFTER {
            self.push(known_until, at, Heard::Silence);
            changes.push((known_until, Heard::Silence));
        }
        match self.segments.last_mut() {
            Some(last) if last.heard == Heard::Node(node) => {
                last.to = at.max(last.to);
                last.answers += 1;
            }
            Some(last) => {
                last.to = at.max(last.to);
                let from = last.to;
                self.push(from, at, Heard::Node(node));
                changes.push((at, Heard::Node(node)));
            }
            None => {
                self.push(at, at, Heard::Node(node));
                changes.push((at, Heard::Node(node)));
            }
        }
        changes
    }

    /// Time passed without an answer. Returns the begin of a silence that has just become one.
    pub fn idle(&mut self, now: Duration) -> Option<Duration> {
        match self.segments.last_mut() {
            Some(last) if last.heard == Heard::Silence => {
                last.to = now.max(last.to);
                None
            }
            Some(_) | None => {
                let known_until = self.segments.last().map_or(self.began, |last| last.to);
                (now.saturating_sub(known_until) > SILENCE_AFTER).then(|| {
                    self.push(known_until, now, Heard::Silence);
                    known_until
                })
            }
        }
    }

    /// The client itself did not run for `lost` up to now (a starved host): it asked nothing, so silence proves nothing.
    /// Stretches an answered segment over the gap; a silence that had begun before stays a silence.
    pub fn slept(&mut self, lost: Duration) {
        if let Some(last) = self.segments.last_mut()
            && last.heard != Heard::Silence
        {
            last.to = last.to.saturating_add(lost);
        }
    }

    /// The segments so far, oldest first.
    #[must_use]
    pub fn segments(&self) -> &[Segment] {
        &self.segments
    }

    /// Datagrams sent and answered.
    #[must_use]
    pub const fn counts(&self) -> (u64, u64) {
        (self.sent, self.answered)
    }

    fn push(&mut self, from: Duration, to: Duration, heard: Heard) {
        if self.segments.len() < SEGMENTS_MAX {
            let answers = u64::from(heard != Heard::Silence);
            self.segments.push(Segment { from, to, heard, answers });
        } else if let Some(last) = self.segments.last_mut() {
            last.to = to;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CP1: Node = Node::new(1);
    const CP2: Node = Node::new(2);

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn answer_every_20_ms(recorder: &mut Recorder, from: u64, to: u64, node: Node) {
        for at in (from..=to).step_by(20) {
            recorder.answer(ms(at), node);
        }
    }

    #[test]
    fn steady_answers_are_one_segment() {
        let mut recorder = Recorder::new(ms(0));
        answer_every_20_ms(&mut recorder, 20, 60_000, CP1);
        assert_eq!(recorder.segments().len(), 1);
        assert_eq!(recorder.segments()[0].answers, 3000);
    }

    #[test]
    fn a_gap_between_two_answers_is_an_outage_from_the_last_to_the_next() {
        let mut recorder = Recorder::new(ms(0));
        answer_every_20_ms(&mut recorder, 20, 1000, CP1);
        assert_eq!(recorder.idle(ms(1190)), None);
        assert_eq!(recorder.idle(ms(1210)), Some(ms(1000)));
        assert_eq!(recorder.idle(ms(1500)), None);
        let changes = recorder.answer(ms(2000), CP2);
        assert_eq!(changes, [(ms(2000), Heard::Node(CP2))]);
        let silence = &recorder.segments()[1];
        assert_eq!((silence.from, silence.to, silence.heard), (ms(1000), ms(2000), Heard::Silence));
    }

    #[test]
    fn an_outage_is_found_even_if_nobody_polled_during_it() {
        let mut recorder = Recorder::new(ms(0));
        answer_every_20_ms(&mut recorder, 20, 1000, CP1);
        let changes = recorder.answer(ms(3000), CP1);
        assert_eq!(changes, [(ms(1000), Heard::Silence), (ms(3000), Heard::Node(CP1))]);
    }

    #[test]
    fn datagrams_that_waited_for_arp_and_are_answered_together_make_no_second_outage() {
        let mut recorder = Recorder::new(ms(0));
        answer_every_20_ms(&mut recorder, 20, 1000, CP1);
        for _ in 0..45 {
            recorder.answer(ms(2900), CP2);
        }
        let silences = recorder.segments().iter().filter(|s| s.heard == Heard::Silence).count();
        assert_eq!(silences, 1);
    }

    #[test]
    fn a_change_of_the_answering_node_without_a_gap_is_no_outage() {
        let mut recorder = Recorder::new(ms(0));
        answer_every_20_ms(&mut recorder, 20, 1000, CP1);
        assert_eq!(recorder.answer(ms(1020), CP2), [(ms(1020), Heard::Node(CP2))]);
        assert!(recorder.segments().iter().skip(1).all(|s| s.heard != Heard::Silence));
    }

    #[test]
    fn a_starved_client_does_not_count_its_own_sleep_as_an_outage() {
        let mut recorder = Recorder::new(ms(0));
        answer_every_20_ms(&mut recorder, 20, 1000, CP1);
        recorder.slept(ms(800));
        assert_eq!(recorder.idle(ms(1820)), None);
        assert_eq!(recorder.answer(ms(1840), CP1), []);
    }

    #[test]
    fn segments_are_bounded() {
        let mut recorder = Recorder::new(ms(0));
        for round in 0..20_000_u64 {
            recorder.answer(ms(round * 500), CP1);
        }
        assert_eq!(recorder.segments().len(), SEGMENTS_MAX);
    }
}
