//! What the host must have before an instance can start, and installing what it lacks.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::Context as _;

use crate::command;

/// A program and the Debian package that has it.
const TOOLS: [(&str, &str); 8] = [
    ("systemd-nspawn", "systemd-container"),
    ("mmdebstrap", "mmdebstrap"),
    ("nft", "nftables"),
    ("ip", "iproute2"),
    ("nsenter", "util-linux"),
    ("unshare", "util-linux"),
    ("setsid", "util-linux"),
    ("setpriv", "util-linux"),
];

/// While it exists with exit status 101, packages that are installed start no service (Debian policy 9.3.3.1).
const POLICY_RC_D: &str = "/usr/sbin/policy-rc.d";
const POLICY_TEXT: &str = "#!/bin/sh\n# fip-lab: no service is to start while it installs packages\nexit 101\n";
/// A slow mirror, not a dead one.
const INSTALL_LIMIT_SECONDS: &str = "600";

/// Checks that the lab can run here and installs packages that it lacks.
///
/// # Errors
/// Not root, or packages are missing and cannot be installed; says which.
pub async fn prepare(progress: &mut dyn FnMut(&str)) -> anyhow::Result<()> {
    need_root()?;
    remove_stale_policy();
    make_inotify_room(progress)?;
    let missing = missing(&TOOLS, &search_path());
    if missing.is_empty() {
        return Ok(());
    }
    let list = missing.join(" ");
    let release = fs::read_to_string("/etc/os-release").unwrap_or_default();
    anyhow::ensure!(
        is_debian_like(&release) && Path::new("/usr/bin/apt-get").exists(),
        "the lab needs what Debian packages as: {list}. Install the same from this system's packages, then run it again"
    );
    progress(&format!("installing {list} …"));
    // Not cancelled half-way: a package manager that is killed leaves the host half configured. The runtime waits for it.
    let installing = tokio::task::spawn_blocking({
        let packages: Vec<String> = missing.iter().map(|&package| package.to_owned()).collect();
        move || install(&packages)
    });
    installing.await.context("the installation ended in a panic")?.with_context(|| format!("cannot install {list}"))
}

/// Said first, before a file that only root can read or make is in the way.
///
/// # Errors
/// Not root.
pub fn need_root() -> anyhow::Result<()> {
    anyhow::ensure!(rustix::process::geteuid().is_root(), "the lab needs root: it makes network namespaces and boots containers");
    Ok(())
}

/// The kernel's limit on inotify instances is one for all of root's processes, in every container: 128 by default.
const INOTIFY_INSTANCES: &str = "/proc/sys/fs/inotify/max_user_instances";

/// A node takes about ten (systemd alone five), so the default is used up by four labs, and the fifth would hang at boot
/// without a word.
const INOTIFY_INSTANCES_MIN: u32 = 1024;

/// Raises the limit where it is too low. It stays raised: another instance may count on it by the time this one goes down.
fn make_inotify_room(progress: &mut dyn FnMut(&str)) -> anyhow::Result<()> {
    let now = fs::read_to_string(INOTIFY_INSTANCES).with_context(|| format!("cannot read {INOTIFY_INSTANCES}"))?;
    if now.trim().parse::<u32>().is_ok_and(|limit| limit >= INOTIFY_INSTANCES_MIN) {
        return Ok(());
    }
    progress(&format!("raising fs.inotify.max_user_instances from {} to {INOTIFY_INSTANCES_MIN} …", now.trim()));
    let mut file =
        fs::OpenOptions::new().write(true).open(INOTIFY_INSTANCES).context("cannot raise fs.inotify.max_user_instances")?;
    write!(file, "{INOTIFY_INSTANCES_MIN}").context("cannot raise fs.inotify.max_user_instances")
}

