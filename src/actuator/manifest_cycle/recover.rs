//! What a start does with a cycle that an earlier life left open, whatever the policy says by now: the
//! paths are in the journal entry.
//!
//! | in place | staged | journalled phase | then |
//! |---|---|---|---|
//! | ours | no | intended | it never went out, or a person put it back: close |
//! | ours | no | out, back | it came back before the end was journalled: close |
//! | ours | yes | any | a person restored a copy: the staged one goes to the backups, close |
//! | other | no | any | somebody put a newer one there: theirs stays, ours is in the backups, close |
//! | other | yes | any | the same; the staged one goes to the backups first |
//! | none | yes | any | put it back, never over another, close |
//! | none | no | intended, same boot | our rename did not happen, so somebody else took it away in the meantime: leave it so, say where the backup is, close |
//! | none | no | intended, other boot | the power went in the very moment of the rename, and the file system forgot both names: write it anew from the backup, close |
//! | none | no | out | the staging place was emptied: write it anew from the backup, close |
//! | none | no | back | it was back, and somebody else took it away later: leave it so, close |
//! | none | no | out, without a sound backup | lost: say so, close; `manifest_missing` goes on alarming |
//!
//! "Ours" is by content. "Other" is other content, and whatever is no regular file. Something staged that is no
//! regular file is nobody's copy: it counts as none and stays. A staged copy of other content is what was in place when we renamed, so it goes back
//! all the same. If any call fails, the entry stays open and the next attempt starts from the state that is there.

use super::CycleError;
use super::place::{Home, IfNowhere, bring_home, is_out, tidy_backup};
use crate::actuator::durable_fs::Fs;
use crate::actuator::journal::{Journal, OpenCycle, Outcome, Stamp};
use crate::decision::observation::CyclePhase;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The longest that a journal entry can make a start wait.
const WAIT_MAX: Duration = Duration::from_secs(30);

/// A cycle that was finished by a later start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recovered {
    /// Its number.
    pub id: u64,
    /// The manifest.
    pub manifest: PathBuf,
    /// How far it had got.
    pub phase: CyclePhase,
    /// How it ended.
    pub outcome: Outcome,
    /// In words.
    pub detail: String,
}

impl Recovered {
    /// Whether a person has to look: the manifest is not in place, or not ours.
    #[must_use]
    pub const fn alarming(&self) -> bool {
        matches!(self.outcome, Outcome::Lost | Outcome::RemovedByOther)
    }
}

/// How long the manifest still has to stay out, so that its return does not count as a crash.
pub(super) fn wait_before(fs: &Fs, open: &OpenCycle, now: &Stamp) -> Result<Duration, CycleError> {
    let since = open.out.as_ref().unwrap_or(&open.intent.at);
    if since.boot_id != now.boot_id || !is_out(fs, &open.intent)? {
        return Ok(Duration::ZERO);
    }
    let out_for = now.boottime().saturating_sub(since.boottime());
    Ok(Duration::from_millis(open.intent.settle_ms).saturating_sub(out_for).min(WAIT_MAX))
}

/// Finishes an open cycle by the table above and closes its entry.
pub(super) fn finish(fs: &Fs, journal: &Journal, open: &OpenCycle, now: Stamp) -> Result<Recovered, CycleError> {
    let intent = &open.intent;
    let if_nowhere = match (&open.out, &open.back) {
        (_, Some(_)) => IfNowhere::Leave,
        (None, None) if intent.at.boot_id == now.boot_id => IfNowhere::Leave,
        (Some(_) | None, None) => IfNowhere::Restore,
    };
    let home = bring_home(fs, intent, if_nowhere)?;
    let backed_up = tidy_backup(fs, &intent.backup)?;
    // Before its backup was made ours was in place, untouched by us.
    let kept_as = |kept: &Path| match backed_up || kept != intent.backup {
        true => format!("ours is kept as {}", kept.display()),
        false => "that was before we made a backup of ours".to_owned(),
    };
    let manifest = intent.manifest.display();
    let (outcome, detail) = match home {
        Home::InPlace if open.out.is_none() => (Outcome::NotMoved, format!("{manifest} had not been moved")),
        Home::InPlace => (Outcome::RecoveredInPlace, format!("{manifest} was back already")),
        Home::PutBack => (Outcome::RecoveredPutBack, format!("{manifest} was put back from {}", intent.staging.display())),
        Home::FromBackup => {
            (Outcome::RecoveredFromBackup, format!("{manifest} was written anew from {}", intent.backup.display()))
        }
        Home::Replaced(kept) => (Outcome::Replaced, format!("{manifest} is another one by now and stays; {}", kept_as(&kept))),
        Home::RemovedByOther(kept) => {
            (Outcome::RemovedByOther, format!("{manifest} was removed by somebody else and stays so; {}", kept_as(&kept)))
        }
        Home::Lost => {
            (Outcome::Lost, format!("{manifest} is lost: neither {} nor a sound backup exists", intent.staging.display()))
        }
    };
    journal.close(intent.id, outcome, &detail, now)?;
    Ok(Recovered { id: intent.id, manifest: intent.manifest.clone(), phase: open.phase(), outcome, detail })
}
