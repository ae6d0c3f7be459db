//! `fip-watchdog init`: a policy from what the node's own manifest says, on standard output.
//!
//! The manifest of the loop is a pod with a shell script in it. The pod's names are read as YAML; FIP, interface, intervals and
//! certificate paths are looked for in its text as the script's commands spell them. What is not found keeps its default, and a
//! guess is never made about the FIP: with no candidate or several the operator must name it.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Read, Write};
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;

use crate::policy::Policy;
use crate::policy::check::check;
use crate::policy::render::render;
use crate::policy::value::address as unicast;

use super::check::{EX_CONFIG, EX_IOERR, EX_NOINPUT, EX_OK};

/// Longest manifest that is read; the kubelet itself takes at most 10 MiB, the loop's is some KiB.
const MANIFEST_MAX: u64 = 256 * 1024;

/// What the operator names.
#[derive(Debug, Clone)]
pub struct Options {
    /// The loop's manifest.
    pub manifest: PathBuf,
    /// The FIP, if it is not to be looked for.
    pub address: Option<Ipv4Addr>,
    /// The interface, if it is not to be looked for.
    pub interface: Option<String>,
}

/// The parts of a pod that matter here.
#[derive(Debug, Default, Deserialize)]
struct Pod {
    #[serde(default)]
    metadata: Named,
    #[serde(default)]
    spec: Spec,
}

#[derive(Debug, Default, Deserialize)]
struct Named {
    name: Option<String>,
    namespace: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
struct Spec {
    #[serde(default)]
    containers: Vec<Named>,
}

/// Writes a policy to `out` and what it was made from to `err`; answers the exit code.
pub fn run(options: &Options, out: &mut impl Write, err: &mut impl Write) -> u8 {
    let written = match policy_for(options) {
        Ok((policy, notes)) => notes
            .iter()
            .try_for_each(|note| writeln!(err, "{note}"))
            .and_then(|()| out.write_all(render(&policy).as_bytes()))
            .and_then(|()| out.flush())
            .map(|()| EX_OK),
        Err((code, message)) => writeln!(err, "{message}").map(|()| code),
    };
    match written {
        Ok(code) => code,
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => EX_OK,
        Err(_) => EX_IOERR,
    }
}

/// The policy and what to tell the operator, or an exit code and why there is none.
fn policy_for(options: &Options) -> Result<(Policy, Vec<String>), (u8, String)> {
    let manifest = options.manifest.display();
    let text = read(&options.manifest).map_err(|error| (EX_NOINPUT, format!("cannot read the manifest {manifest}: {error}")))?;
    let address = match options.address {
        Some(address) => address,
        None => only(addresses(&text))
            .map_err(|several| (EX_CONFIG, format!("{manifest}: {several}: name the FIP with --address")))?,
    };
    let interface = match &options.interface {
        Some(interface) => interface.clone(),
        None => only(interfaces(&text))
            .map_err(|several| (EX_CONFIG, format!("{manifest}: {several}: name the interface with --interface")))?,
    };
    let mut policy = Policy::with_defaults(address, &interface);
    policy.watched_loop.manifest.clone_from(&options.manifest);
    policy.cycle.staging_dir = crate::policy::combination::default_staging_dir(&options.manifest);
    let mut notes = vec![format!("FIP {address} on {interface}, from {manifest}")];
    adopt_names(&mut policy, &text, &mut notes);
    adopt_script(&mut policy, &text);
    widen(&mut policy);
    // The script's own words went in unchecked.
    check(&render(&policy), Path::new("found")).map(|policy| (policy, notes)).map_err(|faults| (EX_CONFIG, faults.to_string()))
}

fn read(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    File::open(path)?.take(MANIFEST_MAX).read_to_string(&mut text)?;
    Ok(text)
}

/// The one element, or what is wrong with the number of them.
fn only<T: std::fmt::Display>(found: BTreeSet<T>) -> Result<T, String> {
    let several = found.iter().map(T::to_string).collect::<Vec<_>>().join(", ");
    let mut found = found.into_iter();
    match (found.next(), found.next()) {
        (Some(one), None) => Ok(one),
        (Some(_), Some(_)) => Err(format!("several candidates ({several})")),
        (None, _) => Err("no candidate".to_owned()),
    }
}

/// The addresses in a text that could be a FIP.
fn addresses(text: &str) -> BTreeSet<Ipv4Addr> {
    text.split(|c: char| !c.is_ascii_digit() && c != '.').filter_map(|word| unicast(word).ok()).collect()
}

/// The words of a script, freed from its punctuation.
fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| c.is_whitespace() || matches!(c, '"' | '\'' | ',' | ';' | '(' | ')' | '[' | ']' | '|' | '`'))
        .filter(|word| !word.is_empty())
}

