//! `fip-watchdog check [FILE…]`: is the policy good, and what does it allow at worst?
//!
//! A good file is answered on standard output with its arithmetic; each fault of a bad one is a line on standard error.
//! `--json` puts everything on standard output. Exit codes as in sysexits.h: 0, 66 (a file cannot be read), 78 (a file is bad; also
//! when both happen), 74 (the output cannot be written; a reader that went away is no error).

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::policy::arithmetic::Arithmetic;
use crate::policy::fault::Fault;
use crate::policy::load::{LoadError, load};

/// The policy that is meant when no file is named.
pub const DEFAULT_PATH: &str = "/etc/fip-watchdog/policy.yaml";

/// Everything is good.
pub const EX_OK: u8 = 0;
/// A file cannot be read.
pub const EX_NOINPUT: u8 = 66;
/// The output cannot be written.
pub const EX_IOERR: u8 = 74;
/// A file is no valid policy.
pub const EX_CONFIG: u8 = 78;

/// One file's answer in `--json`.
#[derive(Debug, Serialize)]
struct Report {
    file: String,
    ok: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    arithmetic: Option<Arithmetic>,
    faults: Vec<FaultLine>,
}

/// One fault in `--json`.
#[derive(Debug, Serialize)]
struct FaultLine {
    file: String,
    line: Option<usize>,
    column: Option<usize>,
    path: String,
    message: String,
    hint: Option<String>,
}

/// Checks files, the default one if none is named; answers the exit code.
pub fn run(paths: &[PathBuf], json: bool, out: &mut impl Write, err: &mut impl Write) -> u8 {
    let default = [PathBuf::from(DEFAULT_PATH)];
    let paths = if paths.is_empty() { &default[..] } else { paths };
    let outcomes: Vec<_> = paths.iter().map(|path| (path.as_path(), load(path))).collect();
    let code = outcomes
        .iter()
        .filter_map(|(_, outcome)| outcome.as_ref().err())
        .fold(EX_OK, |code, error| code.max(if error.is_no_input() { EX_NOINPUT } else { EX_CONFIG }));
    let arithmetic = |outcome: &Result<_, LoadError>| outcome.as_ref().ok().map(Arithmetic::of);
    let written = if json {
        let files: Vec<_> =
            outcomes.iter().map(|(path, outcome)| report(path, arithmetic(outcome), outcome.as_ref().err())).collect();
        writeln!(out, "{:#}", serde_json::json!({ "files": files }))
    } else {
        outcomes.iter().try_for_each(|(path, outcome)| match outcome {
            Ok(policy) => {
                writeln!(out, "{}: ok", path.display())?;
                Arithmetic::of(policy).lines().iter().try_for_each(|line| writeln!(out, "  {line}"))?;
                // A ladder that the file leaves out keeps its default, so all of them are shown.
                policy.remedies.iter().try_for_each(|(verdict, ladder)| {
                    let steps: Vec<_> = ladder.iter().map(|step| step.name()).collect();
                    writeln!(out, "  on {verdict}: {}", steps.join(", "))
                })
            }
            Err(error) => writeln!(err, "{}", chain(error)),
        })
    };
    match unless_reader_gone(written.and_then(|()| out.flush())) {
        Ok(()) => code,
        Err(_) => EX_IOERR,
    }
}

fn report(path: &Path, arithmetic: Option<Arithmetic>, error: Option<&LoadError>) -> Report {
    let file = path.display().to_string();
    let line = |fault: &Fault| FaultLine {
        file: file.clone(),
        line: Some(fault.pos.line),
        column: Some(fault.pos.column),
        path: fault.path.clone(),
        message: fault.message.clone(),
        hint: fault.hint.clone(),
    };
    let faults = match error {
        None => Vec::new(),
        Some(LoadError::Faults(faults)) => faults.faults.iter().map(line).collect(),
        Some(other) => {
            let line = match other {
                LoadError::NotUtf8 { line, .. } => Some(*line),
                LoadError::Missing { .. }
                | LoadError::Unreadable { .. }
                | LoadError::NotAFile { .. }
                | LoadError::TooBig { .. }
                | LoadError::Faults(_) => None,
            };
            vec![FaultLine {
                file: file.clone(),
                line,
                column: line.map(|_| 1),
                path: String::new(),
                message: chain(other),
                hint: None,
            }]
        }
    };
    Report { file, ok: error.is_none(), arithmetic, faults }
}

/// An error with its causes, on one line each fault.
fn chain(error: &LoadError) -> String {
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    text
}

/// `head` may close the pipe as soon as it has what it wants.
pub(super) fn unless_reader_gone(written: io::Result<()>) -> io::Result<()> {
    match written {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        other => other,
    }
}
