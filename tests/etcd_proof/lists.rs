//! The member list of real members: with a quorum, without one, and from nobody.

use std::time::Duration;

use fip_watchdog::decision::plan::EtcdDepth;
use fip_watchdog::diagnose::diagnose;
use fip_watchdog::diagnose::evidence::{MemberSource, Members};
use fip_watchdog::policy::Policy;
use fip_watchdog::sensor::etcd::{EtcdSensor, MemberList, ask_members};

use super::cluster::{Cluster, eventually, write};
use super::until_confirmed;

/// Long, because members start side by side on a busy machine.
const DEADLINE: Duration = Duration::from_secs(5);

#[tokio::test]
async fn the_member_list_is_told_without_a_quorum_and_is_what_the_sensor_keeps() {
    let mut cluster = Cluster::start(3);
    let policy = cluster.policy(0);
    let mut sensor = EtcdSensor::for_fip(&policy, [192, 0, 2, 10].into());
    let status = until_confirmed(&mut sensor).await;
    let complete = |list: &Result<MemberList, String>| {
        list.as_ref()
            .is_ok_and(|list| list.members.len() == 3 && list.members.iter().all(|member| !member.client_urls.is_empty()))
    };
    let whole = eventually("a whole list", async || ask_members(&policy, DEADLINE).await, complete).await.unwrap();
    assert_eq!(whole.own_id, status.member_id);
    let names: Vec<&str> = whole.members.iter().map(|member| member.name.as_str()).collect();
    assert!(["m0", "m1", "m2"].iter().all(|name| names.contains(name)), "{names:?}");
    assert!(whole.members.iter().all(|member| member.peer_urls[0].starts_with("https://127.0.0.1:") && !member.learner));

    sensor.read(EtcdDepth::Status).await;
    assert_eq!(sensor.member_list().map(|list| list.members.len()), Some(3));

    cluster.members[1].kill();
    cluster.members[2].kill();
    assert_eq!(ask_members(&policy, DEADLINE).await, Ok(whole), "its own store has the list still");
    cluster.members[0].kill();
    assert_eq!(ask_members(&policy, DEADLINE).await, Err("etcd refuses connections".to_owned()));
}

#[tokio::test]
async fn while_the_local_member_is_gone_another_one_tells_who_is_in_the_cluster() {
    let mut cluster = Cluster::start(3);
    let mut policy = Policy::with_defaults([192, 0, 2, 10].into(), "eth0");
    policy.etcd = cluster.policy(0);
    policy.watched_loop.manifest = cluster.dir.path().join("wcp-fip.yaml");
    policy.state_dir = cluster.dir.path().to_owned();
    until_confirmed(&mut EtcdSensor::new(&policy.etcd)).await;
    let whole = ask_members(&policy.etcd, DEADLINE).await.unwrap();
    let urls: Vec<String> = whole.members.iter().map(|member| format!("{}={}", member.name, member.peer_urls[0])).collect();
    // The ports of the day of its making, and no client's: what a peer says is more.
    let flags = format!("--initial-cluster={}", urls.join(","));
    let manifest = format!("spec: {{containers: [{{name: etcd, command: [etcd, '{flags}']}}]}}");
    write(&cluster.dir.path().join("etcd.yaml"), &manifest);

    let seen = async || diagnose(&policy, None).await.evidence.members.yes().cloned();
    let from = |wanted: MemberSource| move |seen: &Option<Members>| seen.as_ref().is_some_and(|seen| seen.source == wanted);
    let told = eventually("etcd's own list", seen, from(MemberSource::Etcd)).await.unwrap();
    assert_eq!(told.own_id.map(|id| id.0), Some(whole.own_id));

    cluster.members[0].kill();
    let told = eventually("a peer's list", seen, from(MemberSource::Peer)).await.unwrap();
    let ids: Vec<u64> = told.list.iter().map(|member| member.id.0).collect();
    assert_eq!(ids, whole.members.iter().map(|member| member.id).collect::<Vec<_>>());

    cluster.members[1].kill();
    cluster.members[2].kill();
    eventually("the flags' list", seen, from(MemberSource::InitialCluster)).await;
}