/// What follows each `option` in a script; a shell variable tells nothing.
fn after<'t>(text: &'t str, option: &'t str) -> impl Iterator<Item = &'t str> {
    words(text).zip(words(text).skip(1)).filter(move |(word, next)| *word == option && !next.contains('$')).map(|(_, next)| next)
}

/// The interfaces that the script's `ip` commands name; without any, words that look like one.
fn interfaces(text: &str) -> BTreeSet<String> {
    let named: BTreeSet<_> = after(text, "dev").filter(|word| looks_like_interface(word)).map(str::to_owned).collect();
    if named.is_empty() { words(text).filter(|word| looks_like_interface(word)).map(str::to_owned).collect() } else { named }
}

fn looks_like_interface(word: &str) -> bool {
    let tail = ["eth", "ens", "eno", "enp"].into_iter().find_map(|prefix| word.strip_prefix(prefix));
    tail.is_some_and(|tail| {
        tail.starts_with(|c: char| c.is_ascii_digit()) && word.chars().all(|c| c.is_ascii_alphanumeric() || c == '.')
    })
}

fn adopt_names(policy: &mut Policy, text: &str, notes: &mut Vec<String>) {
    let pod: Pod = match serde_saphyr::from_str(text) {
        Ok(pod) => pod,
        Err(error) => {
            let first = error.to_string().lines().next().unwrap_or_default().to_owned();
            notes.push(format!("the manifest's names are not known, so the defaults stay: {first}"));
            return;
        }
    };
    let watched = &mut policy.watched_loop;
    let container = pod.spec.containers.into_iter().next().and_then(|container| container.name);
    for (field, found) in [
        (&mut watched.pod, pod.metadata.name),
        (&mut watched.namespace, pod.metadata.namespace),
        (&mut watched.container, container),
    ] {
        *field = found.unwrap_or_else(|| field.clone());
    }
}

fn adopt_script(policy: &mut Policy, text: &str) {
    let seconds =
        |option| after(text, option).find_map(|word| word.parse::<u32>().ok()).map(|number| Duration::from_secs(number.into()));
    let watched = &mut policy.watched_loop;
    watched.interval = seconds("sleep").unwrap_or(watched.interval);
    watched.query_timeout = seconds("-m").or_else(|| seconds("--max-time")).unwrap_or(watched.query_timeout);
    let path = |option| after(text, option).find(|word| word.starts_with('/')).map(PathBuf::from);
    let etcd = &mut policy.etcd;
    for (field, option) in [(&mut etcd.ca, "--cacert"), (&mut etcd.cert, "--cert"), (&mut etcd.key, "--key")] {
        *field = path(option).unwrap_or_else(|| field.clone());
    }
}

/// A slower loop needs longer patience; the defaults are kept where they are long enough.
fn widen(policy: &mut Policy) {
    let round = policy.watched_loop.worst_round();
    let longer = |time: &mut Duration, least: Duration| *time = (*time).max(least);
    longer(&mut policy.watched_loop.stalled_after, round + Duration::from_secs(4));
    let stalled = policy.watched_loop.stalled_after;
    longer(&mut policy.watched_loop.stalled_after_log_only, stalled * 3);
    longer(&mut policy.cycle.verify_timeout, round + Duration::from_secs(4));
    longer(&mut policy.limits.cooldown, policy.cycle.settle + policy.cycle.verify_timeout);
    longer(&mut policy.limits.grace, round + Duration::from_secs(4));
}

