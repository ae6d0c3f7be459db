//! The same over a wire of the test's own: what a filter, a missing host, a missing route or a black hole for large packets looks like.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use fip_watchdog::diagnose::evidence::{Connect, Port, Tls};
use fip_watchdog::diagnose::{connections, try_port};
use fip_watchdog::runtime::clock;

use crate::segment::{NEIGHBOUR, NODE, Segment, eventually, run};
use crate::stand_in::{Authority, Files, Server, VERSIONS};

const PEER: &str = "192.168.111.202:2380";

/// A rule for what comes in from the wire, at the neighbour or at the node.
fn filter(namespace: &str, rule: &str) {
    let table =
        format!("add table inet t; add chain inet t in {{ type filter hook input priority 0; }}; add rule inet t in {rule}");
    run("ip", &["netns", "exec", namespace, "nft", &table]);
}

/// A member's stand-in at the neighbour, and what a diagnosis at the node makes of its port.
async fn seen(segment: &Segment) -> Port {
    let ca = Authority::new();
    let files = Files::new(&ca, &ca.issue(|_| ()));
    Server::new(&ca, &ca.issue(|_| ()), VERSIONS[0]).serve(listening(segment, NEIGHBOUR));
    try_port(&files.policy(), PEER.parse().unwrap()).await
}

/// A socket stays in the namespace that it was made in, whoever accepts on it.
fn listening(segment: &Segment, address: &str) -> tokio::net::TcpListener {
    let mut bound = None;
    segment.neighbour_speaks(async || bound = Some(std::net::TcpListener::bind((address, 2380)).unwrap()));
    let listener = bound.unwrap();
    listener.set_nonblocking(true).unwrap();
    tokio::net::TcpListener::from_std(listener).unwrap()
}

/// How connecting to an address ends, and how long it takes.
async fn connect(address: &str) -> (Connect, Duration) {
    let ca = Authority::new();
    let files = Files::new(&ca, &ca.issue(|_| ()));
    let port = try_port(&files.policy(), address.parse().unwrap()).await;
    assert_eq!((&port.tls, port.large_passes), (&None, None), "{port:?}");
    (port.connect, Duration::from_micros(port.took_us))
}

#[test]
fn a_sound_link_passes_everything() {
    Segment::new().inside(async |segment| {
        let port = seen(segment).await;
        assert_eq!((port.connect, port.tls, port.large_passes), (Connect::Open, Some(Tls::Answered), Some(true)));
    });
}

#[test]
fn dropped_rejected_and_refused_are_told_apart() {
    for (rule, expected) in [
        ("tcp dport 2380 drop", Connect::TimedOut),
        ("tcp dport 2380 reject with icmpx type admin-prohibited", Connect::Rejected),
        ("tcp dport 2380 reject with tcp reset", Connect::Refused),
        ("tcp dport 1 drop", Connect::Refused),
    ] {
        Segment::new().inside(async |segment| {
            filter(&segment.neighbour, rule);
            let begun = clock::now();
            assert_eq!(connect(PEER).await.0, expected, "{rule}");
            assert!(clock::now().since(begun) < Duration::from_millis(4400), "{rule}");
        });
    }
}

#[test]
fn answers_that_are_dropped_on_their_way_back_time_out_too() {
    Segment::new().inside(async |segment| {
        filter(&segment.node, "tcp sport 2380 drop");
        assert_eq!(seen(segment).await.connect, Connect::TimedOut);
    });
}

#[test]
fn nobody_at_the_address_is_told_from_a_filter_whenever_the_search_began() {
    Segment::new().inside(async |segment| {
        let (first, second) = tokio::join!(connect("192.168.111.250:2380"), async {
            // Somebody else's search is under way already: this one ends with that, early.
            let searching = async || segment.on_node(&["neigh", "show", "to", "192.168.111.250"]);
            eventually("a search", searching, |entry| entry.contains("INCOMPLETE")).await;
            connect("192.168.111.250:2379").await
        });
        assert_eq!((first.0, second.0), (Connect::NoHost, Connect::NoHost));
    });
}

