//! The flags that etcd runs with, from its static pod's manifest, else from the command line of its process.
//!
//! The manifest goes first: it is there while etcd crash-loops, and it is what the kubelet will start. Paths in it are those inside the
//! container; kubeadm mounts them under the same names. Blocking: call it where a hung disk does no harm. Sizes and counts are bounded.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::policy::Policy;
use crate::runtime::small_file;

/// kubeadm's manifest of etcd has some 3 KiB.
const MANIFEST_BYTES_MAX: usize = 256 * 1024;
/// A command line longer than this is not etcd's.
const COMMAND_BYTES_MAX: usize = 64 * 1024;
/// Processes that are looked at; a node with pods has some hundreds.
const PROCESSES_MAX: usize = 32_768;

/// Flags by name, without dashes: `initial-cluster`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Flags(BTreeMap<String, String>);

impl Flags {
    /// The value of a flag that is set.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }

    /// The same as an absolute path.
    pub(super) fn path(&self, name: &str) -> Option<PathBuf> {
        self.get(name).map(PathBuf::from).filter(|path| path.is_absolute())
    }

    /// `--name=value`, `-name=value`, `--name value`, `--name`; the last of two wins, as with Go's flags.
    fn of_words(words: &[String]) -> Self {
        let mut flags = BTreeMap::new();
        for (at, word) in words.iter().enumerate() {
            let Some(flag) = word.strip_prefix("--").or_else(|| word.strip_prefix('-')) else { continue };
            let next = || words.get(at + 1).filter(|next| !next.starts_with('-')).cloned();
            let (name, value) = flag
                .split_once('=')
                .map_or_else(|| (flag, next().unwrap_or_else(|| "true".to_owned())), |(name, value)| (name, value.to_owned()));
            flags.insert(name.to_owned(), value);
        }
        Self(flags)
    }

    /// Those of a static pod's manifest: of the first container whose program is etcd.
    fn of_manifest(content: &[u8]) -> Option<Self> {
        let pod: Pod = parse(content)?;
        pod.spec.containers.iter().find_map(|container| {
            let words = [container.command.as_slice(), container.args.as_slice()].concat();
            let is_etcd = container.name == "etcd" || words.first().is_some_and(|program| is_etcd(program));
            let flags = Self::of_words(&words);
            (is_etcd && !flags.0.is_empty()).then_some(flags)
        })
    }

    /// Those of a command line as `/proc/<pid>/cmdline` has it.
    fn of_command(command: &[u8]) -> Option<Self> {
        let words: Vec<String> =
            command.split(|byte| *byte == 0).map(|word| String::from_utf8_lossy(word).into_owned()).collect();
        words.first().is_some_and(|program| is_etcd(program)).then(|| Self::of_words(&words))
    }
}

/// Where etcd's manifest is: beside the loop's, in the kubelet's directory.
pub(super) fn manifest_path(policy: &Policy) -> PathBuf {
    policy.watched_loop.manifest.with_file_name("etcd.yaml")
}

/// The flags from the manifest, else from a process. Blocking.
///
/// # Errors
/// Neither gave any; why, for people.
pub(super) fn read(manifest: &Path) -> Result<Flags, String> {
    let why = match small_file::read(manifest, MANIFEST_BYTES_MAX) {
        Ok(content) => match Flags::of_manifest(&content) {
            Some(flags) => return Ok(flags),
            None => "it declares no etcd".to_owned(),
        },
        Err(error) => error.to_string(),
    };
    of_process().ok_or_else(|| format!("{}: {why}, and no process of etcd is to be seen", manifest.display()))
}

/// The flags of a process called etcd in this network: a member runs in the host's, the etcd of some pod in its pod's.
fn of_process() -> Option<Flags> {
    let network = |process: &Path| std::fs::read_link(process.join("ns/net")).ok();
    let own = network(Path::new("/proc/thread-self"));
    std::fs::read_dir("/proc").ok()?.take(PROCESSES_MAX).flatten().find_map(|entry| {
        let is_process = entry.file_name().to_str().is_some_and(|name| name.bytes().all(|byte| byte.is_ascii_digit()));
        let directory = is_process.then(|| entry.path())?;
        let name = small_file::read(&directory.join("comm"), 64).ok()?;
        let elsewhere = network(&directory).is_some_and(|network| own.as_ref().is_some_and(|own| *own != network));
        (name.as_slice() == b"etcd\n" && !elsewhere).then_some(())?;
        Flags::of_command(&small_file::read(&directory.join("cmdline"), COMMAND_BYTES_MAX).ok()?)
    })
}

