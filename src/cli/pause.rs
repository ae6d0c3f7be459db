//! `fip-watchdog pause` and `fip-watchdog resume`.

use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::check::unless_reader_gone;
use super::{EXIT_UNAVAILABLE, EXIT_USAGE, complain, status};
use crate::audit::text::span;
use crate::control::CONTROL_SOCKET;
use crate::control::protocol::{self, RefusalCode, Request, Response};

/// Take no step for a while; what is seen is still judged and shown.
///
/// A pause ends by itself. A second one replaces the first.
#[derive(Debug, Args)]
pub struct PauseArgs {
    /// Why, for the journal and for whoever finds the watchdog paused.
    #[arg(long, value_name = "TEXT")]
    pub reason: String,
    /// For how long: `90s`, `30m`, `1h 30m`; from 1s to 24h.
    #[arg(long = "for", value_name = "SPAN", default_value = "1h", value_parser = humantime::parse_duration)]
    pub length: Duration,
    /// The daemon's control socket.
    #[arg(long, value_name = "PATH", default_value = CONTROL_SOCKET)]
    pub socket: PathBuf,
}

/// End a pause before its time. Without one, nothing changes.
#[derive(Debug, Args)]
pub struct ResumeArgs {
    /// The daemon's control socket.
    #[arg(long, value_name = "PATH", default_value = CONTROL_SOCKET)]
    pub socket: PathBuf,
}

/// Pauses the daemon; the exit code: 0, 64 for a value out of bounds, 69 without a daemon, 77 without permission.
///
/// # Errors
/// When the output cannot be written.
pub fn run_pause(args: &PauseArgs, out: &mut impl Write) -> anyhow::Result<u8> {
    let request = Request::Pause { reason: args.reason.clone(), length: args.length };
    if let Err(fault) = protocol::check(&request) {
        complain(&fault);
        return Ok(EXIT_USAGE);
    }
    answered(status::ask(&args.socket, &request), out)
}

/// Ends a pause; the exit code as for [`run_pause`].
///
/// # Errors
/// When the output cannot be written.
pub fn run_resume(args: &ResumeArgs, out: &mut impl Write) -> anyhow::Result<u8> {
    answered(status::ask(&args.socket, &Request::Resume), out)
}

fn answered(answer: Result<Response, (u8, String)>, out: &mut impl Write) -> anyhow::Result<u8> {
    let (code, message) = match answer {
        Ok(Response::Paused { for_ms }) => {
            unless_reader_gone(writeln!(out, "paused for {}", span(Duration::from_millis(for_ms))))?;
            return Ok(0);
        }
        Ok(Response::Resumed { was_paused }) => {
            unless_reader_gone(writeln!(out, "{}", if was_paused { "resumed" } else { "was not paused" }))?;
            return Ok(0);
        }
        Ok(Response::Refused { code: RefusalCode::BadRequest, reason }) => (EXIT_USAGE, reason),
        Ok(Response::Refused { reason, .. }) => (EXIT_UNAVAILABLE, reason),
        Ok(Response::Status(_) | Response::Explain(_)) => (EXIT_UNAVAILABLE, "the daemon answered something else".to_owned()),
        Err(refusal) => refusal,
    };
    complain(&message);
    Ok(code)
}
