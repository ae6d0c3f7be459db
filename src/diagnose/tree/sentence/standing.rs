//! Sentences where nothing is broken, or where what is broken is not to be seen.

use super::{bad, etcd_here};
use crate::diagnose::diagnosis::{Check, Mark};
use crate::diagnose::evidence::MemberId;
use crate::diagnose::tree::reach::Kind;
use crate::diagnose::tree::sight::{Quorum, Sight};
use crate::diagnose::tree::words;

/// All is well.
pub(super) fn healthy(sight: &Sight<'_>, checks: &[Check]) -> String {
    let me = sight.me();
    if sight.voters().is_none() && sight.reaches.is_empty() {
        return format!(
            "etcd is healthy as seen from {me}, {}, but which members there are could not be seen.{}",
            leader(sight),
            unseen(checks)
        );
    }
    if sight.reaches.is_empty() && sight.voters() == Some(1) {
        return format!(
            "etcd on {me} is healthy: the only member, so there is no other to reach and none to lose.{}",
            unseen(checks)
        );
    }
    let peers = words::count(sight.reaches.len(), "peer");
    let fine = sight.reaches.iter().filter(|reach| reach.kind == Kind::Fine).count();
    let reached =
        if fine == sight.reaches.len() { format!("{peers} can be reached") } else { format!("{fine} of {peers} can be reached") };
    format!("etcd is healthy as seen from {me}: {reached}, {}.{}", leader(sight), unseen(checks))
}

/// Two members.
pub(super) fn too_few(sight: &Sight<'_>, checks: &[Check]) -> String {
    format!(
        "etcd is healthy as seen from {}, {}, but has two members: it cannot lose either of them. If there should be three, look why one is missing.{}",
        sight.me(),
        leader(sight),
        unseen(checks)
    )
}

/// No vote.
pub(super) fn learner(sight: &Sight<'_>) -> String {
    format!(
        "The member on {} is a learner: it has no vote, answers no linearizable read and cannot lead; {}. Look why it was not promoted (`etcdctl member list`).",
        sight.me(),
        leader(sight)
    )
}

/// Elections.
pub(super) fn flapping(sight: &Sight<'_>) -> String {
    format!(
        "The leadership changes again and again as seen from {}, and neither the network, the disk nor the node shows why; {}. After a repair of the network that is normal for a \
         minute: wait, and run this again.",
        sight.me(),
        etcd_here(sight)
    )
}

/// Not told.
pub(super) fn unknown(sight: &Sight<'_>, checks: &[Check]) -> String {
    let (me, bad) = (sight.me(), bad(checks));
    if sight.quorum == Quorum::No && matches!(sight.etcd, super::Etcd::Answers | super::Etcd::Waits) {
        return format!(
            "etcd on {me} runs and has no quorum, and nothing that was seen from here says why: an election may be under way, or the fault is on another node. Run this again in some \
             seconds, then `fip-watchdog diagnose` on the others."
        );
    }
    if bad.is_empty() {
        return format!(
            "Nothing wrong was seen on {me}, but not enough was seen to call etcd healthy: {}.{}",
            etcd_here(sight),
            unseen(checks)
        );
    }
    format!("Something is wrong on {me}, and what was seen does not tell the cause: {}; {}.", words::list(&bad), etcd_here(sight))
}

/// Who leads.
fn leader(sight: &Sight<'_>) -> String {
    let id = sight.evidence.status.yes().map(|status| status.leader).filter(|id| *id != MemberId(0));
    let named = id.and_then(|id| sight.evidence.members.yes()?.list.iter().find(|member| member.id == id));
    match (named, id) {
        (Some(member), _) => format!("{} leads", words::name(&member.name, member.address)),
        (None, Some(id)) => format!("member {id} leads"),
        (None, None) if sight.quorum == Quorum::Yes => "there is a leader".to_owned(),
        (None, None) => "no leader is known".to_owned(),
    }
}

/// How much could not be seen, and what should be looked at.
fn unseen(checks: &[Check]) -> String {
    let named = |mark: Mark| checks.iter().filter(|check| check.mark == mark).map(|check| check.name.clone()).collect::<Vec<_>>();
    let mut text = String::new();
    for (what, names) in [(" Worth a look: ", named(Mark::Warn)), (" Not seen: ", named(Mark::Unseen))] {
        if !names.is_empty() {
            text.push_str(what);
            text.push_str(&words::list(&names));
            text.push('.');
        }
    }
    text
}
