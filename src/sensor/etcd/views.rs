//! Keys under a lease, for what nodes share: put over the kept connection, read over one of its own.
//!
//! Invariant: each call has its own deadline, and none touches what the sensor knows of the kept connection: a write that hangs for want of
//! a quorum says nothing about the member. Cancel-safe.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use etcd_client::{Client, GetOptions, PutOptions};
use tokio::time::timeout;

use super::fault::{classify, sentence};
use super::link::{EtcdLink, NoClient};
use super::members::host_and_port;
use super::prover::EtcdProver;
use crate::policy::EtcdPolicy;

/// Most keys that are read; a cluster has seven members at most.
const KEYS_MAX: i64 = 16;

/// Most members that are told.
const MEMBERS_MAX: usize = 16;

/// Where etcd's members listen for each other when a URL does not say.
const PEER_PORT: u16 = 2380;

impl EtcdProver {
    /// Puts a value under a lease of `ttl`: the one that an earlier call answered with, if it is alive, or a new one. Takes a quorum.
    ///
    /// # Errors
    /// As part of a sentence. The lease ends by itself, and the key with it.
    pub async fn put_leased(&self, key: &str, value: Vec<u8>, lease: Option<i64>, ttl: Duration) -> Result<i64, String> {
        let put = async {
            let mut client = self.kept_client().await?;
            let lease = match lease {
                Some(lease) if client.lease_keep_alive(lease).await.is_ok() => lease,
                Some(_) | None => {
                    let seconds = i64::try_from(ttl.as_secs()).unwrap_or(i64::MAX);
                    client.lease_grant(seconds, None).await.map_err(said)?.id()
                }
            };
            client.put(key, value, Some(PutOptions::new().with_lease(lease))).await.map_err(said)?;
            Ok(lease)
        };
        self.in_time(put).await
    }

    /// The peer URLs' addresses of all members but `own`; names are left out. Takes a quorum from etcd 3.5 on.
    ///
    /// # Errors
    /// As part of a sentence.
    pub async fn peer_addresses(&self, own: u64) -> Result<Vec<SocketAddr>, String> {
        let ask = async {
            let list = self.kept_client().await?.cluster_client().member_list().await.map_err(said)?;
            let others = list.members().iter().filter(|member| member.id() != own).take(MEMBERS_MAX);
            let first = |urls: &[String]| urls.iter().find_map(|url| socket_address(url));
            Ok(others.filter_map(|member| first(member.peer_urls())).collect())
        };
        self.in_time(ask).await
    }

    async fn kept_client(&self) -> Result<Client, String> {
        client(self.link()).await
    }

    async fn in_time<T>(&self, work: impl Future<Output = Result<T, String>>) -> Result<T, String> {
        let deadline = self.link().deadline();
        timeout(deadline, work).await.unwrap_or_else(|_| Err(format!("no answer within {} ms", deadline.as_millis())))
    }
}

/// What is under a prefix, as the local member has it: it needs no quorum, and without one may be old.
///
/// # Errors
/// As part of a sentence.
pub async fn read_prefix(policy: &EtcdPolicy, prefix: &str, deadline: Duration) -> Result<Vec<(String, Vec<u8>)>, String> {
    let link = EtcdLink::for_once(policy.clone());
    let read = async {
        let options = GetOptions::new().with_prefix().with_serializable().with_limit(KEYS_MAX);
        let found = client(&link).await?.get(prefix, Some(options)).await.map_err(said)?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Ok(found.kvs().iter().map(|pair| (text(pair.key()), pair.value().to_vec())).collect())
    };
    timeout(deadline, read).await.unwrap_or_else(|_| Err(format!("no answer within {} ms", deadline.as_millis())))
}

async fn client(link: &EtcdLink) -> Result<Client, String> {
    match link.client().await {
        Ok(kept) => Ok(kept.client),
        Err(NoClient::CannotAsk(reason)) => Err(reason),
        Err(NoClient::Fault(fault)) => Err(sentence(&fault)),
    }
}

#[expect(clippy::needless_pass_by_value, reason = "it maps an error")]
fn said(error: etcd_client::Error) -> String {
    sentence(&classify(&error, true))
}

fn socket_address(url: &str) -> Option<SocketAddr> {
    let (host, port) = host_and_port(url)?;
    let address: IpAddr = host.parse().ok()?;
    Some(SocketAddr::new(address, port.unwrap_or(PEER_PORT)))
}
