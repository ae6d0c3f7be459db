//! Any evidence: not only what a gatherer would fill in, since a diagnosis is also made of what others shared and of what a file kept.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use fip_watchdog::diagnose::Evidence;
use fip_watchdog::diagnose::evidence::{
    Certificate, CertificateFile, Connect, Container, ContainerState, Duplicate, EtcdLog, FilterRule, Host, Interface,
    LocalStatus, LogClass, LogLine, Member, MemberId, MemberSource, Members, Metrics, Pause, Peer, PeerView, Port, Seen, Sockets,
    StatusAnswer, Tls, Unit,
};
use proptest::collection::vec;
use proptest::option::of;
use proptest::prelude::*;
use proptest::sample::select;

fn seen<T: std::fmt::Debug + Clone + 'static>(value: impl Strategy<Value = T> + 'static) -> impl Strategy<Value = Seen<T>> {
    prop_oneof![4 => value.prop_map(Seen::Yes), 1 => text().prop_map(Seen::No)]
}

/// Text with escape sequences, quotes and long runs in it.
fn text() -> BoxedStrategy<String> {
    prop_oneof![
        4 => "[a-z0-9.:/ -]{0,24}",
        1 => ".{0,40}",
        1 => Just("\x1b[2J$(reboot)\n'\"`;\u{9b}31m".to_owned()),
        1 => Just("x509: certificate signed by unknown authority ".repeat(40)),
    ]
    .boxed()
}

fn id() -> impl Strategy<Value = MemberId> {
    (0_u64..5).prop_map(MemberId)
}

fn address() -> BoxedStrategy<IpAddr> {
    prop_oneof![
        6 => (10_u8..15).prop_map(|last| IpAddr::V4(Ipv4Addr::new(192, 168, 111, last))),
        1 => Just(IpAddr::V6(Ipv6Addr::LOCALHOST)),
        1 => any::<u32>().prop_map(|bits| IpAddr::V4(Ipv4Addr::from(bits))),
    ]
    .boxed()
}

/// Ages and counts at and about the bounds.
fn number() -> BoxedStrategy<u64> {
    prop_oneof![4 => 0_u64..100_000, 1 => any::<u64>(), 1 => Just(0), 1 => Just(u64::MAX)].boxed()
}

fn connect() -> BoxedStrategy<Connect> {
    use Connect::{NoHost, NoRoute, Open, Refused, Rejected, TimedOut};
    prop_oneof![8 => select(vec![Open, Open, Refused, TimedOut, Rejected, NoHost, NoRoute]), 1 => text().prop_map(Connect::Other)]
        .boxed()
}

fn tls() -> BoxedStrategy<Tls> {
    prop_oneof![
        4 => Just(Tls::Answered),
        1 => Just(Tls::TimedOut),
        1 => text().prop_map(Tls::Untrusted),
        1 => text().prop_map(Tls::RefusedOurs),
        1 => text().prop_map(Tls::Failed)
    ]
    .boxed()
}

fn port() -> BoxedStrategy<Seen<Port>> {
    let port = (connect(), number(), of(tls()), of(any::<bool>()), of(any::<i64>())).prop_map(
        |(connect, took_us, tls, large_passes, clock_offset_ms)| Port { connect, took_us, tls, large_passes, clock_offset_ms },
    );
    seen(port).boxed()
}

fn member() -> BoxedStrategy<Member> {
    (id(), text(), of(address()), any::<u16>(), any::<u16>(), any::<bool>())
        .prop_map(|(id, name, address, peer_port, client_port, learner)| Member {
            id,
            name,
            address,
            peer_port,
            client_port,
            learner,
        })
        .boxed()
}

fn sockets() -> BoxedStrategy<Seen<Sockets>> {
    let sockets = (0_u32..4, 0_u32..4, number(), of(number()), 0_u32..2).prop_map(
        |(established, retransmitting, unacknowledged_bytes, heard_ms, syn_received)| Sockets {
            established,
            retransmitting,
            unacknowledged_bytes,
            heard_ms,
            syn_received,
        },
    );
    seen(sockets).boxed()
}

fn view() -> BoxedStrategy<PeerView> {
    (text(), number(), vec((address(), connect()), 0..4))
        .prop_map(|(node, age_ms, peer_ports)| PeerView { node, verdict: "no_quorum".to_owned(), age_ms, peer_ports })
        .boxed()
}

fn peer() -> BoxedStrategy<Peer> {
    (member(), port(), port(), sockets(), sockets(), of(number()), of(view()))
        .prop_map(|(member, peer_port, client_port, inbound, outbound, received_bytes, view)| Peer {
            member,
            peer_port,
            client_port,
            inbound,
            outbound,
            received_bytes,
            sent_bytes: received_bytes,
            view,
        })
        .boxed()
}

