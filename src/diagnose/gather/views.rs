//! What the other nodes' watchdogs share of their own sight, where the policy says that they do.
//!
//! A serializable read of the local member: it needs no quorum, and each view tells its age. May be dropped at any await.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::diagnose::evidence::{MemberId, Peer, PeerView};
use crate::diagnose::view::{PREFIX, SharedView, member_of};
use crate::policy::Policy;
use crate::runtime::clock;
use crate::sensor::etcd::read_prefix;

/// The local member answers from memory.
const DEADLINE: Duration = Duration::from_millis(1300);

/// Views by member; none where nothing is shared or nothing could be read. That the member does not answer, its status tells.
pub(super) async fn look(policy: &Policy) -> BTreeMap<MemberId, PeerView> {
    if !policy.cluster.share_views {
        return BTreeMap::new();
    }
    let found = read_prefix(&policy.etcd, PREFIX, DEADLINE).await.unwrap_or_default();
    let wall_ms = u64::try_from(clock::wall().as_millis()).unwrap_or(u64::MAX);
    found.iter().filter_map(|(key, value)| Some((member_of(key)?, SharedView::decode(value, wall_ms)?))).collect()
}

/// Gives each peer its view.
pub(super) fn join(peers: &mut [Peer], mut views: BTreeMap<MemberId, PeerView>) {
    for peer in peers {
        peer.view = views.remove(&peer.member.id);
    }
}
