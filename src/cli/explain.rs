//! `fip-watchdog explain`: why the daemon does what it does, or why it does nothing.

use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;

use clap::Args;

use super::check::unless_reader_gone;
use super::{complain, screen, status};
use crate::control::CONTROL_SOCKET;
use crate::control::protocol::Request;

/// Explain the verdict: what is seen now, what would be done about it, and what that waits for.
///
/// Changes nothing. Exit code as for `status`: 0, 1 if a person should look, 69 without a daemon, 77 without permission.
#[derive(Debug, Args)]
pub struct ExplainArgs {
    /// Print the report as one line of JSON.
    #[arg(long)]
    pub json: bool,
    /// The daemon's control socket.
    #[arg(long, value_name = "PATH", default_value = CONTROL_SOCKET)]
    pub socket: PathBuf,
}

/// Runs the subcommand; the exit code.
///
/// # Errors
/// When the output cannot be written. A reader that has gone away is no error.
pub fn run(args: &ExplainArgs, out: &mut impl Write) -> anyhow::Result<u8> {
    let report = match status::report(&args.socket, &Request::Explain) {
        Ok(report) => report,
        Err((code, message)) => {
            complain(&message);
            return Ok(code);
        }
    };
    let colour = io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    let text = if args.json { screen::json(&*report) } else { screen::explain(&report, colour) };
    unless_reader_gone(out.write_all(text.as_bytes()).and_then(|()| out.flush()))?;
    Ok(u8::from(report.alarmed))
}
