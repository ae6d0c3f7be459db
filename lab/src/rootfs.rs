//! The root file system that all nodes share, read-only: built once by `mmdebstrap`, kept outside the checkout, keyed by its recipe.
//!
//! Built beside its final place and renamed, under a lock: whoever finds the directory finds it whole.

use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;
use rustix::fs::{FlockOperation, flock};
use sha2::{Digest as _, Sha256};
use tokio::process::Command;

use crate::{command, teardown};

/// What a node needs beyond `minbase`; small tools that an operator misses in a shell are worth their few hundred KiB.
const PACKAGES: &str =
    "systemd,systemd-sysv,dbus,iproute2,iputils-ping,etcd-server,etcd-client,jq,curl,procps,nftables,util-linux,ca-certificates";

/// Run in the new root. No unit of the distribution's own may do anything by itself in a node: each would cost boot time
/// and noise in the journal, and Debian's etcd would take the ports.
const CUSTOMIZE: &str = r#"set -eu
cd "$1"
rm -f etc/hostname etc/resolv.conf
: >etc/machine-id
rm -rf etc/systemd/system/*.wants var/lib/apt/lists/* var/cache/apt/* var/log/* var/lib/etcd
rm -f lib/systemd/system/etcd.service usr/lib/systemd/system/etcd.service
mkdir -p var/log/journal
for unit in systemd-logind systemd-networkd systemd-resolved systemd-timesyncd systemd-update-utmp systemd-update-utmp-runlevel \
  systemd-firstboot ldconfig systemd-journal-catalog-update systemd-update-done systemd-boot-update systemd-pcrphase systemd-sysext \
  console-getty getty@ serial-getty@ container-getty@ nftables e2scrub_reap modprobe@; do
  ln -sf /dev/null "etc/systemd/system/$unit.service"
done
for unit in getty.target remote-fs.target nss-lookup.target systemd-tmpfiles-clean.timer apt-daily.timer apt-daily-upgrade.timer \
  dpkg-db-backup.timer fstrim.timer e2scrub_all.timer; do
  ln -sf /dev/null "etc/systemd/system/$unit"
done
ln -sf /lib/systemd/system/multi-user.target etc/systemd/system/default.target
"#;

/// Documentation and translations are two thirds of a minimal Debian.
const EXCLUDED: [&str; 3] = ["/usr/share/doc/*", "/usr/share/man/*", "/usr/share/locale/*"];

/// A mirror may be slow; a build that takes longer than this is not going to end.
const BUILD_LIMIT: Duration = Duration::from_secs(15 * 60);

/// What the root file system is made of.
#[derive(Debug)]
struct Recipe {
    suite: String,
    sources: PathBuf,
    sources_text: String,
}

impl Recipe {
    /// The host's own release and package sources, unless `FIP_LAB_SUITE` and `FIP_LAB_SOURCES` say otherwise.
    fn of_host() -> anyhow::Result<Self> {
        let suite = match std::env::var("FIP_LAB_SUITE") {
            Ok(suite) => suite,
            Err(_) => {
                let release = fs::read_to_string("/etc/os-release").context("cannot read /etc/os-release")?;
                codename(&release)
                    .context("/etc/os-release has no VERSION_CODENAME: set FIP_LAB_SUITE (for instance bookworm)")?
            }
        };
        let sources = match std::env::var_os("FIP_LAB_SOURCES") {
            Some(path) => PathBuf::from(path),
            None => find_sources(Path::new("/etc/apt"))
                .context("no package sources of Debian or Ubuntu found under /etc/apt: set FIP_LAB_SOURCES to a sources file")?,
        };
        let sources_text = fs::read_to_string(&sources).with_context(|| format!("cannot read {}", sources.display()))?;
        Ok(Self { suite, sources, sources_text })
    }

    /// Sixteen hex digits are plenty to tell recipes apart.
    fn key(&self) -> String {
        let parts = [self.suite.as_str(), self.sources_text.as_str(), PACKAGES, CUSTOMIZE, &EXCLUDED.concat()];
        let mut hasher = Sha256::new();
        for part in parts {
            hasher.update(u64::try_from(part.len()).unwrap_or(u64::MAX).to_le_bytes());
            hasher.update(part.as_bytes());
        }
        hasher.finalize().iter().take(8).map(|byte| format!("{byte:02x}")).collect()
    }

    fn command(&self, target: &Path, hook: &Path) -> Command {
        // In namespaces of its own, that die with this process: a build whose fip-lab was killed must not go on in a directory
        // that the next one clears away, and what it mounts (the host's /dev/shm among it) must not be there to be cleared.
        let mut command = Command::new("setpriv");
        command.args([
            "--pdeathsig",
            "KILL",
            "--",
            "unshare",
            "--mount",
            "--pid",
            "--fork",
            "--kill-child",
            "--mount-proc",
            "--",
        ]);
        command.arg("mmdebstrap");
        command.args(["--mode=root", "--variant=minbase", "--quiet"]);
        command.arg(format!("--include={PACKAGES}"));
        for path in EXCLUDED {
            command.arg(format!("--dpkgopt=path-exclude={path}"));
        }
        command.arg(format!("--customize-hook={}", hook.display()));
        command.arg(&self.suite).arg(target).arg(&self.sources);
        command
    }
}

/// The distribution's own sources: third parties' are of no use in a node, and their keys may be missing.
fn find_sources(apt: &Path) -> Option<PathBuf> {
    let names_distribution = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        (name.contains("debian") || name.contains("ubuntu")) && (name.ends_with(".sources") || name.ends_with(".list"))
    };
    let listed = fs::read_dir(apt.join("sources.list.d")).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut own: Vec<PathBuf> = listed.filter(names_distribution).collect();
    own.sort();
    // One that says nothing is what newer releases leave of it.
    let says_something =
        |path: &PathBuf| fs::read_to_string(path).is_ok_and(|text| text.lines().any(|line| line.starts_with("deb ")));
    own.into_iter().next().or_else(|| Some(apt.join("sources.list")).filter(says_something))
}

fn codename(os_release: &str) -> Option<String> {
    let value = os_release.lines().find_map(|line| line.strip_prefix("VERSION_CODENAME="))?;
    Some(value.trim_matches('"').to_owned()).filter(|value| !value.is_empty())
}

/// `${XDG_CACHE_HOME:-/var/cache}/fip-lab`.
fn cache() -> PathBuf {
    let base = std::env::var_os("XDG_CACHE_HOME").filter(|value| !value.is_empty());
    PathBuf::from(base.unwrap_or_else(|| "/var/cache".into())).join("fip-lab")
}

/// The path of the root file system, built if the cache does not have it.
///
/// # Errors
/// The build fails; what `mmdebstrap` said is in the error.
pub async fn ensure(progress: &mut dyn FnMut(&str)) -> anyhow::Result<PathBuf> {
    let recipe = Recipe::of_host()?;
    let cache = cache();
    let root = cache.join(format!("rootfs-{}", recipe.key()));
    anyhow::ensure!(
        !root.to_string_lossy().contains([':', ',', '\\', '\n']),
        "the cache path {} has a character that overlayfs options cannot carry: set XDG_CACHE_HOME",
        root.display()
    );
    if root.is_dir() {
        return Ok(root);
    }
    fs::create_dir_all(&cache).with_context(|| format!("cannot create {}", cache.display()))?;
    let _lock = lock(&cache.join("rootfs.lock"), progress).await?;
    if root.is_dir() {
        return Ok(root);
    }
    remove_partial(&cache)?;
    progress(&format!("building the root file system from {} (a minute or two, once) …", recipe.suite));
    let partial = tempfile::Builder::new().prefix("partial-").tempdir_in(&cache).context("cannot create a build directory")?;
    let hook = partial.path().join("customize");
    fs::write(&hook, format!("#!/bin/sh\n{CUSTOMIZE}")).context("cannot write the customize hook")?;
    fs::set_permissions(&hook, fs::Permissions::from_mode(0o755)).context("cannot make the customize hook executable")?;
    let target = partial.path().join("root");
    command::success(&mut recipe.command(&target, &hook), BUILD_LIMIT).await.context("cannot build the root file system")?;
    fs::rename(&target, &root).with_context(|| format!("cannot move the root file system to {}", root.display()))?;
    Ok(root)
}

/// Remains of builds that were killed; nobody else builds while the lock is held.
fn remove_partial(cache: &Path) -> anyhow::Result<()> {
    for entry in fs::read_dir(cache).with_context(|| format!("cannot list {}", cache.display()))?.flatten() {
        if entry.file_name().to_string_lossy().starts_with("partial-") {
            teardown::unmount_below(&entry.path())?;
            fs::remove_dir_all(entry.path()).with_context(|| format!("cannot remove {}", entry.path().display()))?;
        }
    }
    Ok(())
}

async fn lock(path: &Path, progress: &mut dyn FnMut(&str)) -> anyhow::Result<File> {
    let file = File::create(path).with_context(|| format!("cannot open {}", path.display()))?;
    let waiting = async {
        let mut told = false;
        loop {
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => return Ok(()),
                Err(rustix::io::Errno::WOULDBLOCK) => {}
                Err(error) => return Err(error),
            }
            if !told {
                progress("another fip-lab builds the root file system, waiting for it …");
                told = true;
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    };
    let waited = tokio::time::timeout(BUILD_LIMIT, waiting).await;
    waited.context("another fip-lab has held the lock of the root file system for too long")?.context("cannot lock the cache")?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recipe(suite: &str) -> Recipe {
        Recipe { suite: suite.to_owned(), sources: PathBuf::from("/s"), sources_text: String::new() }
    }

    #[test]
    fn another_recipe_has_another_key_and_the_same_one_the_same() {
        assert_eq!(recipe("bookworm").key(), recipe("bookworm").key());
        assert_ne!(recipe("bookworm").key(), recipe("trixie").key());
        assert_eq!(recipe("bookworm").key().len(), 16);
    }

    #[test]
    fn the_distributions_own_sources_are_found_under_each_of_their_names() {
        let apt = tempfile::tempdir().unwrap();
        let put = |name: &str, text: &str| crate::seed::write_file(&apt.path().join(name), text.as_bytes(), 0o644).unwrap();
        put("sources.list.d/aaa-nodesource.sources", "Types: deb\n");
        put("sources.list", "# moved\n");
        assert_eq!(find_sources(apt.path()), None);
        put("sources.list", "deb http://deb.debian.org/debian bookworm main\n");
        assert_eq!(find_sources(apt.path()).unwrap(), apt.path().join("sources.list"));
        put("sources.list.d/0000debian.sources", "Types: deb\n");
        assert_eq!(find_sources(apt.path()).unwrap(), apt.path().join("sources.list.d/0000debian.sources"));
    }

    #[test]
    fn codename_is_read_with_and_without_quotes() {
        assert_eq!(codename("NAME=x\nVERSION_CODENAME=bookworm\n").as_deref(), Some("bookworm"));
        assert_eq!(codename("VERSION_CODENAME=\"noble\"").as_deref(), Some("noble"));
        assert_eq!(codename("VERSION_CODENAME=\n"), None);
    }
}
