//! The local member asked for a diagnosis: `Status`, then one linearizable read, each with a deadline of its own.
//!
//! Not a proof of leadership (`proof.rs` is): a follower's read tells as well that there is a quorum. Alarms are taken from `Status`
//! (its `errors`, since etcd 3.4): asking for their list is a write to the raft log, and hangs without a quorum.
//!
//! Invariant: nothing outlives the examination by more than some seconds, whatever hangs. Cancel-safe.

use std::time::Duration;

use etcd_client::GetOptions;
use tokio::time::{Instant, timeout_at};

use super::link::{EtcdLink, Kept, NoClient};
use super::proof::{PROBE_KEY, settle, translate};
use crate::decision::observation::{EtcdFault, EtcdStatus};
use crate::policy::EtcdPolicy;
use crate::runtime::attend::Stopwatch;

/// What was found.
#[derive(Debug, Clone, PartialEq)]
pub enum Examination {
    /// It answered `Status`.
    Answered {
        /// What it said.
        status: EtcdStatus,
        /// Size of its database file in bytes.
        db_size: u64,
        /// Time until that answer.
        took: Duration,
        /// Whether a quorum answered the read.
        read: Result<(), EtcdFault>,
    },
    /// It did not.
    Failed(EtcdFault),
}

/// Asks the policy's member, over a connection of its own: what a kept one went through must not colour the answer. Each of the two
/// questions has `deadline`.
///
/// # Errors
/// Our own side cannot ask: certificates are not to be read.
pub async fn examine(policy: &EtcdPolicy, deadline: Duration) -> Result<Examination, String> {
    let link = EtcdLink::for_once(policy.clone());
    let watch = Stopwatch::start();
    let until = Instant::now() + deadline;
    let mut kept = match timeout_at(until, link.client()).await {
        Err(_elapsed) => return Err("the etcd certificates could not be read within the deadline".to_owned()),
        Ok(Err(NoClient::CannotAsk(reason))) => return Err(reason),
        Ok(Err(NoClient::Fault(fault))) => return Ok(Examination::Failed(fault)),
        Ok(Ok(kept)) => kept,
    };
    let answer = timeout_at(until, kept.client.status()).await;
    let told = settle(&link, &kept, answer).and_then(|response| {
        let db_size = u64::try_from(response.db_size()).unwrap_or(0);
        translate(&response).map(|status| (status, db_size))
    });
    let (status, db_size) = match told {
        Ok(told) => told,
        Err(fault) => return Ok(Examination::Failed(fault)),
    };
    let took = watch.elapsed();
    let read = read(&link, &mut kept, Instant::now() + deadline).await;
    Ok(Examination::Answered { status, db_size, took, read })
}

async fn read(link: &EtcdLink, kept: &mut Kept, until: Instant) -> Result<(), EtcdFault> {
    let options = GetOptions::new().with_keys_only().with_limit(1);
    let answer = timeout_at(until, kept.client.get(PROBE_KEY, Some(options))).await;
    settle(link, kept, answer).map(|_read| ())
}
