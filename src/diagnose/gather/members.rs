//! Who should be in the cluster: from etcd, from a peer, remembered, or from etcd's manifest.

use crate::diagnose::evidence::{Members, Seen};
use crate::policy::Policy;

/// See the module's head.
pub(super) async fn look(_policy: &Policy) -> Seen<Members> {
    Seen::default()
}
