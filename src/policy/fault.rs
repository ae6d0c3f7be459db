//! What is wrong with a policy file, and where.
//!
//! A fault always names a line inside the file (the last one when the file ends too early), so that an
//! editor can jump to it. The list is bounded: a file that is no policy at all must not flood the journal.

use std::fmt;
use std::path::PathBuf;

use serde::Serialize;

/// Most faults that are kept; a hand-written policy has about 40 keys, so more than this says nothing new.
pub const FAULTS_MAX: usize = 100;

/// A place in the text: both count from 1, the column in characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Pos {
    /// Line, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
}

impl Pos {
    /// The start of the file: where a fault of the file as a whole is reported.
    pub const START: Self = Self { line: 1, column: 1 };
}

/// One fault of a policy file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Fault {
    /// Where.
    #[serde(flatten)]
    pub pos: Pos,
    /// The key, `limits.cooldown`; empty when the file as a whole is at fault.
    pub path: String,
    /// What is wrong with which value, why, and what is allowed. One line.
    pub message: String,
    /// What to write instead, if that is known. One line.
    pub hint: Option<String>,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.path.is_empty() {
            write!(f, "{}: ", self.path)?;
        }
        f.write_str(&self.message)?;
        match &self.hint {
            Some(hint) => write!(f, "; {hint}"),
            None => Ok(()),
        }
    }
}

/// Every fault of one file, in the order of its lines.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PolicyFaults {
    /// The file, as it was named.
    pub file: PathBuf,
    /// At least one, at most [`FAULTS_MAX`].
    pub faults: Vec<Fault>,
    /// How many more there were.
    pub left_out: usize,
}

impl fmt::Display for PolicyFaults {
    /// One line a fault, `file:line:column: key: message; hint`, without a line feed at the end.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let file = self.file.display();
        for (index, fault) in self.faults.iter().enumerate() {
            if index > 0 {
                f.write_str("\n")?;
            }
            write!(f, "{file}:{}:{}: {fault}", fault.pos.line, fault.pos.column)?;
        }
        if self.left_out > 0 {
            write!(f, "\n{file}: {} more faults are not shown", self.left_out)?;
        }
        Ok(())
    }
}

impl std::error::Error for PolicyFaults {}

/// Collects faults while a file is read.
#[derive(Debug, Default)]
pub(super) struct FaultLog {
    faults: Vec<Fault>,
    left_out: usize,
}

impl FaultLog {
    pub(super) fn add(&mut self, pos: Pos, path: &str, message: impl Into<String>, hint: Option<String>) {
        if self.faults.len() < FAULTS_MAX {
            self.faults.push(Fault { pos, path: path.to_owned(), message: message.into(), hint });
        } else {
            self.left_out += 1;
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.faults.is_empty()
    }

    pub(super) fn into_faults(mut self, file: PathBuf) -> PolicyFaults {
        self.faults.sort_by_key(|fault| fault.pos);
        PolicyFaults { file, faults: self.faults, left_out: self.left_out }
    }
}

/// A value as it may be quoted in a message: printable, on one line, and short.
pub(super) fn quoted(text: &str) -> String {
    const SHOWN_MAX: usize = 60;
    let mut shown: String = text.chars().take(SHOWN_MAX).flat_map(char::escape_debug).collect();
    if text.chars().nth(SHOWN_MAX).is_some() {
        shown.push('…');
    }
    format!("`{shown}`")
}

/// "did you mean `…`?" for the candidate that is nearest to a misspelt name, if one is near enough:
/// a third of its letters may be wrong, and at most three.
pub(super) fn did_you_mean<'c>(name: &str, candidates: impl IntoIterator<Item = &'c str>) -> Option<String> {
    // Longer than any key of the schema: the distance costs the product of both lengths.
    const NAME_MAX: usize = 64;
    if name.len() > NAME_MAX {
        return None;
    }
    let folded = name.to_lowercase().replace('-', "_");
    candidates
        .into_iter()
        .map(|candidate| (strsim::osa_distance(&folded, candidate), candidate))
        .filter(|(distance, candidate)| *distance <= (candidate.len() / 3).clamp(1, 3))
        .min()
        .map(|(_, candidate)| format!("did you mean `{candidate}`?"))
}
