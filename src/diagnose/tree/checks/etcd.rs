//! Lines about etcd itself.

use super::{line, unseen};
use crate::diagnose::diagnosis::{Check, Mark};
use crate::diagnose::evidence::{Connect, ContainerState, LogClass, LogLine, MemberSource, Port, Seen};
use crate::diagnose::tree::reach::Kind;
use crate::diagnose::tree::sight::{Etcd, Quorum, Sight, is_recent};
use crate::diagnose::tree::{local, words};

const CRICTL_PS: &str = "crictl ps -a --name etcd";
const CRICTL_LOGS: &str = "crictl logs --tail 100 $(crictl ps -aq --name etcd | head -1)";
const ETCDCTL_MEMBERS: &str = "etcdctl member list -w table";
const ETCDCTL_STATUS: &str = "etcdctl endpoint status -w table";

/// A share of the quota from which on somebody should look, in hundredths.
const QUOTA_WARN: u64 = 80;

/// How many members there should be, and how many answer.
pub(super) fn members(sight: &Sight<'_>) -> Check {
    let members = match &sight.evidence.members {
        Seen::Yes(members) => members,
        Seen::No(why) => return unseen("members", why, ETCDCTL_MEMBERS),
    };
    let source = match members.source {
        MemberSource::Etcd => "etcd's own list",
        MemberSource::Peer => "a peer's list",
        MemberSource::Remembered => "the list kept from before",
        MemberSource::InitialCluster => "etcd's manifest",
    };
    let silent =
        |kind: Kind| matches!(kind, Kind::Cut | Kind::OutFails | Kind::PeerPort | Kind::Down | Kind::HostDown | Kind::Hung);
    let reached = sight.reaches.iter().filter(|reach| !silent(reach.kind) && reach.kind != Kind::Unseen).count();
    let learners = members.list.iter().filter(|member| member.learner).count();
    let counted = if learners > 0 { format!(", {} without a vote", words::count(learners, "learner")) } else { String::new() };
    let seen = format!(
        "{} by {source}{counted}; {reached} of {} answer",
        words::count(members.list.len(), "member"),
        words::count(sight.reaches.len(), "peer")
    );
    if local::member_removed(sight) {
        return line("members", Mark::Bad, seen, "this node's member is not among them: it was removed", ETCDCTL_MEMBERS);
    }
    if !members.unresolved.is_empty() {
        let names: Vec<String> = members.unresolved.iter().map(|name| words::quote(name)).collect();
        return line(
            "members",
            Mark::Bad,
            format!("{seen}; {} does not resolve", words::list(&names)),
            "they cannot be called",
            "resolvectl status",
        );
    }
    match sight.voters() {
        Some(0) => line("members", Mark::Unseen, seen, "a list without a voter says nothing", ETCDCTL_MEMBERS),
        Some(2) => line(
            "members",
            Mark::Warn,
            seen,
            "two members cannot lose one; if there should be three, one is missing",
            ETCDCTL_MEMBERS,
        ),
        Some(voters) => line("members", Mark::Good, seen, format!("a quorum is {}", voters / 2 + 1), ETCDCTL_MEMBERS),
        None => unseen("members", "there is no list", ETCDCTL_MEMBERS),
    }
}

/// etcd's container or process.
pub(super) fn container(sight: &Sight<'_>) -> Check {
    let container = match &sight.evidence.container {
        Seen::Yes(container) => container,
        Seen::No(why) => return unseen("etcd_container", why, CRICTL_PS),
    };
    let age = container.age_ms.map(|age| format!(" for {}", words::ms(age))).unwrap_or_default();
    let ended = container.age_ms.map(|age| format!(" {} ago", words::ms(age))).unwrap_or_default();
    let restarts =
        container.restarts.filter(|restarts| *restarts > 0).map(|restarts| format!(", restarted {}", words::times(restarts)));
    let restarts = restarts.unwrap_or_default();
    let pid = container.pid.map(|pid| format!(", pid {pid}")).unwrap_or_default();
    let state = match container.state {
        ContainerState::Running => format!("running{age}{pid}{restarts}"),
        ContainerState::Exited => {
            format!(
                "ended{ended}{}{restarts}",
                container.exit_code.map(|code| format!(" with exit code {code}")).unwrap_or_default()
            )
        }
        ContainerState::CrashLooping => format!("starts and ends again and again{restarts}"),
        ContainerState::Absent => "there is none".to_owned(),
    };
    let seen = format!("{state} (by {})", words::quote(&container.source));
    if sight.frozen() {
        let why = if container.frozen { "its cgroup is frozen" } else { "its process is stopped by a signal" };
        return line("etcd_container", Mark::Bad, seen, why, "ps -o pid,stat,wchan:30,cmd -C etcd");
    }
    if sight.crash_loops() {
        return line("etcd_container", Mark::Bad, seen, "it does not stay up: its log says why", CRICTL_LOGS);
    }
    match container.state {
        ContainerState::Running => line("etcd_container", Mark::Good, seen, "it runs and stays up", CRICTL_PS),
        // What listens is stronger than what a runtime lists.
        _ if !sight.down() => line("etcd_container", Mark::Unseen, seen, "but etcd listens: it runs in another way", CRICTL_PS),
        ContainerState::Exited | ContainerState::CrashLooping | ContainerState::Absent => {
            line("etcd_container", Mark::Bad, seen, "etcd is down", CRICTL_PS)
        }
    }
}

