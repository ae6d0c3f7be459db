//! What the local member says of itself (`Maintenance.Status`, one linearizable read).

use crate::diagnose::evidence::{LocalStatus, Seen};
use crate::policy::Policy;

/// See the module's head.
pub(super) async fn look(_policy: &Policy) -> Seen<LocalStatus> {
    Seen::default()
}
