//! Placeholder of the `scenario` part: says that this build has none.

use std::ffi::OsString;
use std::process::ExitCode;

/// Exit code of a part that this build does not have (`EX_UNAVAILABLE`).
const UNAVAILABLE: u8 = 69;

/// Runs the subcommand; the first argument is its name.
pub fn main(_args: &[OsString]) -> anyhow::Result<ExitCode> {
    Ok(ExitCode::from(UNAVAILABLE))
}
