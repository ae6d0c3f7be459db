//! `fip-watchdog diagnose`: why etcd is unwell, from this node alone, changing nothing.
//!
//! Invariant: an answer comes, whatever hangs; without a policy, or with a bad one, the defaults are used and that is said.

use std::io::{self, IsTerminal, Write};
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;

use super::check::unless_reader_gone;
use super::{check, complain, screen};
use crate::control::CONTROL_SOCKET;
use crate::control::client;
use crate::control::protocol::{Request, Response};
use crate::diagnose::evidence::Pause;
use crate::diagnose::{self, Diagnosis, Mark, Outcome};
use crate::policy::Policy;
use crate::policy::load::load;

/// What the runtime may take beyond the diagnosis itself.
const MARGIN: Duration = Duration::from_millis(400);

/// How long the daemon has to tell its last pause. One that hangs, or is not there, holds up nothing.
const LEDGER_TIME: Duration = Duration::from_secs(1);

/// `EX_TEMPFAIL` of sysexits(3): it took too long.
const EXIT_TOO_LONG: u8 = 75;

/// Tell why etcd is unwell: which link is broken, and which way, or what is wrong with this node. Changes nothing.
///
/// Looks at this node, its etcd and its peers for at most five seconds. Needs neither the daemon nor an API server. Marks: ✓ well, ✗ wrong,
/// ? could not be seen, ! works, but look at it.
///
/// Exit code: 0 healthy as far as was seen, 1 this node, its etcd or a peer's etcd is at fault, 3 the network between the members is at fault
/// (nothing to heal on a node), 4 something is wrong or too little was seen to tell, 75 no answer in time.
#[derive(Debug, Args)]
pub struct DiagnoseArgs {
    /// Print the diagnosis with all its evidence as one line of JSON.
    #[arg(long)]
    pub json: bool,
    /// The policy, for etcd's endpoint and certificates. Without it, or with a bad one, the defaults are used.
    #[arg(long, value_name = "FILE", default_value = check::DEFAULT_PATH)]
    pub policy: PathBuf,
    /// The daemon's control socket. If a daemon answers there, it tells whether this node stood still a moment ago.
    #[arg(long, value_name = "PATH", default_value = CONTROL_SOCKET)]
    pub socket: PathBuf,
}

/// Runs the subcommand; the exit code.
///
/// # Errors
/// When the runtime cannot be made or the output cannot be written. A reader that has gone away is no error.
pub fn run(args: &DiagnoseArgs, out: &mut impl Write) -> anyhow::Result<u8> {
    let policy = policy(&args.policy);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let socket = args.socket.clone();
    let looked = runtime.block_on(async {
        let asked = tokio::task::spawn_blocking(move || last_pause(&socket));
        let last_pause = async { asked.await.ok().flatten() };
        tokio::time::timeout(diagnose::PATIENCE + MARGIN, diagnose::diagnose_beside(&policy, last_pause)).await
    });
    // A read that hangs on a dead disk would hold up the end of the runtime for ever.
    runtime.shutdown_background();
    let Ok(diagnosis) = looked else {
        complain("the diagnosis did not end in time; this node is so busy, or so stuck, that not even that could be seen");
        return Ok(EXIT_TOO_LONG);
    };
    let colour = io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    let text = if args.json { screen::json(&diagnosis) } else { render(&diagnosis, colour) };
    unless_reader_gone(out.write_all(text.as_bytes()).and_then(|()| out.flush()))?;
    Ok(diagnosis.outcome.exit_code())
}

/// What the daemon's ledger says, if one answers in time.
fn last_pause(socket: &Path) -> Option<Pause> {
    let Ok(Response::Status(report)) = client::ask(socket, &Request::Status, LEDGER_TIME) else { return None };
    let pause = report.pauses.iter().find(|pause| pause.voids_ages())?;
    Some(Pause { length_ms: pause.length_ms, age_ms: pause.age_ms })
}

/// The policy, or the defaults with a word about why.
fn policy(path: &Path) -> Policy {
    load(path).unwrap_or_else(|error| {
        complain(&format!("{:#}; going on with the defaults", anyhow::Error::new(error)));
        // The FIP is not looked at.
        Policy::with_defaults(Ipv4Addr::UNSPECIFIED, "eth0")
    })
}

/// The screen: the sentence first, then the tree, then what to do next.
#[must_use]
pub fn render(diagnosis: &Diagnosis, colour: bool) -> String {
    let paint = |code: &str, text: &str| if colour { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() };
    let (code, kind) = match diagnosis.outcome {
        Outcome::Healthy => ("1;32", "healthy"),
        Outcome::Node => ("1;31", "node"),
        Outcome::Network => ("1;31", "network"),
        Outcome::Unknown => ("1;33", "unknown"),
    };
    let cause = diagnosis.cause.name();
    let head = if cause == kind { paint(code, kind) } else { format!("{}: {cause}", paint(code, kind)) };
    let mut text = format!("{head}\n{}\n\n", diagnosis.sentence);
    let width = diagnosis.checks.iter().map(|check| check.name.chars().count()).max().unwrap_or(0).min(40);
    for check in &diagnosis.checks {
        let (code, sign) = match check.mark {
            Mark::Good => ("32", "✓"),
            Mark::Bad => ("31", "✗"),
            Mark::Unseen => ("33", "?"),
            Mark::Warn => ("33", "!"),
        };
        let means = if check.means.is_empty() { String::new() } else { format!(": {}", check.means) };
        text.push_str(&format!("{} {:<width$}  {}{means}\n", paint(code, sign), check.name, check.seen));
        if check.mark != Mark::Good && !check.by_hand.is_empty() {
            text.push_str(&format!("  {:<width$}  $ {}\n", "", check.by_hand));
        }
    }
    if !diagnosis.next.is_empty() {
        text.push_str("\nnext\n");
        for command in &diagnosis.next {
            text.push_str(&format!("  $ {command}\n"));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnose::evidence::Seen;
    use crate::diagnose::{Evidence, judge};

    #[test]
    fn the_screen_has_a_line_a_check_and_the_command_below_what_is_not_well() {
        let diagnosis = judge(Evidence { kubelet: Seen::No("D-Bus is not there".to_owned()), ..Evidence::default() });
        let screen = render(&diagnosis, false);
        assert!(screen.starts_with("unknown\n"), "{screen}");
        assert!(screen.contains(&diagnosis.sentence));
        let line = screen.lines().position(|line| line.starts_with("? kubelet")).unwrap();
        assert!(screen.lines().nth(line).unwrap().contains("not seen: D-Bus is not there"));
        assert!(screen.lines().nth(line + 1).unwrap().trim_start().starts_with("$ systemctl status kubelet"));
        assert!(!screen.contains('\x1b'));
        assert!(render(&diagnosis, true).contains("\x1b[33m?\x1b[0m kubelet"));
    }

    #[test]
    fn what_others_said_moves_no_cursor() {
        let diagnosis = judge(Evidence {
            node: "cp1\x1b[2J\n✓ all".to_owned(),
            kubelet: Seen::No("\x1b]0;x\x07\r\n✓ all".to_owned()),
            ..Evidence::default()
        });
        let screen = render(&diagnosis, false);
        assert!(screen.chars().all(|character| character == '\n' || !character.is_control()), "{screen:?}");
        assert!(!screen.lines().any(|line| line.starts_with("✓ all")), "{screen}");
    }
}