fn install(packages: &[String]) -> anyhow::Result<()> {
    let _guard = NoServices::engage()?;
    // An index that is old but there may do; the install tells.
    let updated = apt_get(&["update", "-q"], &[]);
    match (apt_get(&["install", "-q", "-y", "--no-install-recommends"], packages), updated) {
        (Ok(()), _) => Ok(()),
        (Err(error), Ok(())) => Err(error),
        (Err(error), Err(update)) => Err(error.context(format!("apt-get update failed before: {update:#}"))),
    }
}

/// In a process group of its own, out of reach of the terminal's Ctrl-C; `timeout` bounds it, also when this process is killed.
fn apt_get(args: &[&str], packages: &[String]) -> anyhow::Result<()> {
    let mut command = Command::new("timeout");
    command.arg(INSTALL_LIMIT_SECONDS).arg("apt-get").args(args).args(packages).env("DEBIAN_FRONTEND", "noninteractive");
    let output = command.stdin(Stdio::null()).process_group(0).output().context("cannot start apt-get")?;
    let said = command::tail(&String::from_utf8_lossy(&output.stderr), 8);
    anyhow::ensure!(output.status.success(), "apt-get {} failed with {}: {said}", args.join(" "), output.status);
    Ok(())
}

/// Programs of root may be in `sbin`, which a user's `PATH` under sudo may lack.
fn search_path() -> Vec<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).chain(["/usr/sbin", "/sbin", "/usr/bin", "/bin"].map(PathBuf::from)).collect()
}

fn missing<'a>(tools: &[(&str, &'a str)], path: &[PathBuf]) -> Vec<&'a str> {
    let mut missing: Vec<&str> = Vec::new();
    for (program, package) in tools {
        if !path.iter().any(|directory| directory.join(program).exists()) && !missing.contains(package) {
            missing.push(package);
        }
    }
    missing
}

fn is_debian_like(os_release: &str) -> bool {
    let ids = os_release.lines().filter_map(|line| line.strip_prefix("ID=").or_else(|| line.strip_prefix("ID_LIKE=")));
    ids.flat_map(|value| value.trim_matches('"').split(' ')).any(|id| id == "debian" || id == "ubuntu")
}

/// Keeps packages from starting services for as long as it lives.
struct NoServices {
    ours: bool,
}

impl NoServices {
    fn engage() -> anyhow::Result<Self> {
        let opened = fs::OpenOptions::new().write(true).create_new(true).mode(0o755).open(POLICY_RC_D);
        match opened {
            Ok(mut file) => {
                let guard = Self { ours: true };
                file.write_all(POLICY_TEXT.as_bytes()).with_context(|| format!("cannot write {POLICY_RC_D}"))?;
                fs::set_permissions(POLICY_RC_D, fs::Permissions::from_mode(0o755))
                    .with_context(|| format!("cannot write {POLICY_RC_D}"))?;
                Ok(guard)
            }
            // The administrator's own policy stands; none of the lab's packages has a service that starts by itself.
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => Ok(Self { ours: false }),
            Err(error) => Err(error).with_context(|| format!("cannot create {POLICY_RC_D}")),
        }
    }
}

impl Drop for NoServices {
    fn drop(&mut self) {
        if self.ours {
            fs::remove_file(POLICY_RC_D).ok();
        }
    }
}

/// One that a killed run left behind would keep every later installation on this host from starting services.
fn remove_stale_policy() {
    if fs::read_to_string(POLICY_RC_D).is_ok_and(|text| text == POLICY_TEXT) {
        fs::remove_file(POLICY_RC_D).ok();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_package_that_lacks_two_programs_is_named_once() {
        let tools = [("no-such-a", "one"), ("no-such-b", "one"), ("sh", "two")];
        assert_eq!(missing(&tools, &["/bin".into()]), ["one"]);
    }

    #[test]
    fn debian_and_what_is_like_it_can_install() {
        assert!(is_debian_like("ID=debian\n"));
        assert!(is_debian_like("ID=linuxmint\nID_LIKE=\"ubuntu debian\"\n"));
        assert!(!is_debian_like("ID=photon\nID_LIKE=\"fedora\"\n"));
    }
}
