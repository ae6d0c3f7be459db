//! The etcd sense and its proofs against real etcd members.

#![expect(clippy::unwrap_used, reason = "a failed set-up is a failed test")]

mod cluster;
mod examine;
mod lists;
mod sharing;

use std::time::Duration;

use cluster::{Authority, Cluster, eventually, write};
use fip_watchdog::decision::observation::{EtcdFault, EtcdStatus, EtcdView, Quorum, Reading};
use fip_watchdog::decision::plan::EtcdDepth;
use fip_watchdog::policy::EtcdPolicy;
use fip_watchdog::sensor::etcd::{EtcdSensor, LeadershipProver, NotProven};
use rustix::process::Signal;

fn answered(reading: &Reading<EtcdView>) -> Option<&EtcdStatus> {
    match reading.fresh()? {
        EtcdView::Answered(status) => Some(status),
        EtcdView::Unreachable(_) => None,
    }
}

fn fault(reading: &Reading<EtcdView>) -> Option<&EtcdFault> {
    match reading.fresh()? {
        EtcdView::Unreachable(fault) => Some(fault),
        EtcdView::Answered(_) => None,
    }
}

fn is_confirmed(reading: &Reading<EtcdView>) -> bool {
    answered(reading).is_some_and(EtcdStatus::is_confirmed)
}

async fn until_confirmed(sensor: &mut EtcdSensor) -> EtcdStatus {
    let reading = eventually("a confirmed proof", async || sensor.read(EtcdDepth::Proof).await, is_confirmed).await;
    answered(&reading).unwrap().clone()
}

/// A sensor of its own that has never connected.
async fn first_answer(policy: &EtcdPolicy) -> Reading<EtcdView> {
    EtcdSensor::new(policy).read(EtcdDepth::Proof).await
}

#[tokio::test]
async fn a_healthy_single_member_proves_that_it_leads() {
    let cluster = Cluster::start(1);
    let mut sensor = EtcdSensor::new(&cluster.policy(0));
    let prover = sensor.prover();
    let status = until_confirmed(&mut sensor).await;
    assert!(status.claims_to_lead() && status.raft_term > 0 && status.revision > 0, "{status:?}");
    assert!(status.version.starts_with("3."), "{status:?}");

    let shallow = sensor.read(EtcdDepth::Status).await;
    assert_eq!(answered(&shallow).map(|status| &status.quorum), Some(&Quorum::NotAsked));

    let proof = prover.prove().await.unwrap();
    assert!(proof.leads_here());
    assert_eq!((proof.member_id, proof.raft_term), (status.member_id, status.raft_term));
}

#[tokio::test]
async fn nothing_is_known_while_the_fip_is_the_address_of_a_member() {
    let cluster = Cluster::start(1);
    until_confirmed(&mut EtcdSensor::new(&cluster.policy(0))).await;
    let mut sensor = EtcdSensor::for_fip(&cluster.policy(0), std::net::Ipv4Addr::LOCALHOST);
    let prover = sensor.prover();
    let reading = eventually("a member list", async || sensor.read(EtcdDepth::Status).await, |r| r.fresh().is_none()).await;
    let refusal = "fip.address 127.0.0.1 is the address of the etcd member ";
    assert!(matches!(&reading, Reading::Unknown(reason) if reason.starts_with(refusal)), "{reading:?}");
    assert!(matches!(prover.prove().await, Err(NotProven::CannotTell(reason)) if reason.starts_with(refusal)));

    let mut floating = EtcdSensor::for_fip(&cluster.policy(0), std::net::Ipv4Addr::new(192, 0, 2, 10));
    until_confirmed(&mut floating).await;
}

