//! Lines about each peer: both of its ports apart, what comes in from it, TLS and size.

use super::{line, unseen};
use crate::diagnose::diagnosis::{Check, Mark};
use crate::diagnose::evidence::{Connect, Port, Seen, Tls};
use crate::diagnose::tree::reach::{Inbound, Kind, Reach};
use crate::diagnose::tree::sight::Sight;
use crate::diagnose::tree::words;

/// All lines of a peer.
pub(super) fn lines(sight: &Sight<'_>, reach: &Reach<'_>) -> Vec<Check> {
    let member = &reach.peer.member;
    let name = words::name(&member.name, member.address);
    let call = |port: u16| {
        member
            .address
            .map_or_else(String::new, |address| format!("curl -vk --connect-timeout 3 https://{}", words::socket(address, port)))
    };
    let mut checks = vec![
        port(format!("peer_port {name}"), member.peer_port, &reach.peer.peer_port, call(member.peer_port)),
        port(format!("client_port {name}"), member.client_port, &reach.peer.client_port, call(member.client_port)),
        inbound(sight, reach, &name),
    ];
    checks.extend(tls(reach, &name));
    checks.extend(view(reach, &name));
    checks
}

fn port(name: String, number: u16, port: &Seen<Port>, by_hand: String) -> Check {
    let port = match port {
        Seen::Yes(port) => port,
        Seen::No(why) => return unseen(name, why, by_hand),
    };
    let seen = match port.connect {
        Connect::Open => format!("{number} opens in {:.1} ms", port.took_us as f64 / 1000.0),
        Connect::Refused | Connect::TimedOut | Connect::Rejected | Connect::NoHost | Connect::NoRoute | Connect::Other(_) => {
            format!("{number}: {}", words::shows(&port.connect))
        }
    };
    let means = match port.connect {
        Connect::Open => "calls from here pass",
        Connect::Refused => "the host is there, and nothing listens (or a filter answers with a reset)",
        Connect::TimedOut => "SYNs or their answers are dropped on the way, by a firewall or a cut link",
        Connect::Rejected => "a firewall on the way says no",
        Connect::NoHost => "the virtual machine is off or cut off from this segment",
        Connect::NoRoute => "this node has no way there: its own link or routes",
        Connect::Other(_) => "",
    };
    let mark = if port.connect == Connect::Open { Mark::Good } else { Mark::Bad };
    line(name, mark, seen, means, by_hand)
}

fn inbound(sight: &Sight<'_>, reach: &Reach<'_>, name: &str) -> Check {
    let own_port = sight.own.map_or(2380, |own| own.peer_port);
    let check = format!("inbound {name}");
    let by_hand = reach.peer.member.address.map_or_else(String::new, |address| format!("ss -tnoi src :{own_port} dst {address}"));
    let sockets = match &reach.peer.inbound {
        Seen::Yes(sockets) => sockets,
        Seen::No(why) if reach.inbound == Inbound::Unseen => return unseen(check, why, by_hand),
        Seen::No(why) => {
            let (mark, means) = if reach.inbound == Inbound::Alive {
                (Mark::Good, "it says itself that it reaches us")
            } else {
                (Mark::Bad, "it says itself that it does not reach us")
            };
            return line(check, mark, format!("not seen: {why}"), means, by_hand);
        }
    };
    let heard = sockets.heard_ms.map(|heard| format!(", last heard {} ago", words::ms(heard))).unwrap_or_default();
    let stuck =
        if sockets.retransmitting > 0 { format!(", {} of them unacknowledged", sockets.retransmitting) } else { String::new() };
    let half = if sockets.syn_received > 0 { format!(", {} half open", sockets.syn_received) } else { String::new() };
    let seen =
        format!("{} from there to our {own_port}{heard}{stuck}{half}", words::count(sockets.established as usize, "connection"));
    let at_fault = !matches!(reach.kind, Kind::Fine | Kind::Unseen | Kind::ClientPort);
    let (mark, means) = match reach.inbound {
        Inbound::Alive => (Mark::Good, "it reaches us"),
        Inbound::Doubtful => (Mark::Unseen, "they may be left over from before"),
        Inbound::Silent if at_fault => (Mark::Bad, "it does not reach us, or its etcd does not call"),
        Inbound::HalfOpen if at_fault => (Mark::Bad, "its SYNs arrive here, our answers do not arrive there"),
        Inbound::Silent | Inbound::HalfOpen => (Mark::Unseen, "it does not call us, and why is not to be seen"),
        Inbound::Unseen => (Mark::Unseen, "our own etcd does not listen, or not for long, so nobody can be connected"),
    };
    line(check, mark, seen, means, by_hand)
}

