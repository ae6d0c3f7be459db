//! Predicates of the table about this node and its etcd.

use super::reach::Reach;
use super::sight::{Etcd, Quorum, Sight};
use crate::diagnose::evidence::{LogClass, LogLine, MemberSource, Pause};

/// A mean fsync above this is a slow disk, in milliseconds: etcd's own heartbeat interval.
pub(super) const FSYNC_MS_MAX: f64 = 100.0;

/// A mean commit above this is, likewise: etcd documents 25 ms as a good 99th percentile.
pub(super) const COMMIT_MS_MAX: f64 = 250.0;

/// A task waits for a CPU in this percentage of the time: ages and silences mean nothing.
pub(super) const CPU_PRESSURE_MAX: u32 = 95;

/// Clocks that are so far apart are wrong, in milliseconds; etcd's prober warns at 1 s, a `Date` header has a resolution of 1 s.
pub(super) const CLOCK_MS_MAX: u64 = 10_000;

/// A pause of the node explains an election for this long after, in milliseconds.
const PAUSE_FRESH_MS: u64 = 30_000;

/// A pause that costs the leadership, in milliseconds: etcd's election time-out.
const PAUSE_MS_MIN: u64 = 1_000;

/// Less free space than this cannot take a segment of etcd's write-ahead log (64 MB, allocated at once), in bytes.
const DISK_FREE_MIN: u64 = 64_000_000;

/// Lines about elections that make the leadership flap: a plain change of the leader writes two or three.
const ELECTION_LINES: u32 = 8;

/// This node's address among the members is no longer its own.
pub(super) fn address_changed(sight: &Sight<'_>) -> bool {
    let cannot_bind = || sight.last_words(LogClass::CannotBind).is_some_and(|line| line.example.contains("cannot assign"));
    sight.address_gone().is_some() || cannot_bind()
}

/// This member was taken out of the cluster: its log says so, or the list of another member lacks it.
pub(super) fn member_removed(sight: &Sight<'_>) -> bool {
    let by_list = sight.evidence.members.yes().is_some_and(|members| {
        let known = members.own_id.is_some_and(|own| own.0 != 0);
        members.source == MemberSource::Peer && known && sight.own.is_none() && !members.list.is_empty()
    });
    by_list || sight.last_words(LogClass::MemberRemoved).is_some()
}

/// A cluster or member id does not match, and the member is not working.
pub(super) fn id_mismatch<'a>(sight: &Sight<'a>) -> Option<&'a LogLine> {
    let line = sight.recent(LogClass::IdMismatch).filter(|_| sight.quorum != Quorum::Yes);
    line.or_else(|| sight.last_words(LogClass::IdMismatch))
}

/// The kubelet is not active.
pub(super) fn kubelet_down(sight: &Sight<'_>) -> bool {
    sight.evidence.kubelet.yes().is_some_and(|unit| !unit.active)
}

/// etcd ended, and its file system is full, by its last words or by what is left.
pub(super) fn disk_full(sight: &Sight<'_>) -> bool {
    let left = sight.evidence.host.yes().and_then(|host| host.etcd_disk_free);
    let ended = sight.down() || sight.crash_loops();
    sight.last_words(LogClass::DiskFull).is_some() || (ended && left.is_some_and(|left| left < DISK_FREE_MIN))
}

/// The local member names this alarm.
pub(super) fn alarm(sight: &Sight<'_>, name: &str) -> bool {
    sight.evidence.status.yes().is_some_and(|status| status.alarms.iter().any(|alarm| alarm.eq_ignore_ascii_case(name)))
}

/// The local member has no vote.
pub(super) fn learner(sight: &Sight<'_>) -> bool {
    sight.evidence.status.yes().is_some_and(|status| status.learner) || sight.own.is_some_and(|own| own.learner)
}

/// By its metrics; by its log only where the leadership suffers, since a loaded node writes such lines in health too.
pub(super) fn slow_disk(sight: &Sight<'_>) -> bool {
    slow_by_metrics(sight) || ((sight.quorum == Quorum::No || flaps(sight)) && slow_by_log(sight).is_some())
}

/// By its metrics.
pub(super) fn slow_by_metrics(sight: &Sight<'_>) -> bool {
    let above = |value: Option<f64>, max: f64| value.is_some_and(|value| value > max);
    sight
        .evidence
        .metrics
        .yes()
        .is_some_and(|metrics| above(metrics.fsync_ms, FSYNC_MS_MAX) || above(metrics.commit_ms, COMMIT_MS_MAX))
}

/// By its log. Late heartbeats alone are laid on the disk by etcd whatever held them up: a peer that was cut off, too. Then the figures decide.
pub(super) fn slow_by_log<'a>(sight: &Sight<'a>) -> Option<&'a LogLine> {
    let measured = sight.evidence.metrics.yes().is_some_and(|metrics| metrics.fsync_ms.is_some() && metrics.commit_ms.is_some());
    let late = || sight.recent(LogClass::LateHeartbeats).filter(|_| !measured || slow_by_metrics(sight));
    sight.recent(LogClass::SlowDisk).or_else(late)
}

/// Hard-pressed, and it shows.
pub(super) fn starves(sight: &Sight<'_>) -> bool {
    starved(sight) && (sight.etcd == Etcd::Silent || sight.quorum == Quorum::No || flaps(sight))
}

/// Hard-pressed.
pub(super) fn starved(sight: &Sight<'_>) -> bool {
    sight.evidence.host.yes().is_some_and(|host| host.cpu_pressure.is_some_and(|pressure| pressure >= CPU_PRESSURE_MAX))
}

/// It stood still a moment ago.
pub(super) fn paused(sight: &Sight<'_>) -> Option<Pause> {
    let pause = sight.evidence.host.yes()?.last_pause?;
    (pause.age_ms <= PAUSE_FRESH_MS && pause.length_ms >= PAUSE_MS_MIN).then_some(pause)
}

/// The leadership changes again and again.
pub(super) fn flaps(sight: &Sight<'_>) -> bool {
    sight.quorum == Quorum::Yes && sight.recent(LogClass::Election).is_some_and(|line| line.count >= ELECTION_LINES)
}

/// The peer, or this node, whose clock is apart, and by how much.
pub(super) fn clock_apart<'a, 'e>(sight: &'a Sight<'e>) -> Option<(&'a Reach<'e>, i64)> {
    let apart = sight.reaches.iter().filter_map(|reach| Some((reach, reach.clock_offset_ms()?)));
    apart.filter(|(_, offset)| offset.unsigned_abs() >= CLOCK_MS_MAX).max_by_key(|(_, offset)| offset.unsigned_abs())
}