#[tokio::test]
async fn sensor_and_provers_ask_at_the_same_time_over_one_connection() {
    let cluster = Cluster::start(1);
    until_confirmed(&mut EtcdSensor::new(&cluster.policy(0))).await;
    // Not connected yet: the first to ask connects for all of them.
    let mut sensor = EtcdSensor::new(&cluster.policy(0));
    let provers: Vec<_> = (0..20).map(|_| sensor.prover()).collect();
    let tasks: Vec<_> = provers.into_iter().map(|prover| tokio::spawn(async move { prover.prove().await })).collect();
    let reading = sensor.read(EtcdDepth::Proof).await;
    assert!(is_confirmed(&reading), "{reading:?}");
    for task in tasks {
        assert!(task.await.unwrap().is_ok_and(|proof| proof.leads_here()));
    }
}

#[tokio::test]
async fn three_members_agree_on_one_leader_and_without_a_quorum_nobody_proves_anything() {
    let cluster = Cluster::start(3);
    let mut sensors: Vec<EtcdSensor> = (0..3).map(|n| EtcdSensor::new(&cluster.policy(n))).collect();
    // Of one term, because a busy machine may elect again between two questions.
    let proofs = eventually(
        "proofs of one term from all three",
        async || {
            let mut proofs = Vec::new();
            for sensor in &sensors {
                proofs.extend(sensor.prover().prove().await);
            }
            proofs
        },
        |proofs| proofs.len() == 3 && proofs.iter().all(|proof| proof.raft_term == proofs[0].raft_term),
    )
    .await;
    let leaders: Vec<usize> = (0..3).filter(|n| proofs[*n].leads_here()).collect();
    let [leader] = leaders[..] else { panic!("not one leader: {proofs:?}") };
    assert!(
        proofs.iter().all(|proof| proof.leader == proofs[leader].member_id),
        "a follower's proof names the leader: {proofs:?}"
    );

    // Cut the leader off from both others.
    for n in (0..3).filter(|n| *n != leader) {
        cluster.members[n].signal(Signal::STOP);
    }
    let denied = sensors[leader].read(EtcdDepth::Proof).await;
    let status = answered(&denied).unwrap_or_else(|| panic!("{denied:?}"));
    assert!(matches!(status.quorum, Quorum::Denied(_)), "{status:?}");
    let no_leader = eventually(
        "status without a leader",
        async || sensors[leader].read(EtcdDepth::Proof).await,
        |reading| answered(reading).is_some_and(|status| status.leader == 0),
    )
    .await;
    let status = answered(&no_leader).unwrap();
    assert!(status.errors.iter().any(|error| error.contains("no leader")), "{status:?}");
    assert!(matches!(&status.quorum, Quorum::Denied(why) if why.contains("no leader")), "{status:?}");
    let refusal = sensors[leader].prover().prove().await.unwrap_err();
    assert!(matches!(refusal, NotProven::Denied(_)), "{refusal:?}");

    for n in (0..3).filter(|n| *n != leader) {
        cluster.members[n].signal(Signal::CONT);
    }
    until_confirmed(&mut sensors[leader]).await;
}

#[tokio::test]
async fn a_stopped_member_times_out_on_old_and_new_connections_and_is_read_again_when_it_goes_on() {
    let cluster = Cluster::start(1);
    let policy = EtcdPolicy { deadline: Duration::from_millis(600), ..cluster.policy(0) };
    let mut sensor = EtcdSensor::new(&policy);
    until_confirmed(&mut sensor).await;
    cluster.members[0].signal(Signal::STOP);
    let mut fresh = EtcdSensor::new(&policy);
    for _ in 0..3 {
        // The limit only tells a deadline of our own from etcd-client's, which hangs.
        let readings = async { (sensor.read(EtcdDepth::Proof).await, fresh.read(EtcdDepth::Status).await) };
        let (kept, new) = tokio::time::timeout(Duration::from_secs(20), readings).await.expect("a read hung");
        assert_eq!(fault(&kept), Some(&EtcdFault::TimedOut), "{kept:?}");
        assert_eq!(fault(&new), Some(&EtcdFault::TimedOut), "{new:?}");
    }
    cluster.members[0].signal(Signal::CONT);
    until_confirmed(&mut sensor).await;
    until_confirmed(&mut fresh).await;
}

