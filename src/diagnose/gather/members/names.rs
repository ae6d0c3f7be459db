//! Names in peer URLs, resolved as this host does it: `/etc/hosts`, else getent(1).
//!
//! A process of its own, and not the library of this one: a resolver that hangs cannot be ended inside a process, and a statically linked
//! one does not read the host's modules. Invariant: whatever the resolver does, all have ended some milliseconds after the deadline.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::Path;
use std::time::Duration;

use super::super::aside::Aside;
use super::super::command::{self, Output};
use super::url;
use crate::runtime::small_file;

/// Names that are looked up; a cluster has a handful of members.
const NAMES_MAX: usize = 8;
/// What is left for the end of those processes.
const MARGIN: Duration = Duration::from_millis(100);
/// Bytes of `/etc/hosts` that are borne.
const HOSTS_BYTES_MAX: usize = 1 << 20;
/// Bytes of getent's answer that are borne.
const ANSWER_BYTES_MAX: usize = 64 * 1024;
/// getent(1): one or more keys could not be found.
const NOT_FOUND: i32 = 2;

static RESOLVER: Aside = Aside::new("the resolver");

/// What came of each name: an address, or none; one that could not be looked up at all is not in it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Names(pub(super) BTreeMap<String, Option<IpAddr>>);

impl Names {
    pub(super) fn address(&self, name: &str) -> Option<IpAddr> {
        self.0.get(name).copied().flatten()
    }

    pub(super) fn unresolved(&self) -> Vec<String> {
        self.0.iter().filter(|(_, address)| address.is_none()).map(|(name, _)| name.clone()).collect()
    }
}

/// Looks them up side by side. A name without an answer within `deadline` counts as one without an address.
pub(super) async fn resolve(mut names: Vec<String>, deadline: Duration) -> Names {
    names.sort();
    names.dedup();
    names.truncate(NAMES_MAX);
    if names.is_empty() {
        return Names::default();
    }
    let each = deadline.saturating_sub(MARGIN);
    RESOLVER.read(deadline, move || all(&names, each)).await.unwrap_or_default()
}

fn all(names: &[String], deadline: Duration) -> Names {
    let hosts = small_file::read(Path::new("/etc/hosts"), HOSTS_BYTES_MAX).unwrap_or_default();
    let hosts = String::from_utf8_lossy(&hosts);
    std::thread::scope(|scope| {
        let asked: Vec<_> = names
            .iter()
            .map(|name| match url::in_hosts(&hosts, name) {
                Some(address) => (name, Ok(Some(address))),
                None => (name, Err(scope.spawn(move || ask(name, deadline)))),
            })
            .collect();
        let answers = asked.into_iter().filter_map(|(name, answer)| {
            let answer = answer.map_or_else(|thread| thread.join().ok().flatten(), Some);
            answer.map(|address| (name.clone(), address))
        });
        Names(answers.collect())
    })
}

fn ask(name: &str, deadline: Duration) -> Option<Option<IpAddr>> {
    judge(command::run("getent", &["ahosts", "--", name], deadline, ANSWER_BYTES_MAX))
}

/// The address that getent named, or that there is none; `None` if it could not be asked.
fn judge(answer: Result<Output, String>) -> Option<Option<IpAddr>> {
    match answer {
        Ok(output) if output.code == Some(0) => Some(first(&output.out)),
        Ok(output) if output.code == Some(NOT_FOUND) => Some(None),
        Ok(_) => None,
        // The resolver's servers do not answer: etcd waits for them like this.
        Err(reason) if reason.ends_with(command::LATE) => Some(None),
        Err(_) => None,
    }
}

/// `192.0.2.1       STREAM cp1.example`
fn first(answer: &[u8]) -> Option<IpAddr> {
    String::from_utf8_lossy(answer).split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn names_are_resolved_as_the_host_does_it() {
        let names = vec!["localhost".to_owned(), "localhost".to_owned()];
        let found = resolve(names, Duration::from_secs(30)).await;
        assert!(found.address("localhost").is_some_and(|address| address.is_loopback()), "{found:?}");
        assert!(found.unresolved().is_empty());
        assert_eq!(resolve(Vec::new(), Duration::ZERO).await, Names::default());
        assert!(ask("localhost", Duration::from_secs(30)).flatten().is_some_and(|address| address.is_loopback()));
    }

    #[test]
    fn a_name_that_is_not_found_or_whose_resolver_hangs_has_no_address_and_a_missing_tool_tells_nothing() {
        let ended = |code, out: &[u8]| Ok(Output { code: Some(code), out: out.to_vec(), error: String::new() });
        let address = Some([192, 0, 2, 1].into());
        assert_eq!(judge(ended(0, b"192.0.2.1       STREAM cp1.example\n192.0.2.1 DGRAM\n")), Some(address));
        assert_eq!(judge(ended(2, b"")), Some(None));
        assert_eq!(judge(Err(format!("getent {}", command::LATE))), Some(None));
        assert_eq!(judge(ended(1, b"")), None);
        assert_eq!(judge(Err("getent is not installed".to_owned())), None);
        let names = Names([("cp1".to_owned(), address), ("cp2".to_owned(), None)].into());
        assert_eq!((names.address("cp1"), names.unresolved()), (address, vec!["cp2".to_owned()]));
    }
}