fn tls(reach: &Reach<'_>, name: &str) -> Vec<Check> {
    let mut checks = Vec::new();
    for (number, port) in
        [(reach.peer.member.peer_port, &reach.peer.peer_port), (reach.peer.member.client_port, &reach.peer.client_port)]
    {
        let Some(port) = port.yes() else { continue };
        let address = reach.peer.member.address.map(|address| words::socket(address, number)).unwrap_or_default();
        let by_hand = format!("openssl s_client -connect {address} </dev/null");
        let check = format!("tls {name} {number}");
        let entry = match &port.tls {
            None => None,
            Some(Tls::Answered) => {
                Some(line(check, Mark::Good, "shaken hands and answered", "both ends take each other's certificate", by_hand))
            }
            Some(Tls::TimedOut) => Some(line(
                check,
                hang(reach, number),
                "nothing came",
                "the process there hangs, or large packets are lost",
                by_hand,
            )),
            Some(Tls::Untrusted(text)) => {
                Some(line(check, Mark::Bad, words::quote(text), "we do not trust its certificate", by_hand))
            }
            Some(Tls::RefusedOurs(text)) => {
                Some(line(check, Mark::Bad, words::quote(text), "it does not take our certificate", by_hand))
            }
            Some(Tls::Failed(text)) => Some(line(check, Mark::Bad, words::quote(text), "", by_hand)),
        };
        checks.extend(entry);
        if port.large_passes == Some(false) {
            let by_hand =
                reach.peer.member.address.map_or_else(String::new, |address| format!("ss -tnoi dst {address}; ip link"));
            let means = "small packets pass, large ones are lost: a smaller MTU on the way";
            checks.push(line(format!("large {name} {number}"), Mark::Bad, "a large exchange stalls", means, by_hand));
        }
    }
    checks
}

/// On the peer port it is a fault; the client port alone is only told.
fn hang(reach: &Reach<'_>, number: u16) -> Mark {
    if number == reach.peer.member.peer_port { Mark::Bad } else { Mark::Warn }
}

fn view(reach: &Reach<'_>, name: &str) -> Option<Check> {
    let view = reach.peer.view.as_ref()?;
    let ports: Vec<String> = view.peer_ports.iter().map(|(address, seen)| format!("{address}: {}", words::shows(seen))).collect();
    let seen = format!(
        "{} ago it saw {}",
        words::ms(view.age_ms),
        if ports.is_empty() { "no peer".to_owned() } else { words::list(&ports) }
    );
    let all_open = view.peer_ports.iter().all(|(_, seen)| *seen == Connect::Open);
    let mark = if all_open { Mark::Good } else { Mark::Warn };
    Some(line(format!("view {name}"), mark, seen, "what its own watchdog shared", ""))
}

/// Peers beyond the bound have one line together.
pub(super) fn left_out(reaches: &[Reach<'_>], max: usize) -> Option<Check> {
    let rest = reaches.get(max..).filter(|rest| !rest.is_empty())?;
    let failing = rest.iter().filter(|reach| !matches!(reach.kind, Kind::Fine | Kind::Unseen)).count();
    let mark = if failing > 0 { Mark::Bad } else { Mark::Good };
    Some(line("more_peers", mark, format!("{} more peers, {failing} of them with a fault", rest.len()), "", ""))
}