#[tokio::test]
async fn a_killed_member_refuses_and_is_read_again_after_its_restart() {
    let mut cluster = Cluster::start(1);
    let mut sensor = EtcdSensor::new(&cluster.policy(0));
    until_confirmed(&mut sensor).await;
    cluster.members[0].kill();
    // The first question may still meet the dying connection.
    eventually("a refusal", async || sensor.read(EtcdDepth::Status).await, |reading| fault(reading) == Some(&EtcdFault::Refused))
        .await;
    let refusal = sensor.prover().prove().await.unwrap_err();
    assert_eq!(refusal, NotProven::Unreachable(EtcdFault::Refused));
    cluster.members[0].start();
    until_confirmed(&mut sensor).await;
}

#[tokio::test]
async fn a_server_of_another_authority_is_a_tls_fault_that_names_the_issuer() {
    let cluster = Cluster::start(1);
    until_confirmed(&mut EtcdSensor::new(&cluster.policy(0))).await;
    let other = Authority::new(cluster.dir.path(), "other-ca");
    let reading = first_answer(&EtcdPolicy { ca: other.ca, ..cluster.policy(0) }).await;
    assert!(matches!(fault(&reading), Some(EtcdFault::Tls(why)) if why.contains("UnknownIssuer")), "{reading:?}");
}

#[tokio::test]
async fn an_unknown_or_expired_client_certificate_is_a_tls_fault_until_the_file_is_renewed() {
    let cluster = Cluster::start(1);
    until_confirmed(&mut EtcdSensor::new(&cluster.policy(0))).await;
    let dir = cluster.dir.path();
    let unknown = Authority::new(dir, "other-ca").issue(dir, "unknown", 4000);
    let expired = cluster.authority.issue(dir, "expired", 2000);
    for identity in [unknown, expired] {
        let policy = EtcdPolicy { cert: identity.cert.clone(), key: identity.key.clone(), ..cluster.policy(0) };
        let mut sensor = EtcdSensor::new(&policy);
        for _ in 0..3 {
            let reading = sensor.read(EtcdDepth::Status).await;
            assert!(matches!(fault(&reading), Some(EtcdFault::Tls(_))), "{reading:?}");
        }
        // Renewed in place, as kubeadm does: the same sensor sees it.
        write(&identity.cert, &std::fs::read_to_string(&cluster.server.cert).unwrap());
        write(&identity.key, &std::fs::read_to_string(&cluster.server.key).unwrap());
        until_confirmed(&mut sensor).await;
    }
}

#[tokio::test]
async fn an_unreadable_or_mismatched_key_is_said_and_read_again() {
    let cluster = Cluster::start(1);
    until_confirmed(&mut EtcdSensor::new(&cluster.policy(0))).await;
    let key = cluster.dir.path().join("later.key");
    let policy = EtcdPolicy { key: key.clone(), ..cluster.policy(0) };
    let mut sensor = EtcdSensor::new(&policy);
    let missing = sensor.read(EtcdDepth::Status).await;
    let Reading::Unknown(reason) = &missing else { panic!("{missing:?}") };
    assert!(reason.contains("client key") && reason.contains("later.key") && reason.contains("No such file"), "{reason}");

    let other = cluster.authority.issue(cluster.dir.path(), "other", 4000);
    write(&key, &std::fs::read_to_string(other.key).unwrap());
    let mismatched = sensor.read(EtcdDepth::Status).await;
    assert!(matches!(fault(&mismatched), Some(EtcdFault::Tls(_))), "{mismatched:?}");

    write(&key, &std::fs::read_to_string(&cluster.server.key).unwrap());
    until_confirmed(&mut sensor).await;
}
