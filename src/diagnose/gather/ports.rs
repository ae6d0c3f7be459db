//! The local member's own ports.

use crate::diagnose::evidence::{Member, Port, Seen};
use crate::policy::Policy;

/// Client port, at the policy's endpoint.
pub(super) async fn own_client(_policy: &Policy) -> Seen<Port> {
    Seen::default()
}

/// Peer port, at the member's address.
pub(super) async fn own_peer(_policy: &Policy, _own: Option<&Member>) -> Seen<Port> {
    Seen::default()
}