fn is_etcd(program: &str) -> bool {
    Path::new(program).file_name().is_some_and(|name| name == "etcd")
}

#[derive(Deserialize)]
struct Pod {
    spec: Spec,
}

#[derive(Deserialize)]
struct Spec {
    containers: Vec<Container>,
}

#[derive(Deserialize)]
struct Container {
    #[serde(default)]
    name: String,
    #[serde(default)]
    command: Vec<String>,
    #[serde(default)]
    args: Vec<String>,
}

/// A manifest is operator's input: nodes, depth and aliases are bounded.
fn parse(mut content: &[u8]) -> Option<Pod> {
    let options = serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_nodes: 20_000,
            max_events: 80_000,
            max_depth: 64,
            max_aliases: 64,
            max_anchors: 64,
            max_documents: 8,
        },
        emit_comments: false,
    };
    serde_saphyr::read_with_options(&mut content, options).next()?.ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MANIFEST: &str = "apiVersion: v1\nkind: Pod\nmetadata:\n  name: etcd\n  namespace: kube-system\nspec:\n  containers:\n  - command:\n    - etcd\n    - --name=cp1\n    - --data-dir=/var/lib/etcd\n    - --initial-cluster=cp1=https://192.168.111.201:2380,cp2=https://192.168.111.202:2380\n    - --client-cert-auth=true\n    - --peer-cert-file\n    - /etc/kubernetes/pki/etcd/peer.crt\n    - --force-new-cluster\n    - --snapshot-count=10000\n    name: etcd\n  hostNetwork: true\n";

    #[test]
    fn the_flags_of_kubeadms_manifest_are_read_in_either_spelling() {
        let flags = Flags::of_manifest(MANIFEST.as_bytes()).unwrap();
        assert_eq!(flags.get("name"), Some("cp1"));
        assert_eq!(flags.get("initial-cluster"), Some("cp1=https://192.168.111.201:2380,cp2=https://192.168.111.202:2380"));
        assert_eq!(flags.path("peer-cert-file"), Some(PathBuf::from("/etc/kubernetes/pki/etcd/peer.crt")));
        assert_eq!(flags.get("force-new-cluster"), Some("true"));
        assert_eq!((flags.get("snapshot-count"), flags.get("cert-file")), (Some("10000"), None));
    }

    #[test]
    fn a_manifest_is_read_from_its_file_and_one_that_is_not_there_is_named() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("etcd.yaml");
        small_file::replace(&path, MANIFEST.as_bytes()).unwrap();
        assert_eq!(read(&path).unwrap().get("name"), Some("cp1"));
        let policy = Policy::with_defaults([192, 0, 2, 1].into(), "eth0");
        assert_eq!(manifest_path(&policy), Path::new("/etc/kubernetes/manifests/etcd.yaml"));
    }

    #[test]
    fn a_command_line_is_etcds_by_its_program_alone() {
        let flags = Flags::of_command(b"/usr/bin/etcd\0--name=cp2\0-data-dir=/x\0--name\0cp3\0").unwrap();
        assert_eq!((flags.get("name"), flags.get("data-dir")), (Some("cp3"), Some("/x")));
        for other in [&b"etcdctl\0--name=cp2"[..], b"", b"\0\0", b"sh\0-c\0etcd --name=x"] {
            assert_eq!(Flags::of_command(other), None);
        }
    }

    #[test]
    fn what_declares_no_etcd_has_no_flags() {
        let other = MANIFEST.replace("name: etcd", "name: x").replace("- etcd\n", "- sh\n");
        let bomb = format!("spec: {}", "[".repeat(100_000));
        for content in ["", "\0", "kind: Pod", "spec: {containers: [{name: etcd}]}", "a: [", &other, &bomb] {
            assert_eq!(Flags::of_manifest(content.as_bytes()), None, "{content:.40}");
        }
    }
}
