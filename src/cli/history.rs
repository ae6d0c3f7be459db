//! `fip-watchdog history`: what happened on this node, from the journal, and the autopsies that were kept.
//!
//! Needs no daemon: after an incident it may be the daemon that is gone.

mod journal;
mod line;

use std::ffi::OsStr;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::json;

use super::check::unless_reader_gone;
use super::{EXIT_NOT_PERMITTED, EXIT_UNAVAILABLE, complain, screen};
use crate::autopsy::{Autopsy, store};
use crate::runtime::startup::{STATE_DIR, chain};
use journal::{DEADLINE, JournalError, Question, ask};
use line::{Happened, kept, opened};

/// `EX_NOINPUT` of sysexits(3): there is no such autopsy.
const EXIT_NO_INPUT: u8 = 66;

/// Show what happened on this node: verdicts, steps, policies, pauses, and why the loop hung.
///
/// Reads the journal, one line an entry, oldest first, and lists the autopsies that are kept. Needs no running daemon.
/// Exit code: 0, 66 if there is no such autopsy, 69 without journalctl or without an answer of it, 77 if this user may not read
/// the system's journal or the state directory.
#[derive(Debug, Args)]
pub struct HistoryArgs {
    /// Only from then on, as journalctl takes it: "2026-11-30 05:00", yesterday, -2h.
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    pub since: Option<String>,
    /// The newest so many entries.
    #[arg(long, short = 'n', value_name = "N", default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub lines: u32,
    /// Show one autopsy with all that was seen of the loop.
    #[arg(long, value_name = "NUMBER", conflicts_with_all = ["since", "lines"])]
    pub autopsy: Option<u32>,
    /// Print one JSON document.
    #[arg(long)]
    pub json: bool,
    /// Where the daemon keeps its autopsies.
    #[arg(long, value_name = "DIR", default_value = STATE_DIR)]
    pub state_dir: PathBuf,
}

/// Runs the subcommand; the exit code.
///
/// # Errors
/// The asynchronous runtime cannot be made, or the output cannot be written. A reader that has gone away is no error.
pub fn run(args: &HistoryArgs, out: &mut impl Write) -> anyhow::Result<u8> {
    let told = match args.autopsy {
        Some(number) => one(args, number),
        None => tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(all(args)),
    };
    match told {
        Ok(text) => {
            unless_reader_gone(out.write_all(text.as_bytes()).and_then(|()| out.flush()))?;
            Ok(0)
        }
        Err((code, message)) => {
            complain(&message);
            Ok(code)
        }
    }
}

type Told = Result<String, (u8, String)>;

async fn all(args: &HistoryArgs) -> Told {
    let question = Question { since: args.since.clone(), lines: args.lines };
    let answer = ask(OsStr::new("journalctl"), &question, DEADLINE).await.map_err(|error| {
        let code = if matches!(error, JournalError::NotPermitted(_)) { EXIT_NOT_PERMITTED } else { EXIT_UNAVAILABLE };
        (code, chain(&error))
    })?;
    let happened: Vec<Happened> = answer.lines().filter_map(Happened::parse).collect();
    // The journal alone is worth showing.
    let autopsies = autopsies(&args.state_dir).unwrap_or_else(|error| {
        complain(&format!("the autopsies in {} cannot be listed: {error}", args.state_dir.display()));
        Vec::new()
    });
    Ok(if args.json {
        screen::json(&json!({ "entries": happened, "autopsies": autopsies }))
    } else {
        text(&happened, &autopsies)
    })
}

fn text(happened: &[Happened], autopsies: &[Autopsy]) -> String {
    let mut lines: Vec<String> = happened.iter().map(Happened::line).collect();
    if lines.is_empty() {
        lines.push("the journal has no entries of fip-watchdog for that time".to_owned());
    }
    if !autopsies.is_empty() {
        lines.extend([String::new(), "autopsies that are kept (history --autopsy NUMBER shows one)".to_owned()]);
        lines.extend(autopsies.iter().map(kept));
    }
    lines.join("\n") + "\n"
}

/// The newest that are kept, oldest first; one that is not whole is left out.
fn autopsies(state_dir: &Path) -> io::Result<Vec<Autopsy>> {
    let numbers = store::numbers(state_dir)?;
    let newest = numbers.into_iter().rev().filter_map(|number| store::read(state_dir, number).ok()).take(store::KEPT);
    let mut autopsies: Vec<Autopsy> = newest.collect();
    autopsies.reverse();
    Ok(autopsies)
}

fn one(args: &HistoryArgs, number: u32) -> Told {
    let path = store::path(&args.state_dir, number);
    let autopsy = store::read(&args.state_dir, number).map_err(|error| {
        let code = if error.kind() == io::ErrorKind::PermissionDenied { EXIT_NOT_PERMITTED } else { EXIT_NO_INPUT };
        (code, format!("autopsy {number}: {} cannot be read: {error}", path.display()))
    })?;
    Ok(if args.json { screen::json(&autopsy) } else { opened(&autopsy) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::autopsy::{Evidence, cause};

    #[test]
    fn the_history_without_entries_says_so_and_lists_what_is_kept() {
        let finding = cause(&Evidence::default());
        let autopsy = Autopsy {
            number: Some(7),
            wall_ms: 1_796_016_675_000,
            verdict: "log_stalled".to_owned(),
            finding,
            took_ms: 80,
            evidence: Evidence::default(),
        };
        assert_eq!(
            text(&[], &[autopsy]),
            "the journal has no entries of fip-watchdog for that time\n\n\
             autopsies that are kept (history --autopsy NUMBER shows one)\n\
             0007  2026-11-30 05:31:15Z  unknown: no cause was recognised: no process of the loop was seen\n"
        );
    }

    #[test]
    fn an_autopsy_that_is_not_there_is_named_with_its_path() {
        let dir = tempfile::tempdir().unwrap();
        let args = HistoryArgs { since: None, lines: 1, autopsy: Some(3), json: false, state_dir: dir.path().to_owned() };
        let (code, message) = one(&args, 3).unwrap_err();
        assert_eq!(code, EXIT_NO_INPUT);
        assert!(message.contains("autopsies/0003.json cannot be read"), "{message}");
    }
}