#[cfg(test)]
mod tests {
    use super::*;

    const MANIFEST: &str = r#"
apiVersion: v1
kind: Pod
metadata: { name: wcp-fip, namespace: kube-system }
spec:
  hostNetwork: true
  containers:
  - name: fip
    image: localhost:5000/vmware/wcp-fip:0.1.2.3
    command: ["/bin/sh", "-c"]
    args:
    - |
      while [ 1 ]; do
        out=$(curl -m 15 --cacert /etc/pki/ca.crt --cert /etc/pki/c.crt --key $KEY -q -s -X POST -d '{}' https://127.0.0.1:2379/v3/x)
        ip addr show eth1 | grep 'inet 192.0.2.10/' || ip addr add 192.0.2.10 dev eth1
        sleep 10
      done
"#;

    fn run_on(text: &str, address: Option<Ipv4Addr>) -> (u8, String, String) {
        let dir = tempfile::tempdir().unwrap();
        let manifest = dir.path().join("kubernetes/manifests/wcp-fip.yaml");
        std::fs::create_dir_all(manifest.parent().unwrap()).unwrap();
        File::create(&manifest).unwrap().write_all(text.as_bytes()).unwrap();
        let options = Options { manifest, address, interface: None };
        let (mut out, mut err) = (Vec::new(), Vec::new());
        let code = run(&options, &mut out, &mut err);
        (code, String::from_utf8(out).unwrap(), String::from_utf8(err).unwrap())
    }

    #[test]
    fn the_policy_holds_what_the_script_says_and_is_valid() {
        let (code, out, err) = run_on(MANIFEST, None);
        assert_eq!(code, EX_OK, "{err}");
        let policy = check(&out, Path::new("out")).unwrap();
        assert_eq!(policy.fip.interface, "eth1");
        assert_eq!(policy.watched_loop.container, "fip");
        assert_eq!(
            (policy.watched_loop.interval, policy.watched_loop.query_timeout),
            (Duration::from_secs(10), Duration::from_secs(15))
        );
        assert_eq!(policy.watched_loop.stalled_after, Duration::from_secs(30));
        assert_eq!(policy.etcd.ca, Path::new("/etc/pki/ca.crt"));
        assert_eq!(policy.etcd.key, Path::new("/etc/kubernetes/pki/etcd/server.key"), "a variable tells nothing");
        assert!(policy.cycle.staging_dir.ends_with("kubernetes/fip-watchdog.staging"));
    }

    #[test]
    fn several_candidates_are_named_and_none_is_chosen() {
        let (code, out, err) = run_on(&format!("{MANIFEST}      # was 192.0.2.11/32\n"), None);
        assert_eq!((code, out.as_str()), (EX_CONFIG, ""));
        assert!(err.ends_with("several candidates (192.0.2.10, 192.0.2.11): name the FIP with --address\n"), "{err}");
    }

    #[test]
    fn a_manifest_without_any_address_or_that_is_absent_gives_no_policy() {
        assert_eq!(run_on("kind: Pod\n", None).0, EX_CONFIG);
        let options = Options { manifest: PathBuf::from("/nonexistent/wcp-fip.yaml"), address: None, interface: None };
        assert_eq!(run(&options, &mut Vec::new(), &mut Vec::new()), EX_NOINPUT);
    }

    #[test]
    fn no_manifest_however_odd_makes_it_panic() {
        for text in ["", "---\n---\n", "dev", "-m", "sleep 99999999999", "-m 4294967295 1.1.1.1 dev eth0", "\u{feff}1.2.3.4 eth0"]
        {
            let (code, out, err) = run_on(text, None);
            assert_eq!(code == EX_OK, !out.is_empty(), "{text:?}: {err}");
        }
    }
}
