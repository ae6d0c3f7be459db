//! Why etcd is unwell, from one node, in a few seconds, touching nothing.
//!
//! ```text
//!   gather (side by side, each with its deadline) ──► Evidence ──► tree (pure) ──► Diagnosis ──► screen, JSON, journal
//! ```
//!
//! Invariants: it only asks, and changes nothing on this node or another; whatever hangs, an answer comes within [`PATIENCE`]; what could
//! not be seen is said and never guessed. May be dropped at any await.

pub mod container;
mod diagnosed;
pub mod diagnosis;
pub mod evidence;
mod gather;
mod tree;
pub mod view;

use std::future::{Future, ready};
use std::time::Duration;

use crate::policy::Policy;

pub use diagnosed::Diagnosed;
pub use diagnosis::{Cause, Check, Diagnosis, Link, Mark, Outcome};
pub use evidence::Evidence;
use evidence::{CertificateFile, Pause, Seen};
pub use gather::{connections, try_port, try_ports};
pub use tree::{SENTENCE_BYTES_MAX, judge};

/// The longest that a diagnosis takes, whatever hangs.
pub const PATIENCE: Duration = Duration::from_millis(4500);

/// The certificates of the local member and of its clients, for who wants to know nothing else. Bounded, and reads only.
pub(crate) async fn certificate_files(policy: &Policy) -> Seen<Vec<CertificateFile>> {
    gather::certificate_files(policy).await
}

/// Looks at this node and its peers, and judges what was seen. `last_pause` comes from the daemon's ledger: only who was there can tell.
pub async fn diagnose(policy: &Policy, last_pause: Option<Pause>) -> Diagnosis {
    diagnose_beside(policy, ready(last_pause)).await
}

/// The same, where the daemon is asked for its last pause meanwhile.
pub async fn diagnose_beside(policy: &Policy, last_pause: impl Future<Output = Option<Pause>>) -> Diagnosis {
    // All looks together are some 100 KB: on the heap, or each caller's frame has them again, and a thread's stack is 2 MB.
    let evidence = Box::pin(gather::gather(policy, last_pause)).await;
    judge(evidence)
}