#[test]
fn without_a_route_or_a_link_it_fails_at_once() {
    Segment::new().inside(async |segment| {
        assert_eq!(connect("203.0.113.1:2380").await.0, Connect::NoRoute);
        segment.on_node(&["link", "set", "eth0", "down"]);
        let (down, took) = connect(PEER).await;
        assert_eq!(down, Connect::NoRoute);
        assert!(took < Duration::from_secs(1), "{took:?}");
    });
}

#[test]
fn a_black_hole_for_large_packets_is_told_in_either_direction_also_when_the_handshake_falls_in() {
    // The stand-in's handshake has packets of 900 bytes at most; its answers to large questions are full.
    for (cut, at_node, bytes) in
        [(true, true, 1200), (true, false, 1200), (true, true, 650), (false, true, 1400), (false, false, 1400)]
    {
        Segment::new().inside(async |segment| {
            if cut {
                for namespace in [&segment.node, &segment.neighbour] {
                    // One packet a segment, as on a wire. Else the filter sees several in one, as a virtual switch does.
                    run("ip", &["-n", namespace, "link", "set", "eth0", "gso_max_segs", "1"]);
                }
            }
            let namespace = if at_node { &segment.node } else { &segment.neighbour };
            filter(namespace, &format!("meta length > {bytes} drop"));
            let port = seen(segment).await;
            let told = (&port.connect, &port.tls, port.large_passes);
            assert_eq!(told, (&Connect::Open, &Some(Tls::Answered), Some(false)), "{cut} {at_node} {bytes}: {port:?}");
            assert!(port.clock_offset_ms.is_some());
        });
    }
}

#[test]
fn connections_show_who_calls_whom_and_whether_they_live() {
    Segment::new().inside(async |segment| {
        let peer: IpAddr = NEIGHBOUR.parse().unwrap();
        let ours = tokio::net::TcpListener::bind((NODE, 2380)).await.unwrap();
        let mut called = None;
        segment.neighbour_speaks(async || called = Some(std::net::TcpStream::connect((NODE, 2380)).unwrap()));
        let (_stream, _) = ours.accept().await.unwrap();
        let theirs = listening(segment, NEIGHBOUR);
        let calling = tokio::net::TcpStream::connect(PEER.parse::<SocketAddr>().unwrap()).await.unwrap();
        let (inbound, outbound) = connections(peer, 2380, 2380).await.unwrap();
        assert_eq!((inbound.established, inbound.syn_received, outbound.established, outbound.retransmitting), (1, 0, 1, 0));
        assert!(inbound.heard_ms.is_none_or(|age| age < 60_000), "{inbound:?}");

        // From here on nothing comes in: what is sent is not acknowledged.
        filter(&segment.node, "iifname eth0 drop");
        assert!(calling.try_write(b"hello").is_ok_and(|bytes| bytes == 5));
        let ask = async || connections(peer, 2380, 2380).await.unwrap().1;
        let dead = eventually("a retransmit", ask, |outbound| outbound.retransmitting == 1).await;
        assert_eq!((dead.established, dead.unacknowledged_bytes), (1, 5));
        let silent = |age: u64| age >= 100;
        eventually("silence", ask, |outbound| outbound.heard_ms.is_none_or(silent)).await;
        drop((called, theirs));
    });
}

#[test]
fn a_caller_whom_our_answers_do_not_reach_is_half_open() {
    Segment::new().inside(async |segment| {
        let peer: IpAddr = NEIGHBOUR.parse().unwrap();
        let _ours = tokio::net::TcpListener::bind((NODE, 2380)).await.unwrap();
        filter(&segment.neighbour, "tcp sport 2380 drop");
        let mut calling = None;
        segment.neighbour_speaks(async || {
            let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
            socket.set_nonblocking(true).unwrap();
            socket.connect(&SocketAddr::new(NODE.parse().unwrap(), 2380).into()).unwrap_err();
            calling = Some(socket);
        });
        let ask = async || connections(peer, 2380, 2380).await.unwrap().0;
        let half = eventually("a half open connection", ask, |inbound| inbound.syn_received == 1).await;
        assert_eq!((half.established, half.heard_ms), (0, None));
        drop(calling);
    });
}
