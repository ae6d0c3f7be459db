//! Before a cycle: one function answers "why would this be unsafe?", and what it read becomes the plan.
//!
//! Invariant: a refusal leaves the manifest untouched and names the path that is in the way. The only
//! things made here are the staging and the backup directory. Blocks; may be broken off anywhere.

use std::path::{Path, PathBuf};

use super::CycleSettings;
use super::place::{Found, Snapshot, backup_name, inspect, split, xattrs_as_hex};
use crate::actuator::durable_fs::{Dir, Fs, FsError};
use crate::actuator::journal::{Intent, PodRecord, Stamp, sha256_hex};
use crate::sensor::manifest::{Known, PodFile, Wanted, list_others};

/// What must be free besides the backup: the journal's records, and a margin.
const ROOM: u64 = 1 << 20;
/// What must be free where manifests are besides the manifest: a few blocks for two directories.
const BLOCKS: u64 = 64 << 10;
/// The longest grace period that is waited for; a pod that asks for more is put back after this.
const GRACE_MAX_S: u64 = 600;

/// Why the manifest is not touched.
#[derive(Debug, thiserror::Error)]
pub enum Refusal {
    /// A call failed.
    #[error(transparent)]
    Fs(#[from] FsError),
    /// There is no manifest.
    #[error("{} is not there", .0.display())]
    Absent(PathBuf),
    /// A link, a directory, or larger than a manifest can be.
    #[error("{} is not a regular file of at most 1 MiB", .0.display())]
    NotRegular(PathBuf),
    /// The manifest declares something else.
    #[error("{} does not declare the pod {pod}", path.display())]
    NotThePod {
        /// The manifest.
        path: PathBuf,
        /// The pod that the policy names.
        pod: String,
    },
    /// Another file declares the same pod and would take over.
    #[error("{} declares the same pod", .0.display())]
    Shadowed(PathBuf),
    /// It cannot be told whether another file does.
    #[error("cannot tell whether another file declares the same pod: {0}")]
    Undecided(String),
    /// The kubelet could read what is staged.
    #[error("staging directory {} lies in the manifest directory {}", staging.display(), manifests.display())]
    StagingInside {
        /// The staging directory.
        staging: PathBuf,
        /// The manifest directory.
        manifests: PathBuf,
    },
    /// A rename between the two would fail.
    #[error("staging directory {} is not on the same mount as {}", staging.display(), manifests.display())]
    OtherMount {
        /// The staging directory.
        staging: PathBuf,
        /// The manifest directory.
        manifests: PathBuf,
    },
    /// Something is in the staging place already, and no journal entry says what.
    #[error("{} exists already, left by no known cycle", .0.display())]
    StagingOccupied(PathBuf),
    /// A disk is too full for a backup, or to write the manifest anew from it.
    #[error("{} has {free} bytes free, {needed} are needed to bring a manifest back whatever happens", path.display())]
    NoRoom {
        /// The directory on it.
        path: PathBuf,
        /// What is free.
        free: u64,
        /// What is needed.
        needed: u64,
    },
}

/// A cycle that may begin.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) intent: Intent,
    pub(super) manifest: Snapshot,
    pub(super) grace_s: u64,
}

/// Looks for every reason not to begin.
pub(super) fn plan(fs: &Fs, settings: &CycleSettings, id: u64, pod: PodRecord, at: Stamp) -> Result<Plan, Refusal> {
    let (manifests, name) = split(&settings.wanted.manifest)?;
    let home = fs.open_dir(manifests)?;
    let (manifest, declared) = readable_manifest(fs, &home, &settings.wanted)?;
    alone(fs, &settings.wanted)?;
    let staging = settings.staging_dir.join(name);
    staging_place(fs, &home, settings, &staging)?;
    let sha256 = sha256_hex(&manifest.content);
    let backup = settings.backup_dir().join(backup_name(name, &sha256));
    let size = u64::try_from(manifest.content.len()).unwrap_or(u64::MAX);
    room(fs, settings, size)?;
    let Snapshot { mode, uid, gid, .. } = manifest;
    let intent = Intent {
        id,
        manifest: settings.wanted.manifest.clone(),
        staging,
        backup,
        sha256,
        size,
        mode,
        uid,
        gid,
        xattrs: xattrs_as_hex(&manifest),
        pod,
        settle_ms: u64::try_from(settings.settle.as_millis()).unwrap_or(u64::MAX),
        at,
    };
    Ok(Plan { intent, manifest, grace_s: declared.grace_s.min(GRACE_MAX_S) })
}

