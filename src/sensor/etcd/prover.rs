//! Proofs of leadership for the steps that need one right before and right after an act.

use std::future::Future;
use std::sync::Arc;

use super::fault::sentence;
use super::link::EtcdLink;
use super::proof;
use crate::decision::observation::{EtcdFault, EtcdStatus, EtcdView, Quorum};
use crate::decision::plan::EtcdDepth;
use crate::decision::time::Moment;

/// A quorum confirmed, at one instant, who leads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Proof {
    /// The local member.
    pub member_id: u64,
    /// The leader that was confirmed; another member's proof is worth having for a release.
    pub leader: u64,
    /// The raft term in which it leads.
    pub raft_term: u64,
    /// The instant for which this holds: taken before the quorum was asked.
    pub at: Moment,
}

impl Proof {
    /// The proof that a reading holds, if a quorum confirmed it.
    #[must_use]
    pub const fn of(status: &EtcdStatus) -> Option<Self> {
        match status.quorum {
            Quorum::Confirmed { at } => {
                Some(Self { member_id: status.member_id, leader: status.leader, raft_term: status.raft_term, at })
            }
            Quorum::Denied(_) | Quorum::NotAsked => None,
        }
    }

    /// Whether the local member is the confirmed leader.
    #[must_use]
    pub const fn leads_here(&self) -> bool {
        self.leader == self.member_id
    }
}

impl std::fmt::Display for Proof {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.leads_here() {
            write!(f, "member {:x} leads in term {}", self.member_id, self.raft_term)
        } else {
            write!(f, "member {:x} leads in term {}, not the local {:x}", self.leader, self.raft_term, self.member_id)
        }
    }
}

/// Why there is no proof.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotProven {
    /// The sensor itself cannot tell.
    #[error("cannot tell: {0}")]
    CannotTell(String),
    /// The local member gave no usable answer.
    #[error("{}", sentence(.0))]
    Unreachable(EtcdFault),
    /// The member answered, a quorum did not confirm.
    #[error("{0}")]
    Denied(String),
}

/// Whoever can prove which member leads. A trait so that a simulation can take etcd's place.
pub trait LeadershipProver: Send + Sync {
    /// Prove who leads, now. Bounded in time by the implementation; cancel-safe.
    fn prove(&self) -> impl Future<Output = Result<Proof, NotProven>> + Send;
}

/// Proofs from the local etcd member, over the sensor's connection. Cheap to clone.
#[derive(Debug, Clone)]
pub struct EtcdProver {
    link: Arc<EtcdLink>,
}

impl EtcdProver {
    pub(super) const fn new(link: Arc<EtcdLink>) -> Self {
        Self { link }
    }

    pub(super) fn link(&self) -> &EtcdLink {
        &self.link
    }
}

impl LeadershipProver for EtcdProver {
    async fn prove(&self) -> Result<Proof, NotProven> {
        match proof::ask(&self.link, EtcdDepth::Proof).await.map_err(NotProven::CannotTell)? {
            EtcdView::Unreachable(fault) => Err(NotProven::Unreachable(fault)),
            EtcdView::Answered(status) => Proof::of(&status).ok_or_else(|| match status.quorum {
                Quorum::Denied(reason) => NotProven::Denied(reason),
                Quorum::NotAsked | Quorum::Confirmed { .. } => NotProven::Denied("the quorum was not asked".to_owned()),
            }),
        }
    }
}