fn members() -> BoxedStrategy<Seen<Members>> {
    use MemberSource::{Etcd, InitialCluster, Peer, Remembered};
    let members = (select(vec![Etcd, Peer, Remembered, InitialCluster]), vec(member(), 0..6), of(id()), vec(text(), 0..2))
        .prop_map(|(source, list, own_id, unresolved)| Members { source, list, own_id, unresolved });
    seen(members).boxed()
}

fn status() -> BoxedStrategy<Seen<LocalStatus>> {
    let answer = prop_oneof![
        6 => Just(StatusAnswer::Answered),
        1 => Just(StatusAnswer::Refused),
        1 => Just(StatusAnswer::TimedOut),
        1 => text().prop_map(StatusAnswer::Tls),
        1 => text().prop_map(StatusAnswer::Other)
    ];
    let alarms = vec(select(vec!["NOSPACE".to_owned(), "CORRUPT".to_owned(), "\x1b[1mODD".to_owned()]), 0..2);
    let status = (answer, text(), id(), id(), any::<bool>(), of(any::<bool>()), alarms, number()).prop_map(
        |(answer, version, member_id, leader, learner, quorum_read, alarms, db_size)| LocalStatus {
            answer,
            version,
            member_id,
            leader,
            learner,
            quorum_read,
            alarms,
            db_size,
            took_ms: db_size,
        },
    );
    seen(status).boxed()
}

fn container() -> BoxedStrategy<Seen<Container>> {
    use ContainerState::{Absent, CrashLooping, Exited, Running};
    let container = (
        text(),
        select(vec![Running, Running, Exited, CrashLooping, Absent]),
        of(any::<u32>()),
        of(number()),
        of(any::<i32>()),
        of(select(vec!['S', 'T', 'D', '\x1b'])),
        any::<bool>(),
        any::<bool>(),
    )
        .prop_map(|(source, state, restarts, age_ms, exit_code, process_state, frozen, restarted_while_looking)| Container {
            source,
            state,
            restarts,
            age_ms,
            exit_code,
            process_state,
            frozen,
            restarted_while_looking,
            ..Container::default()
        });
    seen(container).boxed()
}

fn log() -> BoxedStrategy<Seen<EtcdLog>> {
    use LogClass::{
        CannotBind, CertificateLoad, ClientTls, ClockDrift, Corrupt, DiskFull, Election, IdMismatch, LateHeartbeats,
        MemberRemoved, NoSpace, OtherError, Panic, PeerActive, PeerClosed, PeerNoRoute, PeerRefused, PeerTimedOut, PeerTls,
        PeerUnresolved, SlowDisk, SnapshotReverted, Start,
    };
    let class = select(vec![
        PeerTimedOut,
        PeerTimedOut,
        PeerRefused,
        PeerNoRoute,
        PeerTls,
        ClientTls,
        PeerUnresolved,
        PeerClosed,
        PeerActive,
        ClockDrift,
        SlowDisk,
        LateHeartbeats,
        Election,
        Start,
        Panic,
        SnapshotReverted,
        MemberRemoved,
        IdMismatch,
        CannotBind,
        NoSpace,
        DiskFull,
        Corrupt,
        CertificateLoad,
        OtherError,
    ]);
    let line = (class, of(id()), any::<u32>(), of(number()), of(number()), text()).prop_map(
        |(class, peer, count, newest_age_ms, oldest_age_ms, example)| LogLine {
            class,
            peer,
            count,
            newest_age_ms,
            oldest_age_ms,
            example,
        },
    );
    seen(vec(line, 0..5).prop_map(|lines| EtcdLog { lines, ..EtcdLog::default() })).boxed()
}

fn certificates() -> BoxedStrategy<Seen<Vec<CertificateFile>>> {
    let flag = || of(prop_oneof![5 => Just(true), 1 => Just(false)]);
    let content = (text(), any::<i64>(), any::<i64>(), vec(text(), 0..3), flag(), flag(), flag(), any::<bool>()).prop_map(
        |(subject, not_before, not_after, names, signed_by_ca, key_matches, names_own_address, usable)| Certificate {
            subject,
            not_before,
            not_after,
            names,
            server_use: usable,
            client_use: usable,
            signed_by_ca,
            key_matches,
            names_own_address,
        },
    );
    let role = prop_oneof![6 => select(vec!["client", "server", "peer", "ca"]).prop_map(str::to_owned), 1 => text()];
    let file =
        (text(), role, seen(content)).prop_map(|(path, role, content)| CertificateFile { path: path.into(), role, content });
    seen(vec(file, 0..4)).boxed()
}

