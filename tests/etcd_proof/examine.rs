//! A member examined for a diagnosis: answers, ways to fail, and that a hung one leaves nothing behind.

use std::time::Duration;

use fip_watchdog::decision::observation::EtcdFault;
use fip_watchdog::policy::EtcdPolicy;
use fip_watchdog::sensor::etcd::{Examination, examine};
use rustix::process::Signal;

use super::cluster::{Authority, Cluster, eventually};

const DEADLINE: Duration = Duration::from_millis(1300);

/// Connections to the member that somebody holds, by the kernel's table. Other tests of this process have members of their own.
fn connections(policy: &EtcdPolicy) -> usize {
    const ESTABLISHED: &str = "01";
    let port: u16 = policy.endpoint.rsplit(':').next().unwrap().parse().unwrap();
    let table = std::fs::read_to_string("/proc/self/net/tcp").unwrap();
    let to_member = |line: &&str| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        fields[2].ends_with(&format!(":{port:04X}")) && fields[3] == ESTABLISHED
    };
    table.lines().skip(1).filter(to_member).count()
}

async fn until_read(policy: &EtcdPolicy) -> Examination {
    let ask = async || examine(policy, DEADLINE).await;
    eventually("an answered read", ask, |seen| matches!(seen, Ok(Examination::Answered { read: Ok(()), .. }))).await.unwrap()
}

#[tokio::test]
async fn a_healthy_member_tells_its_size_and_answers_a_read_and_without_a_quorum_only_that_fails() {
    let cluster = Cluster::start(3);
    let seen = until_read(&cluster.policy(0)).await;
    let Examination::Answered { status, db_size, took, .. } = seen else { panic!("{seen:?}") };
    assert!(db_size > 4096 && took < DEADLINE && status.leader != 0, "{db_size} {took:?} {status:?}");
    for member in &cluster.members[1..] {
        member.signal(Signal::STOP);
    }
    let seen = examine(&cluster.policy(0), DEADLINE).await;
    assert!(matches!(&seen, Ok(Examination::Answered { read: Err(_), .. })), "{seen:?}");
    for member in &cluster.members[1..] {
        member.signal(Signal::CONT);
    }
    until_read(&cluster.policy(0)).await;
}

#[tokio::test]
async fn the_ways_to_fail_are_told_apart_and_a_hung_member_leaves_nothing_behind() {
    let mut cluster = Cluster::start(1);
    let policy = cluster.policy(0);
    until_read(&policy).await;
    let other = Authority::new(cluster.dir.path(), "other-ca");
    let seen = examine(&EtcdPolicy { ca: other.ca, ..policy.clone() }, DEADLINE).await;
    assert!(matches!(&seen, Ok(Examination::Failed(EtcdFault::Tls(why))) if why.contains("UnknownIssuer")), "{seen:?}");
    let absent = examine(&EtcdPolicy { cert: "/nonexistent/cert".into(), ..policy.clone() }, DEADLINE).await;
    assert!(matches!(&absent, Err(why) if why.contains("/nonexistent/cert")), "{absent:?}");

    let before = connections(&policy);
    cluster.members[0].signal(Signal::STOP);
    for _ in 0..5 {
        let seen = examine(&policy, Duration::from_millis(300)).await;
        assert_eq!(seen, Ok(Examination::Failed(EtcdFault::TimedOut)));
    }
    assert!(connections(&policy) > before, "none of them hung, so that this proves nothing");
    eventually("the hung connections to be gone", async || connections(&policy), |count| *count <= before).await;

    cluster.members[0].signal(Signal::CONT);
    until_read(&policy).await;
    cluster.members[0].kill();
    let ask = async || examine(&policy, DEADLINE).await;
    let refused = Ok(Examination::Failed(EtcdFault::Refused));
    assert_eq!(eventually("a refusal", ask, |seen| *seen == refused).await, refused);
}
