//! Lines of etcd's log, counted by what they say and about whom.
//!
//! Invariant: bounded whatever the log holds. Ages are by the log's own stamps against the wall clock: a stamp from the future has none,
//! a clock was set. Pure.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};

use super::class::classify;
use super::line::{Said, parse};
use crate::audit::text::clip;
use crate::diagnose::evidence::{LogClass, LogLine, MemberId};

/// Only what is not older than this at the log's end counts: an etcd that is well writes a line in minutes, and what was an hour ago is over.
const WINDOW: SignedDuration = SignedDuration::from_mins(15);

/// Peers that are told apart; more are counted together.
const PEERS_MAX: usize = 16;

/// An example of a line, at most.
const EXAMPLE_BYTES_MAX: usize = 300;

/// How far a stamp may be ahead of the clock and still be of now: it was written while we read.
const AHEAD: SignedDuration = SignedDuration::from_secs(5);

/// Lines as they come.
#[derive(Debug, Default)]
pub(super) struct Tally {
    lines: Vec<Line>,
    peers: BTreeSet<MemberId>,
    stamp: Option<Timestamp>,
    newest: Option<Timestamp>,
}

#[derive(Debug)]
struct Line {
    class: LogClass,
    peer: Option<MemberId>,
    stamp: Option<Timestamp>,
    example: String,
}

/// What was counted of one class and peer.
#[derive(Debug, Default)]
struct Count {
    count: u32,
    newest: Option<Timestamp>,
    oldest: Option<Timestamp>,
    example: String,
}

impl Tally {
    /// Takes the next line, with the stamp that the container runtime gave it.
    pub(super) fn take(&mut self, line: &[u8], framed: Option<Timestamp>) {
        let said = parse(line);
        // A line without any stamp (a panic's) came after the one before it.
        self.stamp = said.stamp.or(framed).or(said.local_stamp).or(self.stamp);
        self.newest = self.newest.max(self.stamp);
        if let Some(class) = classify(&said) {
            let Said { peer, text, .. } = said;
            let peer = peer.filter(|peer| is_about_a_peer(class) && self.knows(*peer));
            self.lines.push(Line { class, peer, stamp: self.stamp, example: clip(&text, EXAMPLE_BYTES_MAX) });
        }
    }

    fn knows(&mut self, peer: MemberId) -> bool {
        let known = self.peers.contains(&peer) || self.peers.len() < PEERS_MAX;
        if known {
            self.peers.insert(peer);
        }
        known
    }

    /// The age of the newest line, and what was counted, newest first.
    pub(super) fn told(self, now: Timestamp) -> (Option<u64>, Vec<LogLine>) {
        let since = self.newest.and_then(|newest| newest.checked_sub(WINDOW).ok());
        let mut counts: BTreeMap<(LogClass, Option<MemberId>), Count> = BTreeMap::new();
        for line in self.lines.into_iter().filter(|line| line.stamp >= since) {
            if line.class == LogClass::PeerActive {
                for (_, count) in counts.iter_mut().filter(|((_, peer), _)| *peer == line.peer) {
                    count.oldest = None;
                }
            }
            let count = counts.entry((line.class, line.peer)).or_default();
            count.count += 1;
            count.oldest = count.oldest.or(line.stamp);
            if line.stamp >= count.newest {
                count.newest = line.stamp;
                count.example = line.example;
            }
        }
        let age = |stamp: Option<Timestamp>| age_ms(stamp?, now);
        let mut counts: Vec<_> = counts.into_iter().collect();
        counts.sort_by_key(|(key, count)| (std::cmp::Reverse(count.newest), *key));
        let told = counts.into_iter().map(|((class, peer), Count { count, newest, oldest, example })| LogLine {
            class,
            peer,
            count,
            newest_age_ms: age(newest),
            oldest_age_ms: age(oldest),
            example,
        });
        (age(self.newest), told.collect())
    }
}

/// How old a stamp is; `None` if it is from the future.
fn age_ms(stamp: Timestamp, now: Timestamp) -> Option<u64> {
    let age = now.duration_since(stamp);
    if age < -AHEAD { None } else { Some(u64::try_from(age.as_millis()).unwrap_or(0)) }
}

/// A member that the line names is the one that it is about, and not this one.
const fn is_about_a_peer(class: LogClass) -> bool {
    match class {
        LogClass::PeerTimedOut
        | LogClass::PeerRefused
        | LogClass::PeerNoRoute
        | LogClass::PeerTls
        | LogClass::PeerUnresolved
        | LogClass::PeerClosed
        | LogClass::PeerActive
        | LogClass::ClockDrift
        | LogClass::IdMismatch
        | LogClass::LateHeartbeats => true,
        LogClass::ClientTls
        | LogClass::SlowDisk
        | LogClass::Election
        | LogClass::Start
        | LogClass::Panic
        | LogClass::SnapshotReverted
        | LogClass::MemberRemoved
        | LogClass::CannotBind
        | LogClass::NoSpace
        | LogClass::DiskFull
        | LogClass::Corrupt
        | LogClass::CertificateLoad
        | LogClass::OtherError => false,
    }
}
