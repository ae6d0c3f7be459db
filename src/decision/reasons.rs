//! The evidence behind a verdict, as sentences for the journal and for `status` (invariant I7).

use super::api::Silence;
use super::certificate::Expired;
use super::curl;
use super::facts::{Holding, LoopState, Role, grows_without_rounds, last_sign};
use super::judge::Facts;
use super::observation::{EtcdFault, EtcdView, HoldOff, Observation, ProcessView};
use super::time::Moment;
use super::verdict::Verdict;

/// One sentence a sense; the one that the verdict rests on comes first.
#[must_use]
pub fn reasons(observation: &Observation, facts: &Facts, verdict: Verdict, now: Moment) -> Vec<String> {
    let mut sentences = vec![etcd(observation, facts), fip(observation, facts), watched_loop(observation, facts, now)];
    put_first(verdict, &mut sentences);
    if let Some(claim) = observation.conflict.fresh().and_then(|view| view.last.as_ref()).filter(|_| facts.contested) {
        let place = if verdict == Verdict::FipDuplicated { 0 } else { sentences.len() };
        let age = now.since(claim.at).as_millis();
        sentences.insert(place, format!("the FIP is here, and {} claimed it {age} ms ago", claim.mac));
    }
    if let Some(missing) = facts.manifest_missing {
        let sentence = format!("the manifest has been out of its directory for {} s, and not by us", missing.as_secs());
        let place = if verdict == Verdict::ManifestMissing { 0 } else { sentences.len() };
        sentences.insert(place, sentence);
    }
    if let Some(shadow) = observation.manifest.fresh().and_then(|view| view.shadows.first()) {
        let sentence =
            format!("{} defines the same pod as the manifest, so that a cycle would start either of them", shadow.display());
        sentences.insert(if verdict == Verdict::ManifestShadowed { 0 } else { sentences.len() }, sentence);
    }
    if let Some(how) = &facts.pod_stuck {
        let sentence = format!("the last manifest cycle failed: {how}");
        sentences.insert(if verdict == Verdict::PodStuck { 0 } else { sentences.len() }, sentence);
    }
    if let Some(down) = facts.kubelet_down {
        let sentence = format!("the kubelet has not been running for {} s, so nobody would restart the loop", down.as_secs());
        sentences.insert(if verdict == Verdict::KubeletDown { 0 } else { sentences.len() }, sentence);
    }
    if let Some(stable_in) = facts.flapping {
        let stable_in = stable_in.as_secs();
        let sentence = format!(
            "the leadership has changed too often of late: nothing is put up or cycled until it is stable, {stable_in} s more"
        );
        sentences.insert(if verdict == Verdict::LeaderFlapping { 0 } else { sentences.len() }, sentence);
    }
    if let Some(silence) = observation.api.silence() {
        // Where all else is as it should be, this is what there is to say.
        let place = if verdict == Verdict::Healthy && silence.has_answered { 0 } else { sentences.len() };
        sentences.insert(place, api(observation, facts, silence, now));
    }
    if let Some(hold_off) = &observation.hold_off {
        let HoldOff { reason, remaining } = hold_off;
        sentences.insert(0, format!("after the boot, for {} s more at most: {reason}", remaining.as_secs()));
    }
    if facts.resumed {
        sentences.insert(0, "this daemon itself did not run for a while; all ages are void".to_owned());
    }
    if let Some(pause) = &observation.paused {
        sentences.insert(0, format!("paused for {} s more: {}", pause.remaining.as_secs(), pause.reason));
    }
    if let Some(cycle) = &observation.cycle {
        sentences.push(format!("a manifest cycle is open ({:?})", cycle.phase).to_lowercase());
    }
    sentences
}

fn api(observation: &Observation, facts: &Facts, silence: &Silence, now: Moment) -> String {
    let Silence { since, how, has_answered } = silence;
    let (port, age) = (observation.api.port().unwrap_or_default(), now.since(*since).as_secs());
    if !has_answered {
        return format!("nothing has answered on port {port} behind the FIP in {age} s of asking, and never before: {how}");
    }
    let right = if facts.role.says_it_leads() { "the FIP is right, but " } else { "" };
    format!("{right}the API behind the FIP does not answer: port {port}, for {age} s: {how}")
}

/// The sense that the verdict rests on.
fn put_first(verdict: Verdict, sentences: &mut [String]) {
    match verdict {
        Verdict::LoopStalledFipMissing
        | Verdict::LoopStalledFipHeld
        | Verdict::LoopStalledFollower
        | Verdict::ManifestChanged
        | Verdict::LoopBlind
        | Verdict::LoopMistaken
        | Verdict::LoopAbsent
        | Verdict::PodStuck
        | Verdict::KubeletDown
        | Verdict::LogStalled
        | Verdict::HostStarved => sentences.rotate_right(1),
        Verdict::FipOrphaned | Verdict::FipMissing => sentences.swap(0, 1),
        Verdict::Paused
        | Verdict::Starting
        | Verdict::Resumed
        | Verdict::Unknown
        | Verdict::EtcdUnreachable
        | Verdict::NoQuorum
        | Verdict::LeaderUnproven
        | Verdict::LeaderFlapping
        | Verdict::ManifestMissing
        | Verdict::ManifestShadowed
        | Verdict::FipDuplicated
        | Verdict::Healthy => {}
    }
}

