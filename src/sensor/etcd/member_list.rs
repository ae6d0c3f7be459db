//! The member list as etcd has it, in a shape that can be kept: who is in the cluster, for the time when nobody answers.
//!
//! Asked without a quorum: the local member answers from its own store (etcd 3.4 always, later ones because `linearizable` is false), also
//! while it is cut off. Invariant: counts and lengths are bounded, whoever wrote them.

use std::time::Duration;

use etcd_client::{Member, MemberListResponse};
use serde::{Deserialize, Serialize};
use tokio::time::{Instant, timeout_at};

use super::fault::{classify, sentence};
use super::link::{EtcdLink, NoClient};
use crate::audit::text::clip;
use crate::decision::observation::EtcdFault;
use crate::policy::EtcdPolicy;

/// More than any etcd cluster has (7 is advised as the most), learners included.
pub const MEMBERS_MAX: usize = 32;
/// URLs of one kind of one member that are taken.
const URLS_MAX: usize = 8;
/// Bytes of a name or URL: a DNS name has at most 253.
const TEXT_BYTES_MAX: usize = 300;

/// Who is in the cluster.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemberList {
    /// The id of the member that said so; zero when that is not known.
    pub own_id: u64,
    /// The members, in etcd's order: by id.
    pub members: Vec<ListedMember>,
}

/// A member as the list has it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListedMember {
    /// Its id.
    pub id: u64,
    /// Its name; empty before it has started for the first time.
    pub name: String,
    /// Where its peers call it.
    pub peer_urls: Vec<String>,
    /// Where clients call it; empty before it has started for the first time.
    pub client_urls: Vec<String>,
    /// It has no vote.
    pub learner: bool,
}

impl MemberList {
    pub(super) fn of(response: &MemberListResponse) -> Self {
        let own_id = response.header().map_or(0, etcd_client::ResponseHeader::member_id);
        let members = response.members().iter().map(ListedMember::of).collect();
        Self { own_id, members }.bounded()
    }

    /// The same with no more in it than may be, for lists that somebody else wrote.
    #[must_use]
    pub fn bounded(mut self) -> Self {
        self.members.truncate(MEMBERS_MAX);
        for member in &mut self.members {
            member.name = clip(&member.name, TEXT_BYTES_MAX);
            for urls in [&mut member.peer_urls, &mut member.client_urls] {
                urls.truncate(URLS_MAX);
                for url in urls {
                    *url = clip(url, TEXT_BYTES_MAX);
                }
            }
        }
        self
    }
}

impl ListedMember {
    fn of(member: &Member) -> Self {
        Self {
            id: member.id(),
            name: member.name().to_owned(),
            peer_urls: member.peer_urls().to_vec(),
            client_urls: member.client_urls().to_vec(),
            learner: member.is_learner(),
        }
    }
}

/// Asks the policy's member for the list, over a connection of its own, for `deadline` at most.
///
/// # Errors
/// It gave none; why, as part of a sentence.
pub async fn ask_members(policy: &EtcdPolicy, deadline: Duration) -> Result<MemberList, String> {
    let until = Instant::now() + deadline;
    let link = EtcdLink::for_once(policy.clone());
    let kept = match timeout_at(until, link.client()).await {
        Err(_elapsed) => return Err("the etcd certificates could not be read within the deadline".to_owned()),
        Ok(Err(NoClient::CannotAsk(reason))) => return Err(reason),
        Ok(Err(NoClient::Fault(fault))) => return Err(sentence(&fault)),
        Ok(Ok(kept)) => kept,
    };
    match timeout_at(until, kept.client.cluster_client().member_list()).await {
        Ok(Ok(list)) => Ok(MemberList::of(&list)),
        Ok(Err(error)) => Err(sentence(&classify(&error, false))),
        Err(_elapsed) => Err(sentence(&EtcdFault::TimedOut)),
    }
}
