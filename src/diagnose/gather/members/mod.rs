//! Who should be in the cluster: from etcd, from a peer, remembered, or from etcd's flags.
//!
//! ```text
//!   the local member (without a quorum) ──► a peer of the list below ──► members.json, as the daemon kept it ──► --initial-cluster
//! ```
//!
//! Invariant: an answer within [`TOTAL`], and it says where it is from; names are resolved by the host's own resolver, in time or not at all.
//! May be dropped at any await.

mod names;
mod peer;
#[cfg(test)]
mod tests;
mod url;

use std::net::IpAddr;
use std::pin::pin;
use std::time::Duration;

use tokio::time::{Instant, timeout};

use super::aside::Aside;
use super::asker::Asker;
use super::flags::{self, Flags};
use super::own;
use crate::diagnose::evidence::{Member, MemberId, MemberSource, Members, Seen};
use crate::policy::Policy;
use crate::runtime::remembered;
use crate::sensor::etcd::{ListedMember, MemberList, ask_members};
use names::Names;

/// For all of it; the caller waits a little longer.
const TOTAL: Duration = Duration::from_millis(950);
/// For the local member. It answers from memory in some milliseconds, a TLS handshake included, or it hangs.
const ETCD_TIME: Duration = Duration::from_millis(650);
/// When peers are asked too, as the local member has not answered yet. In health they hear nothing of a diagnosis by this.
const ETCD_FIRST: Duration = Duration::from_millis(300);
/// For a peer: connection, TLS, one short answer.
const PEERS_TIME: Duration = Duration::from_millis(450);
/// For two small files.
const MEMORY_TIME: Duration = Duration::from_millis(500);
/// The ports of etcd when a URL names none.
const PEER_PORT: u16 = 2380;
const CLIENT_PORT: u16 = 2379;

static MEMORY: Aside = Aside::new("the kept member list and etcd's manifest");

/// See the module's head.
pub(super) async fn look(policy: &Policy, asker: &Asker) -> Seen<Members> {
    let until = Instant::now() + TOTAL;
    match find(policy, asker).await {
        Ok((source, list)) => {
            let hosts = list.members.iter().filter_map(peer_host).filter(|host| host.parse::<IpAddr>().is_err());
            let names = names::resolve(hosts.map(str::to_owned).collect(), until.duration_since(Instant::now())).await;
            Seen::Yes(members(source, &list, &names))
        }
        Err(reason) => Seen::No(reason),
    }
}

/// The best list that is to be had.
async fn find(policy: &Policy, asker: &Asker) -> Result<(MemberSource, MemberList), String> {
    let mut asked = pin!(ask_members(&policy.etcd, ETCD_TIME));
    let (first, memory) = tokio::join!(timeout(ETCD_FIRST, asked.as_mut()), recall(policy));
    let known = memory.and_then(Memory::list);
    let others = async || match &known {
        Ok((source, list)) => peer::ask(&others(*source, list), asker, PEERS_TIME).await,
        Err(_) => None,
    };
    let (asked, told) = match first {
        Ok(Ok(list)) => (Ok(list), None),
        Ok(Err(silent)) => (Err(silent), others().await),
        Err(_) => tokio::join!(asked, others()),
    };
    match (asked, told, known) {
        (Ok(list), _, _) => Ok((MemberSource::Etcd, list)),
        (Err(_), Some(list), Ok((_, known))) => Ok((MemberSource::Peer, MemberList { own_id: known.own_id, ..list })),
        (Err(_), _, Ok(known)) => Ok(known),
        (Err(silent), _, Err(forgotten)) => Err(format!("{silent}; {forgotten}")),
    }
}

/// Those of a list that are not this node.
fn others(source: MemberSource, list: &MemberList) -> Vec<Member> {
    let all = members(source, list, &Names::default());
    let own = own::find(&all, &own::host_name());
    all.list.iter().filter(|member| own != Some(member)).cloned().collect()
}

/// What is known without anybody's answer.
struct Memory {
    remembered: Result<Option<MemberList>, String>,
    flags: Result<Flags, String>,
}

async fn recall(policy: &Policy) -> Result<Memory, String> {
    let (state_dir, manifest) = (policy.state_dir.clone(), flags::manifest_path(policy));
    let read = move || Memory { remembered: remembered::recall(&state_dir), flags: flags::read(&manifest) };
    MEMORY.read(MEMORY_TIME, read).await
}

impl Memory {
    /// The better one of the two lists.
    fn list(self) -> Result<(MemberSource, MemberList), String> {
        let kept = match self.remembered {
            Ok(Some(list)) if !list.members.is_empty() => return Ok((MemberSource::Remembered, list)),
            Ok(_) => "the daemon kept no list".to_owned(),
            Err(reason) => reason,
        };
        let initial =
            self.flags.and_then(|flags| initial(&flags).ok_or_else(|| "etcd's flags name no initial cluster".to_owned()));
        initial.map(|list| (MemberSource::InitialCluster, list)).map_err(|reason| format!("{kept}; {reason}"))
    }
}

/// The members of `--initial-cluster`; ids are not known.
fn initial(flags: &Flags) -> Option<MemberList> {
    let pairs = url::initial_cluster(flags.get("initial-cluster")?);
    let member = |(name, peer_urls)| ListedMember { name, peer_urls, ..ListedMember::default() };
    let list = MemberList { own_id: 0, members: pairs.into_iter().map(member).collect() }.bounded();
    (!list.members.is_empty()).then_some(list)
}

/// The host of a member's first peer URL that has one; one that is an address goes before names.
fn peer_host(member: &ListedMember) -> Option<&str> {
    let hosts = || member.peer_urls.iter().filter_map(|url| url::host_and_port(url)).map(|(host, _)| host);
    hosts().find(|host| host.parse::<IpAddr>().is_ok()).or_else(|| hosts().next())
}

fn members(source: MemberSource, list: &MemberList, names: &Names) -> Members {
    Members {
        source,
        list: list.members.iter().map(|listed| member(listed, names)).collect(),
        own_id: (list.own_id != 0).then_some(MemberId(list.own_id)),
        unresolved: names.unresolved(),
    }
}

fn member(listed: &ListedMember, names: &Names) -> Member {
    let host = peer_host(listed);
    let address = host.and_then(|host| host.parse().ok().or_else(|| names.address(host)));
    let port = |urls: &[String], default: u16| {
        let found = urls.iter().filter_map(|url| url::host_and_port(url)).find(|(of, _)| urls.len() == 1 || Some(*of) == host);
        found.and_then(|(_, port)| port).unwrap_or(default)
    };
    Member {
        id: MemberId(listed.id),
        name: listed.name.clone(),
        address,
        peer_port: port(&listed.peer_urls, PEER_PORT),
        client_port: port(&listed.client_urls, CLIENT_PORT),
        learner: listed.learner,
    }
}
