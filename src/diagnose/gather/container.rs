//! etcd's container, by the CRI socket or by its process.

use crate::diagnose::evidence::{Container, Seen};
use crate::policy::Policy;

/// See the module's head.
pub(super) async fn look(_policy: &Policy) -> Seen<Container> {
    Seen::default()
}
