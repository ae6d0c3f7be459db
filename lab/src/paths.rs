//! Where things of an instance are on the host. Pure: names in, paths out.

use std::path::{Path, PathBuf};

use crate::node::NodeId;

/// Root of all runtime directories; a tmpfs on most hosts, nothing in it survives a reboot.
pub const RUNTIME_ROOT: &str = "/run/fip-lab";

/// The paths of one instance.
#[derive(Debug, Clone)]
pub struct Paths {
    root: PathBuf,
    name: String,
}

impl Paths {
    /// Paths of the instance `name`.
    #[must_use]
    pub fn new(name: &str) -> Self {
        Self { root: Path::new(RUNTIME_ROOT).join(name), name: name.to_owned() }
    }

    /// `/run/fip-lab/<lab>`.
    #[must_use]
    pub fn runtime(&self) -> &Path {
        &self.root
    }

    /// The lock file; outside the runtime directory, so that `down` never removes a lock that somebody waits on.
    #[must_use]
    pub fn lock(&self) -> PathBuf {
        Path::new(RUNTIME_ROOT).join(format!("{}.lock", self.name))
    }

    /// What `attach` needs to know, written by `up`.
    #[must_use]
    pub fn record(&self) -> PathBuf {
        self.root.join("lab.json")
    }

    /// The directory that a node sees as `/run/fip-lab`.
    #[must_use]
    pub fn shared(&self, node: NodeId) -> PathBuf {
        self.root.join(node.to_string())
    }

    /// What only the host needs of a node: its seed, its mount points, its console.
    #[must_use]
    pub fn host(&self, node: NodeId) -> PathBuf {
        self.root.join("host").join(node.to_string())
    }
}

/// An instance's name ends up in namespace, machine and directory names.
///
/// # Errors
/// Says what is wrong with `name`.
pub fn check_name(name: &str) -> anyhow::Result<()> {
    // Host side names of the veth pairs carry none of it, but systemd's machine name (64) and IFNAMSIZ-like habits ask for short ones.
    const LONGEST: usize = 20;
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let starts_well = name.starts_with(|c: char| c.is_ascii_lowercase());
    anyhow::ensure!(
        starts_well && name.len() <= LONGEST && name.chars().all(plain) && !name.ends_with('-'),
        "lab name {name:?} is not usable: lower-case letters, digits and dashes, at most {LONGEST}, starting with a letter"
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_would_escape_or_collide_are_refused() {
        for bad in ["", "..", "a/b", "A", "1a", "a-", "a b", "abcdefghijklmnopqrstuvwxyz"] {
            assert!(check_name(bad).is_err(), "{bad:?} was accepted");
        }
        for good in ["fip", "t-1", "run-20-7"] {
            assert!(check_name(good).is_ok(), "{good:?} was refused");
        }
    }

    #[test]
    fn lock_lives_outside_of_what_down_removes() {
        let paths = Paths::new("fip");
        assert!(!paths.lock().starts_with(paths.runtime()));
    }
}
