//! `fip-watchdog status`: what the running daemon sees and judges, on one screen.

use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;

use super::{EXIT_NOT_PERMITTED, EXIT_UNAVAILABLE, complain, screen};
use crate::control::CONTROL_SOCKET;
use crate::control::client::{self, ClientError, DEADLINE};
use crate::control::protocol::{Request, Response};
use crate::control::report::StatusReport;

/// How often `--watch` looks; the daemon itself asks etcd once a second.
const WATCH_EVERY: Duration = Duration::from_secs(1);

/// Home, then clear to the end: unlike a full clear it does not flicker, and it leaves the scroll-back alone.
const REDRAW: &str = "\x1b[H\x1b[J";

/// Show what the running daemon sees, judges, does and waits for.
///
/// Exit code: 0 if all is as it should be (also while paused or starting), 1 if a person should look, 69 if the
/// daemon is not running or does not answer, 77 if this user may not ask it.
#[derive(Debug, Args)]
pub struct StatusArgs {
    /// Print the report as one line of JSON.
    #[arg(long)]
    pub json: bool,
    /// Refresh every second until interrupted. Needs a terminal.
    #[arg(long, conflicts_with = "json")]
    pub watch: bool,
    /// The daemon's control socket.
    #[arg(long, value_name = "PATH", default_value = CONTROL_SOCKET)]
    pub socket: PathBuf,
}

/// Runs the subcommand; the exit code.
///
/// # Errors
/// When the output cannot be written. A reader that has gone away is no error.
pub fn run(args: &StatusArgs, out: &mut impl Write) -> anyhow::Result<u8> {
    let on_terminal = io::stdout().is_terminal();
    if args.watch && !on_terminal {
        complain("status --watch needs a terminal; use --json for a script");
        return Ok(super::EXIT_USAGE);
    }
    let colour = on_terminal && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    loop {
        let (code, text) = look(args, colour);
        let text = if args.watch { format!("{REDRAW}{text}") } else { text };
        match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => return Ok(code),
            other => other?,
        }
        if !args.watch {
            return Ok(code);
        }
        std::thread::sleep(WATCH_EVERY);
    }
}

/// One look: exit code and what to print.
fn look(args: &StatusArgs, colour: bool) -> (u8, String) {
    match report(&args.socket, &Request::Status) {
        Ok(report) => {
            let text = if args.json { screen::json(&*report) } else { screen::render(&report, colour) };
            (u8::from(report.alarmed), text)
        }
        // Watching goes on through a restart of the daemon, so the screen says it.
        Err((code, message)) if args.watch => (code, format!("{message}\n")),
        Err((code, message)) => {
            complain(&message);
            (code, String::new())
        }
    }
}

/// The daemon's report, or exit code and message.
pub(crate) fn report(socket: &Path, request: &Request) -> Result<Box<StatusReport>, (u8, String)> {
    match ask(socket, request)? {
        Response::Status(report) | Response::Explain(report) => Ok(report),
        Response::Refused { reason, .. } => Err((EXIT_UNAVAILABLE, format!("the daemon did not say: {reason}"))),
        Response::Paused { .. } | Response::Resumed { .. } => {
            Err((EXIT_UNAVAILABLE, "the daemon answered something else".to_owned()))
        }
    }
}

/// The daemon's answer, or exit code and message with the chain of causes.
pub(crate) fn ask(socket: &Path, request: &Request) -> Result<Response, (u8, String)> {
    client::ask(socket, request, DEADLINE).map_err(|error| {
        let code = if matches!(error, ClientError::NotPermitted(_)) { EXIT_NOT_PERMITTED } else { EXIT_UNAVAILABLE };
        (code, format!("{:#}", anyhow::Error::new(error)))
    })
}

#[cfg(test)]
mod tests;
