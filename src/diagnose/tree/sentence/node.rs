//! Sentences about this node, and its etcd, disk and data.

use super::{etcd_here, not_the_network};
use crate::diagnose::evidence::{ContainerState, LogClass, LogLine};
use crate::diagnose::tree::sight::{Etcd, Sight};
use crate::diagnose::tree::{local, words};

/// etcd does not answer.
pub(super) fn hung(sight: &Sight<'_>) -> String {
    let container = sight.container();
    let why = match container.and_then(|container| container.process_state) {
        _ if container.is_some_and(|container| container.frozen) => "its cgroup is frozen",
        Some('T' | 't') => "its process is stopped by a signal",
        Some('D') => "its process waits for a disk",
        _ => "no answer came in time",
    };
    let pid = container.and_then(|container| container.pid).map(|pid| format!(" (pid {pid})")).unwrap_or_default();
    format!(
        "etcd on {}{pid} is there and does not answer: {why}.{} Find what stopped it before anybody restarts it.",
        sight.me(),
        not_the_network(sight)
    )
}

/// Its disk does not come back.
pub(super) fn disk_hung(sight: &Sight<'_>) -> String {
    let not_the_network = not_the_network(sight);
    format!(
        "The disk of etcd on {} does not come back: what touches its data directory hangs, so etcd hangs with it. Look at the virtual machine's disk and its datastore; restarting etcd \
         does not help.{not_the_network}",
        sight.me()
    )
}

/// It starts and ends.
pub(super) fn crash_loops(sight: &Sight<'_>) -> String {
    let times = sight.container().and_then(|container| container.restarts).filter(|times| *times > 0);
    let times = times.map(|times| format!(", {times} times so far")).unwrap_or_default();
    format!("etcd on {} starts and ends again and again{times}{}. Its log says why.", sight.me(), last_line(sight))
}

/// It is not there.
pub(super) fn down(sight: &Sight<'_>) -> String {
    let container = sight.container();
    let what = match container.map(|container| container.state) {
        Some(ContainerState::Absent) => "there is no container or process of etcd".to_owned(),
        Some(ContainerState::Exited) => {
            let code = container.and_then(|container| container.exit_code).map(|code| format!(" with exit code {code},"));
            let ago = container.and_then(|container| container.age_ms).map(|age| format!(" {} ago", words::ms(age)));
            format!("its container ended{}{}", code.unwrap_or_default(), ago.unwrap_or_default())
        }
        Some(ContainerState::Running) => "its process runs, but nothing listens on its client port".to_owned(),
        Some(ContainerState::CrashLooping) | None => "nothing listens on its client port".to_owned(),
    };
    format!(
        "etcd on {} is down: {what}{}. Look at its manifest in /etc/kubernetes/manifests and at the kubelet.{}",
        sight.me(),
        last_line(sight),
        not_the_network(sight)
    )
}

/// Nobody would start it.
pub(super) fn kubelet_down(sight: &Sight<'_>) -> String {
    let state = sight.evidence.kubelet.yes().map(|unit| words::quote(&unit.state)).filter(|state| !state.is_empty());
    let state = state.unwrap_or_else(|| "inactive".to_owned());
    if sight.down() {
        format!(
            "The kubelet on {} is not active ({state}), and etcd is down: nobody will start it. Start the kubelet, or find why it ended.",
            sight.me()
        )
    } else {
        format!(
            "The kubelet on {} is not active ({state}); {}. If etcd ends, nobody will start it again.",
            sight.me(),
            etcd_here(sight)
        )
    }
}

/// The line by which etcd ended.
fn last_line(sight: &Sight<'_>) -> String {
    let classes = [LogClass::Panic, LogClass::CertificateLoad, LogClass::CannotBind, LogClass::OtherError];
    let line = classes.into_iter().find_map(|class| sight.last_words(class)).filter(|line| !line.example.is_empty());
    line.map(|line| format!("; it says \"{}\"", words::quote(&line.example))).unwrap_or_default()
}

fn said(line: Option<&LogLine>) -> String {
    line.filter(|line| !line.example.is_empty()).map(|line| format!(" (\"{}\")", words::quote(&line.example))).unwrap_or_default()
}

/// Its data were set back.
pub(super) fn reverted(sight: &Sight<'_>) -> String {
    format!(
        "The data of etcd on {} are older than the cluster believes{}: the virtual machine, or its disk, was set back to a snapshot. This member must be removed and added anew with an \
         empty data directory; the others are not touched by it.",
        sight.me(),
        said(sight.last_words(LogClass::SnapshotReverted))
    )
}

/// Its data are corrupt.
pub(super) fn corrupt(sight: &Sight<'_>) -> String {
    let alarm = if local::alarm(sight, "CORRUPT") { "; the alarm CORRUPT is raised" } else { "" };
    format!(
        "The data of etcd are corrupt as seen from {}{}{alarm}; {}. Stop writing, and restore this member from a healthy one (remove and add it) or from a backup.",
        sight.me(),
        said(sight.last_words(LogClass::Corrupt)),
        etcd_here(sight)
    )
}

