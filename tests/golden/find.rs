//! Finds the cases by themselves: every directory of `tests/cases` is one.

use std::path::{Path, PathBuf};

use fip_watchdog::policy::Policy;
use fip_watchdog::policy::load::{LoadError, load};

use crate::expected::{Expected, Kind};
use crate::timeline::Timeline;

/// A case.
pub struct Case {
    /// The directory's name, `NN-what-it-is-about`.
    pub name: String,
    /// The directory.
    pub dir: PathBuf,
    /// Its `policy.yaml`, or why that is refused.
    pub policy: Result<Policy, LoadError>,
    /// Its `observations.yaml`. A case whose policy is refused needs only a title and a source.
    pub observations: Timeline,
    /// Its `expected.yaml`.
    pub expected: Expected,
    /// What it is judged by.
    pub kind: Kind,
}

/// All cases in the order of their names.
pub fn cases() -> Vec<Case> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases");
    let entries = std::fs::read_dir(&root).unwrap_or_else(|error| panic!("cannot list {}: {error}", root.display()));
    let mut dirs: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).filter(|path| path.is_dir()).collect();
    dirs.sort();
    dirs.iter().map(|dir| read(dir).unwrap_or_else(|error| panic!("{}: {error}", dir.display()))).collect()
}

/// Reads a case.
///
/// # Errors
/// A file is missing or says what no case may say.
pub fn read(dir: &Path) -> Result<Case, String> {
    let text = |file: &str| std::fs::read_to_string(dir.join(file)).map_err(|error| format!("{file}: {error}"));
    let observations = parse_timeline(&text("observations.yaml")?).map_err(|error| format!("observations.yaml: {error}"))?;
    let expected = parse_expected(&text("expected.yaml")?).map_err(|error| format!("expected.yaml: {error}"))?;
    let kind = expected.kind().map_err(|error| format!("expected.yaml: {error}"))?;
    if (kind == Kind::Combinations) == observations.vary.is_empty() {
        return Err("vary and combinations_end_in go together".to_owned());
    }
    let name = dir.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    if !name.starts_with(|first: char| first.is_ascii_digit()) {
        return Err("the name of a case begins with its number".to_owned());
    }
    let policy = load(&dir.join("policy.yaml"));
    Ok(Case { name, dir: dir.to_owned(), policy, observations, expected, kind })
}

/// The text of an `observations.yaml`.
///
/// # Errors
/// Unknown keys, and events that are out of order or never come.
pub fn parse_timeline(text: &str) -> Result<Timeline, String> {
    let timeline: Timeline = serde_saphyr::from_str(text).map_err(|error| error.to_string())?;
    let times: Vec<_> = timeline.events.iter().map(|event| event.at).collect();
    if !times.is_sorted() {
        return Err("the events are not in the order of their time".to_owned());
    }
    if let Some(late) = timeline.events.iter().find(|event| event.at >= timeline.until) {
        return Err(format!("`{}` comes after the end", late.what));
    }
    if let Some(event) = timeline.events.iter().find(|event| event.pause.is_some() && event.lasts.is_none()) {
        return Err(format!("`{}` does not say how long it lasts", event.what));
    }
    Ok(timeline)
}

/// The text of an `expected.yaml`.
///
/// # Errors
/// Unknown keys, verdicts, steps.
pub fn parse_expected(text: &str) -> Result<Expected, String> {
    serde_saphyr::from_str(text).map_err(|error| error.to_string())
}
