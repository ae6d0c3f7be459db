//! The decision tree of the second article, and further: from what was seen to what it is. Pure.
//!
//! ```text
//!   Evidence ──► Sight (each peer's reach, etcd, quorum) ──► table: cause ──► sentence, next
//!                                                       └──► checks, links
//! ```
//!
//! Invariants: it never panics, whatever the evidence; healthy means that no check is bad; a fault of the network names at least one link;
//! every text is bounded, without control characters, and says no more than was seen from this node or shared by another.

mod certificate;
mod checks;
mod local;
mod network;
mod next;
mod reach;
mod sentence;
mod sight;
mod table;
mod words;

use super::diagnosis::{Cause, Check, Diagnosis, Link, Mark, Outcome};
use super::evidence::{Connect, Evidence};
use crate::audit::text::clip;
pub(super) use reach::HEARD_MS_MAX;
use sight::Sight;

/// Longest sentence, in bytes: a few lines on a terminal.
pub const SENTENCE_BYTES_MAX: usize = 1_200;

/// Longest text of a check, in bytes.
const TEXT_BYTES_MAX: usize = 400;

/// Most lines of the tree, most links, most commands: a cluster has at most nine members, but a list is another's word.
const LINES_MAX: usize = 100;

/// What the evidence comes to.
#[must_use]
pub fn judge(evidence: Evidence) -> Diagnosis {
    let sight = Sight::new(&evidence);
    let checks = bounded(checks::all(&sight));
    let (mut cause, mut also) = table::causes(&sight);
    let bad = checks.iter().any(|check| check.mark == Mark::Bad);
    if bad && table::outcome(cause) == Outcome::Healthy {
        cause = Cause::Unknown;
        also.clear();
    }
    let mut links: Vec<Link> = network::links(&sight).into_iter().map(bounded_link).take(LINES_MAX).collect();
    if links.is_empty() {
        links = sentence::links_without_a_peer(cause, &sight).into_iter().map(bounded_link).take(LINES_MAX).collect();
    }
    let outcome = match table::outcome(cause) {
        Outcome::Network if links.is_empty() => Outcome::Node,
        other @ (Outcome::Healthy | Outcome::Node | Outcome::Network | Outcome::Unknown) => other,
    };
    let sentence = clip(&sentence::say(cause, &also, &sight, &checks), SENTENCE_BYTES_MAX);
    let next = next::commands(cause, &sight).into_iter().map(|command| clip(&command, TEXT_BYTES_MAX)).take(LINES_MAX).collect();
    Diagnosis { outcome, cause, sentence, checks, links, next, also, evidence }
}

fn bounded(checks: Vec<Check>) -> Vec<Check> {
    let left_out = checks.len().saturating_sub(LINES_MAX);
    let worst = checks.iter().skip(LINES_MAX).map(|check| check.mark).find(|mark| *mark == Mark::Bad).unwrap_or(Mark::Unseen);
    let clipped = |check: Check| Check {
        name: clip(&check.name, 80),
        mark: check.mark,
        seen: clip(&check.seen, TEXT_BYTES_MAX),
        means: clip(&check.means, TEXT_BYTES_MAX),
        by_hand: clip(&check.by_hand, TEXT_BYTES_MAX),
    };
    let mut kept: Vec<Check> = checks.into_iter().take(LINES_MAX).map(clipped).collect();
    if left_out > 0 {
        let seen = format!("{left_out} more lines are left out");
        kept.push(Check { name: "more".to_owned(), mark: worst, seen, means: String::new(), by_hand: String::new() });
    }
    kept
}

fn bounded_link(link: Link) -> Link {
    let shows = link.shows.map(|shows| match shows {
        Connect::Other(text) => Connect::Other(words::quote(&text)),
        Connect::Open | Connect::Refused | Connect::TimedOut | Connect::Rejected | Connect::NoHost | Connect::NoRoute => shows,
    });
    Link { shows, ..link }
}