/// Another cluster's data.
pub(super) fn id_mismatch(sight: &Sight<'_>) -> String {
    format!(
        "etcd on {} does not belong to the cluster that it calls{}: a cluster or member id does not match, so its data directory is another cluster's or another member's; {}. Compare the \
         member list with this node's data directory.",
        sight.me(),
        said(local::id_mismatch(sight)),
        etcd_here(sight)
    )
}

/// No member any more.
pub(super) fn removed(sight: &Sight<'_>) -> String {
    format!(
        "The member on {} was removed from the cluster{}: the others go on without it, and it will not come back by itself; {}. Add it anew with an empty data directory.",
        sight.me(),
        said(sight.last_words(LogClass::MemberRemoved)),
        etcd_here(sight)
    )
}

/// Another address than the cluster knows.
pub(super) fn address_changed(sight: &Sight<'_>) -> String {
    let listed = sight.address().map_or_else(|| "its address".to_owned(), |address| address.to_string());
    let interfaces = sight.evidence.interfaces.yes().into_iter().flatten().filter(|interface| interface.name != "lo");
    let on = |name: &str, address: std::net::IpAddr| format!("{address} on {}", words::quote(name));
    let held: Vec<String> =
        interfaces.flat_map(|interface| interface.addresses.iter().map(|(address, _)| on(&interface.name, *address))).collect();
    let held = if held.is_empty() { String::new() } else { format!("; it has {}", words::list(&held)) };
    format!(
        "{} no longer has the address that the cluster knows it by, {listed}{held}{}: the peers go on calling the old one; {}. Give the node its address back, or update the member's peer \
         URL.",
        sight.node,
        said(sight.last_words(LogClass::CannotBind)),
        etcd_here(sight)
    )
}

/// The file system is full.
pub(super) fn disk_full(sight: &Sight<'_>) -> String {
    let left = sight.evidence.host.yes().and_then(|host| host.etcd_disk_free);
    let left = left.map(|left| format!(", {} MiB are left", left >> 20)).unwrap_or_default();
    format!(
        "etcd on {} ended because its file system is full{left}{}. Make room there (/var/lib/etcd); the kubelet starts it again by itself.",
        sight.me(),
        said(sight.last_words(LogClass::DiskFull))
    )
}

/// The database is full.
pub(super) fn no_space(sight: &Sight<'_>) -> String {
    let metrics = sight.evidence.metrics.yes();
    let size = sight
        .evidence
        .status
        .yes()
        .map(|status| status.db_size)
        .filter(|size| *size > 0)
        .or_else(|| metrics.and_then(|m| m.db_bytes));
    let how = match (size, metrics.and_then(|metrics| metrics.quota_bytes)) {
        (Some(size), Some(quota)) => format!(" ({} of {} MiB)", size >> 20, quota >> 20),
        (Some(size), None) => format!(" ({} MiB)", size >> 20),
        (None, _) => String::new(),
    };
    format!(
        "The database of etcd is full{how}, as seen from {}: writes fail on every member, reads and leadership do not; {}. Compact, defragment and disarm the alarm (`etcdctl alarm disarm`); \
         neither the network nor this node is at fault.",
        sight.me(),
        etcd_here(sight)
    )
}

/// A slow disk.
pub(super) fn slow_disk(sight: &Sight<'_>) -> String {
    let figure = |value: Option<f64>, what: &str| value.map(|value| format!("{what} takes {value:.0} ms on average"));
    let metrics = sight.evidence.metrics.yes();
    let figures = [metrics.and_then(|m| figure(m.fsync_ms, "an fsync")), metrics.and_then(|m| figure(m.commit_ms, "a commit"))];
    let figures: Vec<String> = figures.into_iter().flatten().collect();
    let figures = if figures.is_empty() {
        "its log complains of it".to_owned()
    } else {
        format!("{} (good: under 10 ms)", words::list(&figures))
    };
    format!(
        "The disk of etcd on {} is slow: {figures}{}, so heartbeats go out late; {}. Look at the datastore and at what else writes on it.{}",
        sight.me(),
        said(local::slow_by_log(sight)),
        etcd_here(sight),
        not_the_network(sight)
    )
}

/// The node stood still.
pub(super) fn paused(sight: &Sight<'_>) -> String {
    let pause = local::paused(sight).unwrap_or_default();
    format!(
        "{} stood still for {} until {} ago (stunned, suspended or migrated), so its peers took it for dead; {}. It heals by itself; look at snapshots, backups and migrations of this virtual \
         machine.",
        sight.me(),
        words::ms(pause.length_ms),
        words::ms(pause.age_ms),
        etcd_here(sight)
    )
}

/// Too little CPU.
pub(super) fn starved(sight: &Sight<'_>) -> String {
    let pressure = sight.evidence.host.yes().and_then(|host| host.cpu_pressure).unwrap_or(0);
    let so = if sight.etcd == Etcd::Silent { "etcd does not answer in time" } else { "etcd cannot keep its leadership" };
    format!(
        "{} is starved: some task waits for a CPU {pressure} % of the time, so {so}; {}. Find what eats the CPU, here or on the hypervisor.",
        sight.me(),
        etcd_here(sight)
    )
}
