//! etcd's container, by the CRI socket or by its process.

use crate::diagnose::evidence::{Container, Seen};
use crate::policy::Policy;

/// See the module's head.
pub(super) async fn look(_policy: &Policy) -> Seen<Container> {
    Seen::default()
}

/// etcd's unit, where it is no pod.
pub(super) const UNIT: &str = "etcd.service";
