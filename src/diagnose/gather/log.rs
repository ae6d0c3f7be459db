//! What etcd's own log says.

use crate::diagnose::evidence::{EtcdLog, Seen};
use crate::policy::Policy;

/// See the module's head.
pub(super) async fn look(_policy: &Policy) -> Seen<EtcdLog> {
    Seen::default()
}
