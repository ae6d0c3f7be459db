//! One port of a member: does it open, does TLS pass, do large packets pass, what time is it there.
//!
//! ```text
//!   connect ──► TLS, GET /version ──► a request of full segments with an answer of full segments ──► done
//!                 │ no end of it after STALL
//!                 └──► the same again, side by side, over a connection of small segments (TCP_MAXSEG 536)
//! ```
//!
//! Invariant: a black hole for large packets is said only when the very same exchange passes in small packets while it stalls in large
//! ones; a process that hangs stalls both. May be dropped at any await.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::pin::pin;
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::time::{Instant, timeout_at};

use super::asker::{Asker, Client, server_name};
use super::{connect, http, tls};
use crate::diagnose::evidence::{Member, Port, Seen, Tls};
use crate::policy::Policy;
use crate::runtime::clock;

/// For the connection. A SYN that gets lost is sent again after 1 s and 3 s; a host that is not there shows after 3.1 s.
const CONNECT_TIME: Duration = Duration::from_millis(3250);
/// For all that follows on an open connection.
const TALK_TIME: Duration = Duration::from_millis(2000);
/// When an exchange that takes 10 ms in health counts as stalled, and is tried in small packets. Those have as long again, and more.
const STALL: Duration = Duration::from_millis(700);
/// How much longer a large exchange must have stalled when the small one has passed: a server that wakes up answers both.
const LATER: Duration = Duration::from_millis(300);
/// Packets of 576 bytes at most, which every IPv4 host takes (RFC 1122, section 3.3.3).
const SMALL_SEGMENT: u32 = 536;
/// Most bytes of an answer to a small question; `/version` has 50.
const BODY_MAX: usize = 4096;

/// A port, and as whom its server shows itself.
#[derive(Debug, Clone)]
pub(super) struct Target {
    pub(super) address: SocketAddr,
    /// The address or name that its certificate is for.
    pub(super) host: String,
    /// Whether packets on the way there could be too large: not on this node.
    pub(super) remote: bool,
}

/// Client port, at the policy's endpoint.
pub(super) async fn own_client(policy: &Policy, asker: &Asker, deadline: Duration) -> Seen<Port> {
    match endpoint(&policy.etcd.endpoint) {
        Some(target) => Seen::Yes(probe(&target, asker, deadline).await),
        None => Seen::No(format!("{} has no address", policy.etcd.endpoint)),
    }
}

/// Peer port, at the member's address.
pub(super) async fn own_peer(own: Option<&Member>, asker: &Asker, deadline: Duration) -> Seen<Port> {
    let Some(own) = own else { return Seen::No("which member this node is was not found out".to_owned()) };
    let Some(address) = own.address else { return Seen::No("the member list has no address for this node".to_owned()) };
    let target = Target { address: SocketAddr::new(address, or(own.peer_port, 2380)), host: address.to_string(), remote: false };
    Seen::Yes(probe(&target, asker, deadline).await)
}

/// `port`, or what it is by default when nobody said.
pub(super) const fn or(port: u16, default: u16) -> u16 {
    if port == 0 { default } else { port }
}

/// `https://HOST:PORT` with an address or `localhost`: the policy's check lets nothing else pass, and names are not looked up.
pub(super) fn endpoint(url: &str) -> Option<Target> {
    let authority = url.split_once("://")?.1.split('/').next()?;
    let (host, port) = authority.rsplit_once(':')?;
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    let address = if bare == "localhost" { IpAddr::V4(Ipv4Addr::LOCALHOST) } else { bare.parse().ok()? };
    Some(Target { address: SocketAddr::new(address, port.parse().ok()?), host: bare.to_owned(), remote: false })
}

/// Tries a port within `deadline` in all.
pub(super) async fn probe(target: &Target, asker: &Asker, deadline: Duration) -> Port {
    let until = Instant::now() + deadline;
    let (opened, stream) = connect::open(target.address, None, deadline.min(CONNECT_TIME)).await;
    let took_us = u64::try_from(opened.took.as_micros()).unwrap_or(u64::MAX);
    let port = Port { connect: opened.connect, took_us, ..Port::default() };
    let Some(stream) = stream else { return port };
    let until = until.min(Instant::now() + TALK_TIME);
    if until < Instant::now() + STALL {
        // It opened so late that a handshake without an end would mean nothing.
        return port;
    }
    match timeout_at(until, asker.client()).await {
        Ok(Ok(client)) => talk_twice(target, client, stream, until, port).await,
        Ok(Err(_)) | Err(_) => port,
    }
}

/// How far an exchange came.
#[derive(Debug, Default)]
struct Talk {
    shaken: bool,
    offset_ms: Option<i64>,
    answered: bool,
    large: Option<Instant>,
    /// Whether it is the one in small packets.
    apart: bool,
    failed: Option<Tls>,
}

