//! The etcd sense: what the local member says, and whether a quorum confirms it.
//!
//! `Status` is one member's opinion; [`EtcdDepth::Proof`] asks a quorum as well (`proof.rs` has the protocol). The
//! alias steps ask for proofs of their own through an [`EtcdProver`], over the same kept connection:
//! requests are multiplexed and no lock is held across an await, so that neither can block the other.
//!
//! Invariant: an answer that was in flight while this process did not run, or that is older than one deadline when it arrives is thrown away, never used.
//!
//! Cancel-safe: a dropped read leaves nothing behind but the kept connection.

mod examine;
mod fault;
mod link;
mod member_list;
mod members;
mod proof;
mod prover;
mod views;

use std::net::Ipv4Addr;
use std::sync::Arc;

use crate::decision::observation::{EtcdView, Quorum, Reading};
use crate::decision::plan::EtcdDepth;
use crate::policy::EtcdPolicy;
use crate::runtime::clock;

pub use examine::{Examination, examine};
pub use fault::sentence;
pub use member_list::{ListedMember, MEMBERS_MAX, MemberList, ask_members};
pub use proof::{agree, in_time, unpaused};
pub use prover::{EtcdProver, LeadershipProver, NotProven, Proof};
pub use views::read_prefix;

use link::EtcdLink;

/// Reads the local etcd member.
#[derive(Debug)]
pub struct EtcdSensor {
    link: Arc<EtcdLink>,
}

impl EtcdSensor {
    /// A sensor that connects when it is first read.
    #[must_use]
    pub fn new(policy: &EtcdPolicy) -> Self {
        Self { link: Arc::new(EtcdLink::new(policy.clone(), None)) }
    }

    /// The same for a FIP: while that is the address of a member, the answer is `Unknown`.
    #[must_use]
    pub fn for_fip(policy: &EtcdPolicy, fip: Ipv4Addr) -> Self {
        Self { link: Arc::new(EtcdLink::new(policy.clone(), Some(fip))) }
    }

    /// Ask the member. Returns within the policy's deadline, and then a little for the scheduler.
    ///
    /// `Unknown` means that the sensor itself could not ask (certificates unreadable), that this
    /// process did not run while it waited, or that the FIP is a member's address; a member that does not answer is a fresh
    /// [`EtcdView::Unreachable`].
    pub async fn read(&mut self, depth: EtcdDepth) -> Reading<EtcdView> {
        match proof::ask(&self.link, depth).await {
            Ok(value) => Reading::Fresh { value, at: clock::now() },
            Err(reason) => Reading::Unknown(reason),
        }
    }

    /// The member list as it was read last, while a FIP is looked for in it.
    #[must_use]
    pub fn member_list(&self) -> Option<Arc<MemberList>> {
        self.link.members.list()
    }

    /// A prover for the alias steps, over the same connection.
    #[must_use]
    pub fn prover(&self) -> EtcdProver {
        EtcdProver::new(Arc::clone(&self.link))
    }
}

/// Whether a view holds a confirmed quorum.
const fn is_confirmed(view: &EtcdView) -> bool {
    match view {
        EtcdView::Answered(status) => matches!(status.quorum, Quorum::Confirmed { .. }),
        EtcdView::Unreachable(_) => false,
    }
}
