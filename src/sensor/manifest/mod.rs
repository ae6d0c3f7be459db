//! The manifest sense: is the manifest there, with which content, and does another file shadow it?
//!
//! [`ManifestSensor::read`] is a full look, cheap while nothing changes; [`ManifestWatch`] only wakes.
//! Invariant: what cannot be told is `Unknown` or a reason in `immovable`, so that nothing is moved on a
//! guess. Blocking and bounded; nothing to cancel.

mod directory;
mod pod_file;
#[cfg(test)]
mod tests;
mod watch;

use std::time::Duration;

use crate::actuator::journal::sha256_hex;
use crate::decision::observation::{ManifestView, Reading};
use crate::decision::time::Moment;
use crate::policy::LoopPolicy;

pub use directory::{FILE_MAX, FILES_MAX, Known, Listing, ReadFault, Wanted, list_others, read_bounded};
use directory::{Identity, manifest_identity};
pub use pod_file::PodFile;
pub use watch::ManifestWatch;

/// How often everything is read again although nothing seems to have changed; the period of the
/// kubelet's own list, and the bound on what a lost event or a coarse time stamp can hide.
const FULL_READ: Duration = Duration::from_secs(20);

/// Reads the manifest directory.
#[derive(Debug)]
pub struct ManifestSensor {
    wanted: Wanted,
    known: Known,
    manifest: Option<(Identity, Content)>,
    full_read_at: Option<Moment>,
}

/// What is known of the manifest's content.
#[derive(Debug, Clone)]
struct Content {
    sha256: String,
    declares_pod: bool,
}

impl ManifestSensor {
    /// A sensor for the loop's manifest; nothing is read yet.
    #[must_use]
    pub fn new(policy: &LoopPolicy) -> Self {
        let wanted = Wanted { manifest: policy.manifest.clone(), namespace: policy.namespace.clone(), name: policy.pod.clone() };
        Self { wanted, known: Known::default(), manifest: None, full_read_at: None }
    }

    /// Looks at the directory.
    pub fn read(&mut self, now: Moment) -> Reading<ManifestView> {
        if self.full_read_at.is_none_or(|at| now.since(at) >= FULL_READ) {
            self.known = Known::default();
            self.manifest = None;
            self.full_read_at = Some(now);
        }
        let listing = match list_others(&self.wanted, &mut self.known) {
            Ok(listing) => listing,
            Err(reason) => return Reading::Unknown(reason),
        };
        let path = self.wanted.manifest.display().to_string();
        let (sha256, fault) = match self.content() {
            Ok(content) => (Some(content.sha256), (!content.declares_pod).then(|| self.not_the_pod())),
            Err(ReadFault::Absent) => (None, None),
            Err(ReadFault::Unreadable(reason)) => (None, Some(format!("{path} {reason}"))),
        };
        let undecided = listing.undecided.map(|reason| format!("cannot tell whether it is the only one: {reason}"));
        let value = ManifestView { sha256, shadows: listing.shadows, immovable: fault.or(undecided) };
        Reading::Fresh { value, at: now }
    }

    fn not_the_pod(&self) -> String {
        let Wanted { manifest, namespace, name } = &self.wanted;
        format!("{} does not declare the pod {namespace}/{name}", manifest.display())
    }

    fn content(&mut self) -> Result<Content, ReadFault> {
        let known = manifest_identity(&self.wanted.manifest)?;
        if let Some((_, content)) = self.manifest.as_ref().filter(|(before, _)| *before == known) {
            return Ok(content.clone());
        }
        self.manifest = None;
        let (bytes, identity) = read_bounded(&self.wanted.manifest, true)?;
        let declared = PodFile::parse(&bytes);
        let declares_pod = declared.is_some_and(|pod| pod.is(&self.wanted.namespace, &self.wanted.name));
        let content = Content { sha256: sha256_hex(&bytes), declares_pod };
        self.manifest = Some((identity, content.clone()));
        Ok(content)
    }
}