/// What etcd's own log says.
pub(super) fn log(sight: &Sight<'_>) -> Check {
    let log = match &sight.evidence.log {
        Seen::Yes(log) => log,
        Seen::No(why) => return unseen("etcd_log", why, CRICTL_LOGS),
    };
    let ended = sight.down() || sight.crash_loops();
    let counts = |line: &&LogLine| !matches!(line.class, LogClass::PeerActive | LogClass::Start) && (ended || is_recent(line));
    let found: Vec<&LogLine> = log.lines.iter().filter(counts).collect();
    let said: Vec<String> = found.iter().map(|line| one(line)).collect();
    if said.is_empty() {
        return line("etcd_log", Mark::Good, "nothing worth a word in the last minute", "", CRICTL_LOGS);
    }
    // A loaded or a just recovered etcd complains too: only beside a fault is it part of it.
    let sound = sight.etcd == Etcd::Answers && sight.quorum == Quorum::Yes;
    let mark = if sound || sight.etcd == Etcd::Unseen { Mark::Warn } else { Mark::Bad };
    let example = found.first().map(|line| words::quote(&line.example)).unwrap_or_default();
    line("etcd_log", mark, words::list(&said), example, CRICTL_LOGS)
}

fn one(line: &LogLine) -> String {
    let what = match line.class {
        LogClass::PeerTimedOut => "a peer times out",
        LogClass::PeerRefused => "a peer refuses",
        LogClass::PeerNoRoute => "no route to a peer",
        LogClass::PeerTls => "TLS with a peer fails",
        LogClass::PeerUnresolved => "a peer's name does not resolve",
        LogClass::PeerClosed => "a peer ended the connection",
        LogClass::ClientTls => "TLS with a client here fails",
        LogClass::DiskFull => "the file system is full",
        LogClass::PeerActive => "a peer became active",
        LogClass::ClockDrift => "a peer's clock is apart",
        LogClass::SlowDisk => "the disk is slow",
        LogClass::LateHeartbeats => "heartbeats were late",
        LogClass::Election => "elections",
        LogClass::Start => "starts",
        LogClass::Panic => "a panic",
        LogClass::SnapshotReverted => "the data are older than the cluster believes",
        LogClass::MemberRemoved => "this member was removed",
        LogClass::IdMismatch => "a cluster or member id does not match",
        LogClass::CannotBind => "an address cannot be bound",
        LogClass::NoSpace => "the database is full",
        LogClass::Corrupt => "the data are corrupt",
        LogClass::CertificateLoad => "a certificate cannot be loaded",
        LogClass::OtherError => "other errors",
    };
    let peer = line.peer.map(|peer| format!(" ({peer})")).unwrap_or_default();
    let age = line.newest_age_ms.map(|age| format!(", last {} ago", words::ms(age))).unwrap_or_default();
    format!("{what}{peer} {}{age}", words::times(line.count))
}

/// Own 2379 and 2380.
pub(super) fn own_ports(sight: &Sight<'_>) -> Vec<Check> {
    let (raft, client) = sight.own.map_or((2380, 2379), |own| (own.peer_port, own.client_port));
    vec![
        own_port(sight, "own_client_port", client, &sight.evidence.own_client_port),
        own_port(sight, "own_peer_port", raft, &sight.evidence.own_peer_port),
    ]
}

fn own_port(sight: &Sight<'_>, name: &str, number: u16, port: &Seen<Port>) -> Check {
    let address = sight.address().unwrap_or(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST));
    let by_hand = format!("curl -vk --connect-timeout 3 https://{}", words::socket(address, number));
    match port {
        Seen::No(why) => unseen(name, why, by_hand),
        Seen::Yes(port) if port.connect == Connect::Open => {
            line(name, Mark::Good, format!("{number} opens"), "etcd listens", by_hand)
        }
        Seen::Yes(port) if sight.etcd == Etcd::Answers => {
            let seen = format!("{number}: {}", words::shows(&port.connect));
            line(
                name,
                Mark::Warn,
                seen,
                "etcd answers, but not here: it listens on another address, or a filter is between",
                by_hand,
            )
        }
        Seen::Yes(port) => {
            line(name, Mark::Bad, format!("{number}: {}", words::shows(&port.connect)), "etcd does not listen here", by_hand)
        }
    }
}