fn readable_manifest(fs: &Fs, home: &Dir, wanted: &Wanted) -> Result<(Snapshot, PodFile), Refusal> {
    let (_, name) = split(&wanted.manifest)?;
    let manifest = match inspect(fs, home, name)? {
        Found::Regular(manifest) => manifest,
        Found::Absent => return Err(Refusal::Absent(wanted.manifest.clone())),
        Found::Other => return Err(Refusal::NotRegular(wanted.manifest.clone())),
    };
    match PodFile::parse(&manifest.content).filter(|pod| pod.is(&wanted.namespace, &wanted.name)) {
        Some(declared) => Ok((manifest, declared)),
        None => {
            let pod = format!("{}/{}", wanted.namespace, wanted.name);
            Err(Refusal::NotThePod { path: wanted.manifest.clone(), pod })
        }
    }
}

fn alone(fs: &Fs, wanted: &Wanted) -> Result<(), Refusal> {
    let listing = fs.call("list", wanted.dir(), || Ok(list_others(wanted, &mut Known::default())))?;
    let listing = listing.map_err(Refusal::Undecided)?;
    if let Some(reason) = listing.undecided {
        return Err(Refusal::Undecided(reason));
    }
    listing.shadows.into_iter().next().map_or(Ok(()), |shadow| Err(Refusal::Shadowed(shadow)))
}

fn staging_place(fs: &Fs, home: &Dir, settings: &CycleSettings, staged: &Path) -> Result<(), Refusal> {
    let both = || (settings.staging_dir.clone(), home.path().to_owned());
    let inside = || {
        let (staging, manifests) = both();
        Refusal::StagingInside { staging, manifests }
    };
    // By what the paths stand for, since any of them may be a link; the parent first, because nothing may
    // be made in the manifest directory.
    let real = |path: &Path| fs.call("resolve", path, || std::fs::canonicalize(path));
    let manifests = real(home.path())?;
    let (parent, _) = split(&settings.staging_dir)?;
    if settings.staging_dir.starts_with(home.path()) || real(parent)?.starts_with(&manifests) {
        return Err(inside());
    }
    fs.make_dir(&settings.staging_dir)?;
    let staging = fs.open_dir(&settings.staging_dir)?;
    if real(&settings.staging_dir)?.starts_with(&manifests) {
        return Err(inside());
    }
    let (ours, theirs) = (fs.stat_dir(&staging)?.st_dev, fs.stat_dir(home)?.st_dev);
    if ours != theirs || fs.mount_id(&staging)? != fs.mount_id(home)? {
        let (staging, manifests) = both();
        return Err(Refusal::OtherMount { staging, manifests });
    }
    let (_, staged_name) = split(staged)?;
    match fs.look_up(&staging, staged_name)? {
        Some(_) => Err(Refusal::StagingOccupied(staged.to_owned())),
        None => Ok(()),
    }
}

fn room(fs: &Fs, settings: &CycleSettings, size: u64) -> Result<(), Refusal> {
    fs.make_dir(&settings.state_dir)?;
    let backups = settings.backup_dir();
    fs.make_dir(&backups)?;
    // The staging directory is on the manifest directory's file system: there the rename may need a block, and a manifest
    // that has to be written anew from its backup needs its own size.
    for (path, needed) in [(backups, size.saturating_add(ROOM)), (settings.staging_dir.clone(), size.saturating_add(BLOCKS))] {
        let free = fs.free_bytes(&fs.open_dir(&path)?)?;
        if free < needed {
            return Err(Refusal::NoRoom { path, free, needed });
        }
    }
    Ok(())
}
