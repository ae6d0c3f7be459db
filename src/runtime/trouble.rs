//! A time during which etcd is unwell: when it is diagnosed, what of that is news, and what there is to say when it is over.
//!
//! ```text
//!              unwell                held for HELD                      well for etcd.stable_for
//!   well ───────────────► brief ───────────────────► lasting ─────────────────────────────────────► well, `recovered`
//!    ▲                      │                        │  ▲
//!    └──────────────────────┘ anything else          └──┘ diagnosed while unwell, at growing distances
//! ```
//!
//! A verdict that tells nothing of etcd (`paused`, `starting`, `resumed`, `unknown`) ends a brief trouble and neither ends nor feeds a
//! lasting one. Pure, and bounded; it survives no restart. The decision core knows nothing of it: no diagnosis changes a plan.

mod findings;
mod losses;
mod schedule;
mod substance;

use std::collections::BTreeSet;
use std::time::Duration;

use crate::audit::recovery::Recovery;
use crate::decision::observation::{EtcdView, Observation};
use crate::decision::time::Moment;
use crate::decision::verdict::Verdict;
use crate::diagnose::Diagnosed;
pub(super) use findings::Finding;
use findings::Findings;
use losses::Losses;
use schedule::Schedule;

/// An election takes 1 to 2 s and is no trouble, nor is a restart of etcd that is over as soon. Nor does etcd need longer to be well after most
/// repairs of a network: its members try to connect again all the time, and then elect.
const HELD: Duration = Duration::from_secs(4);

/// What a round shows of etcd and the FIP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Look {
    verdict: Verdict,
    /// Term, and the leader where one is known.
    term: Option<(u64, Option<u64>)>,
    /// Whether the FIP is here, where that can be told.
    here: Option<bool>,
    /// Refusals of steps that the audit has said since the start.
    refused: u64,
}

impl Look {
    /// From an observation, and what was made of it.
    pub(super) fn of(observation: &Observation, verdict: Verdict, refused: u64) -> Self {
        let term = match observation.etcd.fresh() {
            Some(EtcdView::Answered(status)) => Some((status.raft_term, Some(status.leader).filter(|leader| *leader != 0))),
            Some(EtcdView::Unreachable(_)) | None => None,
        };
        let here = observation.alias.fresh().map(crate::decision::observation::AliasView::is_held);
        Self { verdict, term, here, refused }
    }
}

/// How etcd fares, by the verdict.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Health {
    Unwell,
    Untold,
    Well,
}

const fn health(verdict: Verdict) -> Health {
    match verdict {
        Verdict::EtcdUnreachable | Verdict::NoQuorum | Verdict::LeaderUnproven | Verdict::LeaderFlapping => Health::Unwell,
        Verdict::Paused | Verdict::Starting | Verdict::Resumed | Verdict::Unknown => Health::Untold,
        Verdict::ManifestMissing
        | Verdict::ManifestShadowed
        | Verdict::ManifestChanged
        | Verdict::LoopStalledFipMissing
        | Verdict::LoopStalledFipHeld
        | Verdict::LoopStalledFollower
        | Verdict::FipOrphaned
        | Verdict::FipMissing
        | Verdict::FipDuplicated
        | Verdict::LoopBlind
        | Verdict::LoopMistaken
        | Verdict::LoopAbsent
        | Verdict::PodStuck
        | Verdict::KubeletDown
        | Verdict::LogStalled
        | Verdict::HostStarved
        | Verdict::Healthy => Health::Well,
    }
}

/// The trouble of now, if there is one.
#[derive(Debug, Default)]
pub(super) struct Trouble {
    episode: Option<Episode>,
    last: Option<Look>,
}

#[derive(Debug)]
struct Episode {
    since: Moment,
    /// It has held long enough to be worth a word.
    lasting: bool,
    /// The first of the rounds in a row that are well.
    well_since: Option<Moment>,
    verdict: Verdict,
    verdict_since: Moment,
    verdicts: BTreeSet<Verdict>,
    schedule: Schedule,
    losses: Losses,
    findings: Findings,
}

impl Trouble {
    /// Looks at a round. What there is to say when a trouble is over: once, when the verdict has been well for `stable_for`.
    pub(super) fn note(&mut self, look: Look, stable_for: Duration, now: Moment) -> Option<Recovery> {
        let before = self.last.replace(look);
        let health = health(look.verdict);
        if health == Health::Unwell {
            let episode = self.episode.get_or_insert_with(|| Episode::begins(before.unwrap_or(look), look, now));
            episode.goes_on(look, now);
        } else if self.episode.as_ref().is_some_and(|episode| !episode.lasting) {
            self.episode = None;
        }
        let episode = self.episode.as_mut()?;
        if health != Health::Unwell {
            episode.findings.drop_held();
        }
        episode.losses.note(look, now);
        episode.well_since = match health {
            Health::Well => episode.well_since.or(Some(now)),
            Health::Unwell | Health::Untold => None,
        };
        let over = episode.well_since.is_some_and(|since| now.since(since) >= stable_for);
        if over { self.episode.take().map(|episode| episode.recovered(look, now)) } else { None }
    }

    /// Whether etcd is to be looked at now. It counts as done.
    pub(super) fn is_due(&mut self, now: Moment) -> bool {
        self.unwell().is_some_and(|episode| episode.lasting && episode.schedule.take_due(episode.verdict_since + HELD, now))
    }

    /// A look that ended: what it found, if that stands by itself. A look that ends when etcd is not unwell any more says nothing, whatever it
    /// found: it saw the repair, or what was left of the trouble.
    pub(super) fn found(&mut self, diagnosed: Box<Diagnosed>) -> Option<(Verdict, Finding)> {
        let episode = self.unwell()?;
        Some((episode.verdict, episode.findings.take(diagnosed)?))
    }

    /// What an earlier look found and this did not say, if etcd has stayed unwell for long enough since.
    pub(super) fn settled(&mut self, now: Moment) -> Option<(Verdict, Finding)> {
        let episode = self.unwell()?;
        Some((episode.verdict, episode.findings.settled(now)?))
    }

    /// The trouble, while etcd is unwell.
    fn unwell(&mut self) -> Option<&mut Episode> {
        let look = self.last.filter(|look| health(look.verdict) == Health::Unwell)?;
        let episode = self.episode.as_mut()?;
        debug_assert_eq!(look.verdict, episode.verdict, "the last round was noted");
        Some(episode)
    }
}

impl Episode {
    fn begins(before: Look, look: Look, now: Moment) -> Self {
        Self {
            since: now,
            lasting: false,
            well_since: None,
            verdict: look.verdict,
            verdict_since: now,
            verdicts: BTreeSet::new(),
            schedule: Schedule::default(),
            losses: Losses::since(before, now),
            findings: Findings::default(),
        }
    }

    fn goes_on(&mut self, look: Look, now: Moment) {
        self.lasting |= now.since(self.since) >= HELD;
        self.verdicts.insert(look.verdict);
        if look.verdict != self.verdict {
            self.verdict = look.verdict;
            self.verdict_since = now;
        }
    }

    fn recovered(self, look: Look, now: Moment) -> Recovery {
        let until = self.well_since.unwrap_or(now);
        let (fip, leadership, refused) = self.losses.told(look, until);
        let verdicts = self.verdicts.into_iter().collect();
        Recovery {
            verdict: look.verdict,
            lasted: until.since(self.since),
            verdicts,
            cause: self.findings.cause(),
            fip,
            leadership,
            refused,
        }
    }
}

#[cfg(test)]
mod tests;