/// What the local member says of itself.
pub(super) fn status(sight: &Sight<'_>) -> Check {
    let status = match &sight.evidence.status {
        Seen::Yes(status) => status,
        Seen::No(why) => {
            let (mark, means) = match sight.quorum {
                Quorum::Yes => (Mark::Unseen, "its metrics say that it has a leader"),
                Quorum::No => (Mark::Bad, "its metrics say that it has no leader"),
                Quorum::Unseen => (Mark::Unseen, ""),
            };
            return line("etcd_status", mark, format!("not seen: {why}"), means, ETCDCTL_STATUS);
        }
    };
    let (mark, seen, means) = match (sight.etcd, sight.quorum) {
        (Etcd::Answers, quorum) => {
            let role = if status.learner {
                "a learner".to_owned()
            } else if status.leader.0 == 0 {
                "no leader".to_owned()
            } else if status.leader == status.member_id {
                "leads".to_owned()
            } else {
                format!("follows {}", status.leader)
            };
            let seen = format!("answers in {}, etcd {}, {role}", words::ms(status.took_ms), words::quote(&status.version));
            match quorum {
                _ if local::learner(sight) => (Mark::Bad, seen, "it has no vote: it cannot lead and confirms nothing"),
                Quorum::Yes if status.quorum_read == Some(true) => (Mark::Good, seen, "a quorum confirms it"),
                Quorum::Yes => (Mark::Good, seen, "a leader is known; a quorum was not asked"),
                Quorum::No | Quorum::Unseen => (Mark::Bad, seen, "no quorum stands behind it"),
            }
        }
        (Etcd::Refuses, _) => (Mark::Bad, "connection refused".to_owned(), "nothing listens"),
        (Etcd::Waits, _) => (
            Mark::Bad,
            "it serves its peers and no client yet".to_owned(),
            "since its last start it has had no quorum; the process is well",
        ),
        (Etcd::Silent, _) if sight.own_client_filtered() => {
            (Mark::Bad, "no answer in time".to_owned(), "a packet filter of this node stands before it")
        }
        (Etcd::Silent, _) => (Mark::Bad, "no answer in time".to_owned(), "the process or its disk hangs"),
        (Etcd::Tls(text), _) => (Mark::Bad, format!("TLS fails: {}", words::quote(text)), "a certificate is at fault"),
        (Etcd::Fails(text), _) => (Mark::Bad, words::quote(text), ""),
        (Etcd::Unseen, _) => (Mark::Unseen, "not seen".to_owned(), ""),
    };
    line("etcd_status", mark, seen, means, ETCDCTL_STATUS)
}

/// Alarms and the quota.
pub(super) fn space(sight: &Sight<'_>) -> Check {
    let Some(status) = sight.evidence.status.yes().filter(|_| sight.etcd == Etcd::Answers) else {
        return unseen("alarms", "the local member did not answer", "etcdctl alarm list");
    };
    if !status.alarms.is_empty() {
        let alarms: Vec<String> = status.alarms.iter().map(|alarm| words::quote(alarm)).collect();
        return line("alarms", Mark::Bad, words::list(&alarms), "writes fail until the alarm is disarmed", "etcdctl alarm list");
    }
    let metrics = sight.evidence.metrics.yes();
    let quota = metrics.and_then(|metrics| metrics.quota_bytes).filter(|quota| *quota > 0);
    match quota {
        Some(quota) => {
            let share = status.db_size.saturating_mul(100) / quota;
            let seen = format!("none; the database has {} of {} MiB ({share} %)", status.db_size >> 20, quota >> 20);
            let (mark, means) = if share >= QUOTA_WARN {
                (Mark::Warn, "at its quota writes fail: compact and defragment")
            } else {
                (Mark::Good, "")
            };
            line("alarms", mark, seen, means, ETCDCTL_STATUS)
        }
        None => line("alarms", Mark::Good, format!("none; the database has {} MiB", status.db_size >> 20), "", ETCDCTL_STATUS),
    }
}

/// How fast its disk is.
pub(super) fn disk(sight: &Sight<'_>) -> Check {
    const BY_HAND: &str = "cat /proc/pressure/io; df -h /var/lib/etcd";
    if sight.disk_hangs() {
        return line(
            "etcd_disk",
            Mark::Bad,
            "a look at etcd's data directory does not come back",
            "the disk or its datastore hangs",
            "journalctl -k -n 100",
        );
    }
    let metrics = match &sight.evidence.metrics {
        Seen::Yes(metrics) => metrics,
        Seen::No(why) if local::slow_disk(sight) => {
            return line("etcd_disk", Mark::Bad, format!("its log complains; metrics not seen: {why}"), "", BY_HAND);
        }
        Seen::No(why) => return unseen("etcd_disk", why, BY_HAND),
    };
    let figure = |value: Option<f64>, what: &str| value.map(|value| format!("{what} {value:.1} ms"));
    let figures: Vec<String> =
        [figure(metrics.fsync_ms, "fsync"), figure(metrics.commit_ms, "commit")].into_iter().flatten().collect();
    if figures.is_empty() {
        return unseen("etcd_disk", "the metrics do not say", BY_HAND);
    }
    let seen = format!("{} on average", words::list(&figures));
    if local::slow_disk(sight) {
        line("etcd_disk", Mark::Bad, seen, "slower than etcd's heartbeat: leaders are lost", BY_HAND)
    } else if local::slow_by_log(sight).is_some() {
        line("etcd_disk", Mark::Warn, seen, "its log complains of a slow disk", BY_HAND)
    } else {
        line("etcd_disk", Mark::Good, seen, "", BY_HAND)
    }
}
