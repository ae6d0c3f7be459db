//! Puts what this node sees of its peers where the others can read it, while `cluster.share_views` is on.
//!
//! Invariant: without the key nothing is written to etcd, nor in observe mode, nor while an operator paused. One attempt at a time, each
//! bounded; the loop waits for none. The key has a lease, so that what is not renewed is gone.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Mutex;

use super::{clock, small_file};
use crate::decision::observation::{EtcdView, Observation};
use crate::decision::time::Moment;
use crate::decision::verdict::Verdict;
use crate::diagnose::evidence::Connect;
use crate::diagnose::{try_ports, view};
use crate::policy::{Mode, Policy};
use crate::sensor::etcd::EtcdProver;

/// Between two attempts. What is older than twice this tells a diagnosis nothing (`tree/reach.rs`).
const EVERY: Duration = Duration::from_secs(5);

/// The lease of a view: beyond a few attempts that fail it misleads.
const LEASE: Duration = Duration::from_secs(30);

/// For all peer ports together, side by side.
const PORTS_TIME: Duration = Duration::from_millis(1500);

/// The member list is asked for again after so many attempts: ten minutes.
const LIST_EVERY: u32 = 120;

/// What the loop knows and shares.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Share {
    /// The local member.
    pub member_id: u64,
    /// The verdict.
    pub verdict: Verdict,
    /// Whether the FIP is here.
    pub holds_fip: Option<bool>,
}

/// When to share, and what of its fate was said.
#[derive(Debug, Default)]
pub(super) struct Sharing {
    next: Option<Moment>,
    failing: bool,
}

impl Sharing {
    /// What is to be shared now. Without a leader no write can succeed, so none is tried.
    pub(super) fn due(&mut self, observation: &Observation, verdict: Verdict, policy: &Policy, now: Moment) -> Option<Share> {
        let allowed = policy.cluster.share_views && policy.mode == Mode::Enforce && verdict != Verdict::Paused;
        let Some(EtcdView::Answered(status)) = observation.etcd.fresh().filter(|_| allowed) else { return None };
        if status.leader == 0 || status.learner || self.next.is_some_and(|next| now < next) {
            return None;
        }
        self.next = Some(now + EVERY);
        let holds_fip = observation.alias.fresh().map(crate::decision::observation::AliasView::is_held);
        Some(Share { member_id: status.member_id, verdict, holds_fip })
    }

    /// Says once that it fails, and once that it succeeds again.
    pub(super) fn ended(&mut self, outcome: &Result<(), String>) {
        match outcome {
            Err(reason) if !self.failing => {
                tracing::warn!(%reason, "what this node sees of its peers cannot be shared; it is tried again");
            }
            Ok(()) if self.failing => tracing::info!("what this node sees of its peers is shared again"),
            Ok(()) | Err(_) => {}
        }
        self.failing = outcome.is_err();
    }
}

/// What is kept between two attempts.
#[derive(Debug, Clone, Default)]
pub(super) struct Sharer(Arc<Mutex<Kept>>);

#[derive(Debug, Default)]
struct Kept {
    lease: Option<i64>,
    peers: Vec<SocketAddr>,
    listed: u32,
}

impl Sharer {
    /// Looks at the peers' ports and puts the view. Bounded; may be dropped at any await.
    pub(super) async fn share(&self, policy: Policy, prover: EtcdProver, share: Share) -> Result<(), String> {
        let mut kept = self.0.lock().await;
        if kept.listed == 0 {
            kept.peers = prover.peer_addresses(share.member_id).await.map_err(|reason| format!("the member list: {reason}"))?;
        }
        kept.listed = (kept.listed + 1) % LIST_EVERY;
        let wall_ms = u64::try_from(clock::wall().as_millis()).unwrap_or(u64::MAX);
        let seen: Vec<Connect> = try_ports(&policy.etcd, &kept.peers, PORTS_TIME).await;
        let value = view::SharedView {
            node: rustix::system::uname().nodename().to_string_lossy().into_owned(),
            verdict: share.verdict.name().to_owned(),
            mac: mac(&policy.fip.interface),
            holds_fip: share.holds_fip,
            wall_ms,
            peer_ports: kept.peers.iter().map(SocketAddr::ip).zip(seen).collect(),
        };
        let lease = kept.lease.take();
        let put = prover.put_leased(&view::key(share.member_id), value.encode()?, lease, LEASE).await;
        kept.lease = Some(put.map_err(|reason| format!("the key in etcd: {reason}"))?);
        Ok(())
    }
}

/// A read of memory of the kernel's: it does not hang.
fn mac(interface: &str) -> Option<String> {
    let path = Path::new("/sys/class/net").join(interface).join("address");
    let text = small_file::read(&path, 64).ok()?;
    Some(String::from_utf8_lossy(&text).trim().to_owned()).filter(|mac| !mac.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::audit::tests::talkative;
    use crate::decision::observation::{EtcdStatus, Reading};

    fn observed(leader: u64) -> Observation {
        let status = EtcdStatus { member_id: 1, leader, ..EtcdStatus::default() };
        Observation { etcd: Reading::Fresh { value: EtcdView::Answered(status), at: Moment::default() }, ..talkative("x") }
    }

    fn policy(share_views: bool, mode: Mode) -> Policy {
        let mut policy = Policy::with_defaults([192, 0, 2, 200].into(), "eth0");
        (policy.cluster.share_views, policy.mode) = (share_views, mode);
        policy
    }

    #[test]
    fn nothing_is_shared_unless_the_policy_says_so_and_enforces() {
        let due =
            |verdict, policy: &Policy, leader| Sharing::default().due(&observed(leader), verdict, policy, Moment::default());
        let on = policy(true, Mode::Enforce);
        assert_eq!(due(Verdict::Healthy, &policy(false, Mode::Enforce), 2), None);
        assert_eq!(due(Verdict::Healthy, &policy(true, Mode::Observe), 2), None);
        assert_eq!(due(Verdict::Paused, &on, 2), None);
        assert_eq!(due(Verdict::NoQuorum, &on, 0), None, "without a leader no write succeeds");
        assert_eq!(due(Verdict::Healthy, &on, 2), Some(Share { member_id: 1, verdict: Verdict::Healthy, holds_fip: Some(true) }));
    }

    #[test]
    fn a_view_is_shared_every_few_seconds() {
        let (on, mut sharing) = (policy(true, Mode::Enforce), Sharing::default());
        let at = |seconds| Moment::from_origin(Duration::from_secs(seconds));
        let times = (0..20).filter(|second| sharing.due(&observed(2), Verdict::Healthy, &on, at(*second)).is_some());
        assert_eq!(times.collect::<Vec<_>>(), [0, 5, 10, 15]);
    }
}