fn metrics() -> BoxedStrategy<Seen<Metrics>> {
    let figure = || of(prop_oneof![3 => 0.0..400.0, 1 => any::<f64>()]);
    let metrics = (of(any::<bool>()), figure(), figure(), of(number()), of(number())).prop_map(
        |(has_leader, fsync_ms, commit_ms, quota_bytes, db_bytes)| Metrics {
            has_leader,
            fsync_ms,
            commit_ms,
            quota_bytes,
            db_bytes,
            ..Metrics::default()
        },
    );
    seen(metrics).boxed()
}

fn interfaces() -> BoxedStrategy<Seen<Vec<Interface>>> {
    let name = prop_oneof![3 => select(vec!["lo", "eth0", "eth1"]).prop_map(str::to_owned), 1 => text()];
    let interface = (name, any::<bool>(), any::<u32>(), vec((address(), any::<u8>()), 0..3))
        .prop_map(|(name, running, mtu, addresses)| Interface { name, running, mtu, addresses });
    seen(vec(interface, 0..4)).boxed()
}

fn filters() -> BoxedStrategy<Seen<Vec<FilterRule>>> {
    let place = select(vec!["ip filter input", "inet filter output", "\x1b[0m"]).prop_map(str::to_owned);
    let rule = prop_oneof![
        select(vec!["policy drop", "tcp dport 2380 drop", "ip saddr 192.168.111.12 drop"]).prop_map(str::to_owned),
        text()
    ];
    let rule = (place, rule, of(number())).prop_map(|(place, rule, packets)| FilterRule { place, rule, packets });
    seen(vec(rule, 0..3)).boxed()
}

fn host() -> BoxedStrategy<Seen<Host>> {
    let pause = (number(), number()).prop_map(|(length_ms, age_ms)| Pause { length_ms, age_ms });
    let host = (of(0_u32..101), of(number()), of(pause), prop_oneof![5 => Just(false), 1 => Just(true)]).prop_map(
        |(cpu_pressure, etcd_disk_free, last_pause, etcd_disk_hangs)| Host {
            cpu_pressure,
            io_pressure: cpu_pressure,
            memory_pressure: None,
            etcd_disk_free,
            last_pause,
            etcd_disk_hangs,
        },
    );
    seen(host).boxed()
}

/// Anything that could have been seen.
pub fn evidence() -> impl Strategy<Value = Evidence> {
    let unit = (any::<bool>(), text()).prop_map(|(active, state)| Unit { name: state.clone(), active, state });
    let duplicate = (address(), text()).prop_map(|(address, mac)| Duplicate { address, mac });
    let etcd = (members(), status(), container(), seen(unit), log(), metrics());
    let network = (port(), port(), vec(peer(), 0..16), interfaces(), seen(vec(duplicate, 0..2)), filters());
    (text(), number(), etcd, network, certificates(), host()).prop_map(|(node, wall_ms, etcd, network, certificates, host)| {
        Evidence {
            node,
            wall_ms,
            members: etcd.0,
            status: etcd.1,
            container: etcd.2,
            kubelet: etcd.3,
            log: etcd.4,
            metrics: etcd.5,
            own_client_port: network.0,
            own_peer_port: network.1,
            peers: network.2,
            interfaces: network.3,
            duplicates: network.4,
            filters: network.5,
            certificates,
            host,
        }
    })
}

/// Which parts of the evidence are taken from the second of two.
pub fn parts() -> impl Strategy<Value = [bool; 12]> {
    any::<[bool; 12]>()
}

/// One, with the chosen parts of the other. Peers go with the member list.
pub fn mixed(one: Evidence, other: Evidence, parts: [bool; 12]) -> Evidence {
    let [members, status, container, kubelet, log, metrics, own, interfaces, duplicates, filters, certificates, host] = parts;
    Evidence {
        node: one.node,
        wall_ms: one.wall_ms,
        members: if members { other.members } else { one.members },
        peers: if members { other.peers } else { one.peers },
        status: if status { other.status } else { one.status },
        container: if container { other.container } else { one.container },
        kubelet: if kubelet { other.kubelet } else { one.kubelet },
        log: if log { other.log } else { one.log },
        metrics: if metrics { other.metrics } else { one.metrics },
        own_client_port: if own { other.own_client_port } else { one.own_client_port },
        own_peer_port: if own { other.own_peer_port } else { one.own_peer_port },
        interfaces: if interfaces { other.interfaces } else { one.interfaces },
        duplicates: if duplicates { other.duplicates } else { one.duplicates },
        filters: if filters { other.filters } else { one.filters },
        certificates: if certificates { other.certificates } else { one.certificates },
        host: if host { other.host } else { one.host },
    }
}
