//! Each other member: its ports, and the connections with it.

use crate::diagnose::evidence::{Member, Members, Peer, Seen};
use crate::policy::Policy;

/// A peer for each member but `own`.
pub(super) async fn look(_policy: &Policy, members: &Seen<Members>, own: Option<&Member>) -> Vec<Peer> {
    let list = members.yes().map(|members| members.list.as_slice()).unwrap_or_default();
    list.iter().filter(|member| Some(*member) != own).map(|member| Peer { member: member.clone(), ..Peer::default() }).collect()
}
