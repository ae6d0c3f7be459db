//! etcd's metrics, two samples about a second apart: from its metrics URL in the clear (kubeadm: `http://127.0.0.1:2381`), else from the
//! client port over TLS.
//!
//! Invariant: a sample that does not come in time is said to be missing. Counters become what was counted between the samples.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use tokio::time::{sleep, timeout};

use super::aside::{Aside, late};
use super::asker::Asker;
use super::ports::{Target, endpoint};
use super::prometheus::{Sample, Times, parse};
use super::{connect, flags, http};
use crate::diagnose::evidence::{MemberId, Metrics, Peer, Seen};
use crate::policy::Policy;

/// Between the samples: ten heartbeats, and several fsyncs where anything is written.
const APART: Duration = Duration::from_millis(1000);
/// For one answer; a healthy etcd takes some 5 ms, a starved one 100.
const SAMPLE_TIME: Duration = Duration::from_millis(1000);
/// For etcd's manifest.
const FLAGS_TIME: Duration = Duration::from_millis(400);
/// etcd's answers have 60 to 200 KiB.
const BODY_MAX: usize = 4 << 20;

static FLAGS: Aside = Aside::new("the metrics URL in etcd's manifest");

/// What the samples come to.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Found {
    pub(super) metrics: Metrics,
    /// Bytes received from and sent to each member between the samples; nothing when there was one only.
    received: Vec<(MemberId, u64)>,
    sent: Vec<(MemberId, u64)>,
}

/// Where metrics are to be had.
#[derive(Debug, Clone)]
enum Source {
    Plain(SocketAddr),
    Tls(Target),
}

/// Two samples, or one, or why none.
pub(super) async fn look(policy: &Policy, asker: &Asker) -> Seen<Found> {
    let mut why = Vec::new();
    for source in sources(policy).await {
        match ask(&source, asker).await {
            Ok(first) => {
                sleep(APART).await;
                let second = ask(&source, asker).await.ok();
                return Seen::Yes(compare(first, second));
            }
            Err(error) => why.push(error),
        }
    }
    Seen::No(why.join("; "))
}

/// Puts what etcd counted for each peer with the peer.
pub(super) fn spread(found: Seen<Found>, peers: &mut [Peer]) -> Seen<Metrics> {
    let found = match found {
        Seen::Yes(found) => found,
        Seen::No(why) => return Seen::No(why),
    };
    let of = |counts: &[(MemberId, u64)], id: MemberId| counts.iter().find(|(member, _)| *member == id).map(|(_, bytes)| *bytes);
    for peer in peers {
        peer.received_bytes = of(&found.received, peer.member.id);
        peer.sent_bytes = of(&found.sent, peer.member.id);
    }
    Seen::Yes(found.metrics)
}

/// In the clear first: it needs no certificate.
async fn sources(policy: &Policy) -> Vec<Source> {
    let manifest = flags::manifest_path(policy);
    let urls = FLAGS.read(FLAGS_TIME, move || flags::read(&manifest).ok()?.get("listen-metrics-urls").map(str::to_owned)).await;
    let urls = urls.ok().flatten().unwrap_or_else(|| "http://127.0.0.1:2381".to_owned());
    let plain = urls
        .split(',')
        .filter(|url| url.starts_with("http://"))
        .filter_map(endpoint)
        .map(|target| Source::Plain(here(target.address)));
    plain.take(1).chain(endpoint(&policy.etcd.endpoint).map(Source::Tls)).collect()
}

/// Who listens everywhere is asked on loopback.
const fn here(mut address: SocketAddr) -> SocketAddr {
    if address.ip().is_unspecified() {
        address.set_ip(if address.is_ipv4() { IpAddr::V4(Ipv4Addr::LOCALHOST) } else { IpAddr::V6(Ipv6Addr::LOCALHOST) });
    }
    address
}

async fn ask(source: &Source, asker: &Asker) -> Result<Sample, String> {
    let body = match source {
        Source::Plain(address) => timeout(SAMPLE_TIME, plain(*address))
            .await
            .unwrap_or_else(|_| Err(late(&format!("GET /metrics from {address}"), SAMPLE_TIME)))?,
        Source::Tls(target) => asker.get((&target.host, target.address), "/metrics", BODY_MAX, SAMPLE_TIME).await?,
    };
    let sample = parse(&String::from_utf8_lossy(&body));
    let is_etcd = sample.has_leader.is_some() || sample.fsync.count > 0.0;
    is_etcd.then_some(sample).ok_or_else(|| "what answers for etcd's metrics is not etcd".to_owned())
}