fn etcd(observation: &Observation, facts: &Facts) -> String {
    let term = match observation.etcd.fresh() {
        Some(EtcdView::Answered(status)) if status.errors.is_empty() => {
            format!(" (term {}, revision {})", status.raft_term, status.revision)
        }
        // Alarms too: a database that is full, say, is no matter of the FIP, and must not go unsaid.
        Some(EtcdView::Answered(status)) => {
            format!(" (term {}, revision {}); it reports: {}", status.raft_term, status.revision, status.errors.join(", "))
        }
        Some(EtcdView::Unreachable(_)) | None => String::new(),
    };
    let role = match &facts.role {
        Role::Unknown(reason) => format!("etcd: {reason}"),
        Role::Unreachable(fault @ EtcdFault::Tls(_)) => format!("etcd is unreachable: {fault:?}{}", expired(observation)),
        Role::Unreachable(fault) => format!("etcd is unreachable: {fault:?}"),
        Role::NoLeader => "etcd knows of no leader".to_owned(),
        Role::Learner => "the local member is a learner".to_owned(),
        Role::ClaimsToLead => "the local member says that it leads".to_owned(),
        Role::Leads => "the local member leads, confirmed by a quorum".to_owned(),
        Role::Unproven(why) => format!("the local member says that it leads, and the quorum does not confirm: {why}"),
        Role::ClaimsToFollow => "another member leads, by the local member's word".to_owned(),
        Role::Follows => "another member leads, confirmed by a quorum".to_owned(),
        Role::CutOff(why) => format!("another member is said to lead, and the quorum does not answer: {why}"),
    };
    format!("{role}{term}")
}

fn expired(observation: &Observation) -> String {
    observation.expired.as_ref().map(Expired::clause).unwrap_or_default()
}

fn fip(observation: &Observation, facts: &Facts) -> String {
    let age = facts.holding_age.as_secs();
    let entries = observation.alias.fresh().map(|view| view.entries.as_slice()).unwrap_or_default();
    let mask = match entries.iter().find(|entry| entry.prefix_len != 32) {
        // keepalived#442: without promote_secondaries the kernel removes it together with the subnet's first address.
        Some(entry) => format!(", as a /{} and not a /32: it can go along with another address of its subnet", entry.prefix_len),
        None => String::new(),
    };
    match &facts.holding {
        Ok(Holding::Absent) => format!("the FIP has not been on this node for {age} s"),
        Ok(Holding::Held) => format!("the FIP has been on this node for {age} s, lifetime forever{mask}"),
        Ok(Holding::Leased { remaining }) => {
            format!("the FIP has been on this node for {age} s, leased by us for {} s more", remaining.as_secs())
        }
        Ok(Holding::Lent { remaining }) => {
            format!("the FIP has been on this node for {age} s, the loop's, with our lease of {} s more", remaining.as_secs())
        }
        Err(reason) => format!("the FIP: {reason}"),
    }
}

fn watched_loop(observation: &Observation, facts: &Facts, now: Moment) -> String {
    let beat = observation.heartbeat.fresh().map(|view| now.since(last_sign(view)).as_secs());
    let copies = match observation.process.fresh() {
        Some(ProcessView::Present(process)) if process.copies > 1 => format!("; {} copies of it run at once", process.copies),
        Some(ProcessView::Present(_) | ProcessView::Absent { .. }) | None => String::new(),
    };
    let beat = beat.map(|age| format!("; last sign of it {age} s ago")).unwrap_or_default() + &copies;
    match &facts.watched_loop {
        LoopState::Unknown(reason) => format!("the loop: {reason}"),
        LoopState::Alive { overdue: false } => format!("the loop finishes its rounds{beat}"),
        LoopState::Alive { overdue: true } => format!("a round of the loop is overdue{beat}"),
        LoopState::Blind { how, lasts, .. } => {
            let (lasts, how) = (lasts.as_secs(), curl::explain(how) + &expired(observation));
            format!("the loop's queries have failed in every round for {lasts} s: {how}{beat}")
        }
        LoopState::Mistaken { says_it_leads, lasts, .. } => {
            let says = if *says_it_leads { "leads" } else { "does not lead" };
            format!("the loop has said in every round for {} s that this node {says}, which is wrong{beat}", lasts.as_secs())
        }
        LoopState::Starved(how) => format!("the loop looks frozen, and the node starves: {how}"),
        LoopState::Renewed { lasts, unrecognised } => {
            let log = if *unrecognised {
                "; its log grows, but no finished round is recognised in it: the new loop's format is not known"
            } else {
                ""
            };
            format!("the manifest changed {} s ago, and the loop has not finished a round under it{log}", lasts.as_secs())
        }
        LoopState::LogStalled
            if observation.heartbeat.fresh().is_some_and(|log| grows_without_rounds(log, facts.worst_round)) =>
        {
            format!("the loop's log grows, but no finished round is recognised in it; its process works on{beat}")
        }
        LoopState::LogStalled => format!("the loop's log is frozen, its process works on{beat}"),
        LoopState::Stalled(how) => format!("the loop is stalled: {how}{copies}"),
        LoopState::Returning => format!("the loop was down, and has not finished a round since{beat}"),
        LoopState::Absent => format!("no process of the loop exists{beat}"),
    }
}