/// Talks, and when that stalls, once more in small packets.
async fn talk_twice(target: &Target, client: &Client, stream: TcpStream, until: Instant, port: Port) -> Port {
    let (mut plain, mut small) = (Talk::default(), Talk { apart: true, ..Talk::default() });
    {
        let mut first = pin!(talk(target, client, stream, &mut plain));
        let stalled = timeout_at(until.min(Instant::now() + STALL), &mut first).await.is_err();
        if stalled && target.remote {
            // A late end of either is no failure: what counts is how far each came.
            let (first, second) =
                tokio::join!(timeout_at(until, first), timeout_at(until, talk_small(target, client, until, &mut small)));
            first.ok();
            second.ok();
        } else if stalled {
            timeout_at(until, first).await.ok();
        }
    }
    let stalls = plain.failed.is_none() && small.large.is_some_and(|at| at + LATER <= until);
    let large_passes = if plain.large.is_some() { Some(true) } else { stalls.then_some(false) };
    let answered = plain.answered || small.answered;
    let tls = match plain.failed {
        Some(failed) if !plain.answered => Some(failed),
        Some(_) | None if answered => Some(Tls::Answered),
        Some(_) | None if plain.shaken && client.anonymous.is_some() => None,
        Some(_) | None => Some(Tls::TimedOut),
    };
    Port { tls, large_passes, clock_offset_ms: plain.offset_ms.or(small.offset_ms), ..port }
}

async fn talk_small(target: &Target, client: &Client, until: Instant, talked: &mut Talk) {
    let (_, stream) = connect::open(target.address, Some(SMALL_SEGMENT), until - Instant::now()).await;
    if let Some(stream) = stream {
        talk(target, client, stream, talked).await;
    }
}

/// Handshake, a small question, a large one. Has no deadline; `talked` is true of what has passed at any time.
async fn talk(target: &Target, client: &Client, stream: TcpStream, talked: &mut Talk) {
    if let Err(failed) = exchange(target, client, stream, talked).await {
        talked.failed = Some(failed);
    }
}

async fn exchange(target: &Target, client: &Client, stream: TcpStream, talked: &mut Talk) -> Result<(), Tls> {
    let name = server_name(&target.host).map_err(Tls::Failed)?;
    let mut stream = client.shake_hands(name, stream).await?;
    talked.shaken = true;
    if client.anonymous.is_some() {
        return Ok(());
    }
    let asked = clock::wall();
    let question = http::keeping(&target.host, "/version");
    let answer = http::ask(&mut stream, question.as_bytes(), BODY_MAX).await.map_err(|error| tls::classify(&error, true))?;
    talked.answered = true;
    talked.offset_ms = answer.date.and_then(|date| offset_ms(date, asked, clock::wall()));
    if target.remote {
        let question = http::large(&target.host);
        let mut question = question.as_bytes();
        if talked.apart {
            http::send_apart(&mut stream, question).await.map_err(|error| tls::classify(&error, true))?;
            question = &[];
        }
        http::ask(&mut stream, question, http::LARGE).await.map_err(|error| tls::classify(&error, true))?;
        talked.large = Some(Instant::now());
    }
    Ok(())
}

/// The answerer's clock against ours: its date is cut to the second, so it means the middle of that; we take the middle of the exchange.
fn offset_ms(date: i64, asked: Duration, answered: Duration) -> Option<i64> {
    let theirs = date.checked_mul(1000)?.checked_add(500)?;
    let ours = i64::try_from(asked.saturating_add(answered).as_millis()).ok()? / 2;
    theirs.checked_sub(ours)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_policys_endpoint_names_address_and_certificate() {
        let at = |url: &str| endpoint(url).map(|target| (target.address.to_string(), target.host));
        assert_eq!(at("https://127.0.0.1:2379"), Some(("127.0.0.1:2379".to_owned(), "127.0.0.1".to_owned())));
        assert_eq!(at("https://localhost:2379/"), Some(("127.0.0.1:2379".to_owned(), "localhost".to_owned())));
        assert_eq!(at("https://[::1]:2379"), Some(("[::1]:2379".to_owned(), "::1".to_owned())));
        assert_eq!(at("https://cp1:2379"), None);
    }

    #[test]
    fn a_clock_is_compared_at_the_middle_of_the_exchange() {
        let s = Duration::from_secs;
        assert_eq!(offset_ms(1000, s(1000), s(1001)), Some(0));
        assert_eq!(offset_ms(1000, s(940), s(940)), Some(60_500));
        assert_eq!(offset_ms(1000, s(1060), s(1060)), Some(-59_500));
        assert_eq!(offset_ms(i64::MAX, s(0), s(0)), None);
    }
}
