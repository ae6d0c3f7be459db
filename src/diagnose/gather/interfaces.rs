//! The node's interfaces and their addresses.

use crate::diagnose::evidence::{Interface, Seen};
use crate::policy::Policy;

/// See the module's head.
pub(super) async fn look(_policy: &Policy) -> Seen<Vec<Interface>> {
    Seen::default()
}
