//! Whether the policy's FIP is really the address of a member of this cluster (kube-vip#1288): whoever moved that about would cut
//! a node off from its cluster.
//!
//! Invariant: while the FIP is a member's address, every answer of etcd is `Unknown`, so that nothing is done at all. A list that
//! cannot be read refuses nothing: it is asked for again with the next question.
//!
//! Cancel-safe: the cache changes between awaits only.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::{Instant, timeout_at};

use super::link::Kept;
use super::member_list::{ListedMember, MemberList};
use crate::decision::time::Moment;
use crate::runtime::clock;

/// Members change when nodes are replaced: rarely, and by people.
const ASK_EVERY: Duration = Duration::from_secs(600);

/// The FIP against the member list, as it was read last.
#[derive(Debug)]
pub(super) struct Members {
    fip: Option<Ipv4Addr>,
    last: Mutex<Option<Last>>,
}

/// A list that was read.
#[derive(Debug, Clone)]
struct Last {
    at: Moment,
    list: Arc<MemberList>,
    /// The member whose address the FIP is.
    owner: Option<String>,
}

impl Members {
    /// Nothing has been asked. Without a FIP nothing ever is.
    pub(super) const fn new(fip: Option<Ipv4Addr>) -> Self {
        Self { fip, last: Mutex::new(None) }
    }

    /// Why nothing may be done about this FIP, from a list that is not older than [`ASK_EVERY`] if it can be read until `until`.
    pub(super) async fn refusal(&self, kept: &Kept, until: Instant) -> Option<String> {
        let fip = self.fip?;
        let now = clock::now();
        let due = self.last().as_ref().is_none_or(|last| now.since(last.at) >= ASK_EVERY);
        if due && let Ok(Ok(list)) = timeout_at(until, kept.client.cluster_client().member_list()).await {
            let list = Arc::new(MemberList::of(&list));
            let owner = list.members.iter().find(|member| has_address(member, fip)).map(describe);
            *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Some(Last { at: now, list, owner });
        }
        let owner = self.last()?.owner?;
        Some(format!("fip.address {fip} is the address of {owner}, not a floating one"))
    }

    /// The list as it was read last.
    pub(super) fn list(&self) -> Option<Arc<MemberList>> {
        self.last().map(|last| last.list)
    }

    fn last(&self) -> Option<Last> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

fn describe(member: &ListedMember) -> String {
    format!("the etcd member {} ({:x})", member.name, member.id)
}

fn has_address(member: &ListedMember, fip: Ipv4Addr) -> bool {
    member.peer_urls.iter().chain(&member.client_urls).any(|url| host(url) == Some(IpAddr::V4(fip)))
}

/// The host of `https://192.0.2.1:2380`, if it is an address. A name is no address of the FIP's kind, and is not looked up.
fn host(url: &str) -> Option<IpAddr> {
    host_and_port(url)?.0.parse().ok()
}

/// Host and port of `https://192.0.2.1:2380`, an IPv6 address without its brackets.
pub(super) fn host_and_port(url: &str) -> Option<(&str, Option<u16>)> {
    let (_, authority) = url.split_once("://")?;
    let authority = authority.split('/').next()?;
    let (host, port) = match authority.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => (host, Some(port.parse().ok()?)),
        Some(_) | None => (authority, None),
    };
    Some((host.trim_start_matches('[').trim_end_matches(']'), port))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_host_of_a_members_url_is_found_whatever_follows_it() {
        let address = Some(IpAddr::V4(Ipv4Addr::new(192, 168, 111, 202)));
        for url in ["https://192.168.111.202:2380", "https://192.168.111.202:2379/", "http://192.168.111.202"] {
            assert_eq!(host(url), address, "{url}");
        }
        assert_eq!(host_and_port("https://[2001:db8::2]:2380"), Some(("2001:db8::2", Some(2380))));
        assert_eq!(host_and_port("https://[2001:db8::2]"), Some(("2001:db8::2", None)));
        for url in ["https://cp2.example:2380", "192.168.111.202:2380", "https://192.168.111.2020:2380", ""] {
            assert_eq!(host(url), None, "{url}");
        }
    }
}