async fn plain(address: SocketAddr) -> Result<Vec<u8>, String> {
    let (opened, stream) = connect::open(address, None, SAMPLE_TIME).await;
    let mut stream = stream.ok_or_else(|| format!("metrics at {address}: {}", connect::say(&opened.connect)))?;
    let answer = http::ask(&mut stream, http::closing(&address.to_string(), "/metrics").as_bytes(), BODY_MAX).await;
    match answer {
        Ok(answer) if answer.status == 200 => Ok(answer.body),
        Ok(answer) => Err(format!("metrics at {address}: status {}", answer.status)),
        Err(error) => Err(format!("metrics at {address}: {error}")),
    }
}

fn compare(first: Sample, second: Option<Sample>) -> Found {
    // Another process of etcd counts anew.
    let both = second.as_ref().is_some_and(|second| second.started == first.started);
    let before = if both { first.clone() } else { Sample::default() };
    let now = second.unwrap_or(first);
    let since = |before: &_, now: &std::collections::BTreeMap<MemberId, u64>| -> Vec<(MemberId, u64)> {
        let before: &std::collections::BTreeMap<MemberId, u64> = before;
        now.iter().filter_map(|(id, bytes)| Some((*id, bytes.saturating_sub(*before.get(id)?)))).collect()
    };
    let peer_rtt_ms = now.round_trips.iter().filter_map(|(id, times)| {
        let earlier = before.round_trips.get(id).copied().unwrap_or_default();
        Some((*id, mean_ms(earlier, *times)?))
    });
    Found {
        received: since(&before.received, &now.received),
        sent: since(&before.sent, &now.sent),
        metrics: Metrics {
            has_leader: now.has_leader,
            leader_changes: now.leader_changes,
            fsync_ms: mean_ms(before.fsync, now.fsync),
            commit_ms: mean_ms(before.commit, now.commit),
            peer_rtt_ms: peer_rtt_ms.collect(),
            quota_bytes: now.quota_bytes,
            db_bytes: now.db_bytes,
            late_heartbeats: now.late_heartbeats.and_then(|now| Some(now.saturating_sub(before.late_heartbeats?))),
        },
    }
}

/// The mean between two samples; since the start when nothing came between them, `None` when nothing ever did.
fn mean_ms(before: Times, now: Times) -> Option<f64> {
    let between = Times { sum: now.sum - before.sum, count: now.count - before.count };
    [between, now].into_iter().find(|times| times.count >= 1.0).map(|times| times.sum / times.count * 1000.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(started: f64, fsyncs: f64, seconds: f64, sent: u64) -> Sample {
        Sample {
            started: Some(started),
            has_leader: Some(true),
            late_heartbeats: Some(sent),
            fsync: Times { sum: seconds, count: fsyncs },
            sent: [(MemberId(7), sent)].into(),
            ..Sample::default()
        }
    }

    #[test]
    fn counters_become_what_was_counted_between_the_samples() {
        let found = compare(sample(1.0, 100.0, 1.0, 50), Some(sample(1.0, 104.0, 1.8, 80)));
        assert!(found.metrics.fsync_ms.is_some_and(|mean| (mean - 200.0).abs() < 1e-6), "{found:?}");
        assert_eq!((found.metrics.late_heartbeats, found.metrics.commit_ms), (Some(30), None));
        let mut peers = [Peer::default(), Peer::default()];
        peers[0].member.id = MemberId(7);
        spread(Seen::Yes(found), &mut peers);
        assert_eq!((peers[0].sent_bytes, peers[0].received_bytes, peers[1].sent_bytes), (Some(30), None, None));
    }

    #[test]
    fn without_anything_between_the_samples_means_are_since_the_start_and_counts_unknown() {
        for second in [None, Some(sample(2.0, 100.0, 1.0, 50)), Some(sample(1.0, 100.0, 1.0, 50))] {
            let found = compare(sample(1.0, 100.0, 1.0, 50), second.clone());
            assert!(found.metrics.fsync_ms.is_some_and(|mean| (mean - 10.0).abs() < 1e-6), "{found:?}");
            let same_process = second.is_some_and(|second| second.started == Some(1.0));
            assert_eq!(found.metrics.late_heartbeats, same_process.then_some(0));
            assert_eq!(found.sent.len(), usize::from(same_process));
        }
    }

    #[test]
    fn a_listener_on_every_address_is_asked_on_loopback() {
        let here = |text: &str| here(text.parse().unwrap()).to_string();
        assert_eq!(here("0.0.0.0:2381"), "127.0.0.1:2381");
        assert_eq!(here("[::]:2381"), "[::1]:2381");
        assert_eq!(here("192.0.2.1:2381"), "192.0.2.1:2381");
    }
}
