//! The command line: where each subcommand starts, and the difference between a terminal,
//! which sees progress, and a script, which does not.

mod args;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::{IsTerminal as _, Write as _};
use std::process::ExitCode;

use anyhow::Context as _;
use clap::Parser as _;
use rustix::process::{Pid, Signal, kill_process};
use tokio::signal::unix::{SignalKind, signal};

use self::args::{Cli, FaultArgs, Up, Verb};
use crate::cluster::{Lab, UpOptions};
use crate::node::NodeId;
use crate::{agent, etcd_log, fault, kubelet, probe, scenario, status};

/// sysexits: a wrong command line.
const EX_USAGE: u8 = 64;
/// Longest that a policy may be; the watchdog itself refuses far smaller ones.
const POLICY_BYTES_MAX: u64 = 1 << 20;

/// Parses, dispatches, and turns the outcome into an exit code.
#[must_use]
pub fn main() -> ExitCode {
    let words = name_first(std::env::args_os().collect());
    let outcome = match delegated(&words) {
        Some(outcome) => outcome,
        None => own(&words),
    };
    match outcome {
        Ok(code) => code,
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            say(&format!("fip-lab: {error:#}"));
            ExitCode::FAILURE
        }
    }
}

/// `--lab NAME` may stand before any subcommand's name: for those that parse their own arguments it is moved behind it.
fn name_first(mut words: Vec<OsString>) -> Vec<OsString> {
    let is = |at: usize, wanted: &[&str]| words.get(at).and_then(|word| word.to_str()).is_some_and(|word| wanted.contains(&word));
    let joined = words.get(1).and_then(|word| word.to_str()).is_some_and(|word| word.starts_with("--lab="));
    let name_at = match () {
        () if is(1, &["--lab"]) => 3,
        () if joined => 2,
        () => return words,
    };
    if is(name_at, &["run", "list", "probe"]) {
        let name = words.remove(name_at);
        words.insert(1, name);
    }
    words
}

/// Subcommands that parse their own arguments; the first of those is the subcommand's name.
fn delegated(words: &[OsString]) -> Option<anyhow::Result<ExitCode>> {
    let args = words.get(1..)?;
    Some(match args.first()?.to_str()? {
        "kubelet" | "log-reader" | "kubelet-shim" => kubelet::main(args),
        "agent" => agent::main(&args[1..]),
        "etcd" => etcd_log::main(&args[1..]),
        "etcd-log" => etcd_log::reader(&args[1..]),
        "run" | "list" => scenario::main(args),
        "probe" => probe::main(args),
        _ => return None,
    })
}

fn own(words: &[OsString]) -> anyhow::Result<ExitCode> {
    let cli = match Cli::try_parse_from(words) {
        Ok(cli) => cli,
        Err(error) => {
            let code = if error.use_stderr() { ExitCode::from(EX_USAGE) } else { ExitCode::SUCCESS };
            error.print().context("cannot print the help")?;
            return Ok(code);
        }
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().context("cannot start the runtime")?;
    runtime.block_on(dispatch(cli))
}

async fn dispatch(cli: Cli) -> anyhow::Result<ExitCode> {
    let mut progress = progress(cli.verbose);
    match cli.command {
        Verb::Up(up) => return self::up(&cli.lab, &up, &mut progress).await,
        Verb::Down => down(&cli.lab).await?,
        Verb::Status { json } => {
            let all = status::read(&cli.lab).await?;
            print(&if json { serde_json::to_string_pretty(&all)? + "\n" } else { status::table(&all) })?;
        }
        Verb::Exec { node, argv } => return exec(&cli.lab, node, &argv).await,
        Verb::Fault(args) => return break_or_heal(&cli.lab, args, true).await,
        Verb::Heal(args) => return break_or_heal(&cli.lab, args, false).await,
        // Taken before other options that stand in front of the name were read.
        Verb::Probe(_) | Verb::Run(_) | Verb::List(_) => {
            say("fip-lab: options other than --lab stand behind this subcommand's name, as in: fip-lab run --json …");
            return Ok(ExitCode::from(EX_USAGE));
        }
    }
    Ok(ExitCode::SUCCESS)
}

async fn up(name: &str, up: &Up, progress: &mut dyn FnMut(&str)) -> anyhow::Result<ExitCode> {
    let options = UpOptions {
        policy_yaml: up.policy.as_deref().map(|path| read_bounded(path, POLICY_BYTES_MAX)).transpose()?,
        watchdog: up.watchdog,
        loop_interval_s: up.interval,
        election_timeout_s: up.election_timeout,
        grace_s: up.grace,
        watchdog_binary: up.watchdog_binary.clone(),
        nodes: up.nodes,
    };
    let raised = tokio::select! {
        made = Lab::up(name, &options, progress) => {
            let lab = made?;
            progress(&format!("lab {} is up: {} nodes", lab.name(), lab.nodes().len()));
            return Ok(ExitCode::SUCCESS);
        }
        raised = interrupted() => raised?,
    };
    say("fip-lab: interrupted, taking the lab down …");
    Lab::down(name).await?;
    Ok(ExitCode::from(128_u8.saturating_add(raised)))
}

/// Half an instance is of no use to anybody, and the other half takes a second or two: an interrupt is told so.
async fn down(name: &str) -> anyhow::Result<()> {
    let down = Lab::down(name);
    tokio::pin!(down);
    tokio::select! {
        done = &mut down => return done,
        raised = interrupted() => drop(raised),
    }
    say("fip-lab: the lab is being taken down, a moment …");
    down.await
}

/// Waits for SIGINT, SIGTERM, or SIGHUP unless that is ignored, as under `nohup`, and gives its number. A run that this ends
/// takes its instance down before it exits.
///
/// # Errors
/// The handlers cannot be set up.
pub async fn interrupted() -> anyhow::Result<u8> {
    let mut interrupt = signal(SignalKind::interrupt()).context("cannot wait for SIGINT")?;
    let mut terminate = signal(SignalKind::terminate()).context("cannot wait for SIGTERM")?;
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mut hang_up =
        if ignores_hang_up(&status) { None } else { Some(signal(SignalKind::hangup()).context("cannot wait for SIGHUP")?) };
    let hung_up = async {
        match &mut hang_up {
            Some(hang_up) => hang_up.recv().await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        _ = interrupt.recv() => Ok(2),
        _ = terminate.recv() => Ok(15),
        _ = hung_up => Ok(1),
    }
}

/// `SigIgn:\t0000000000000001`: bit 0 is signal 1.
fn ignores_hang_up(status: &str) -> bool {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).is_some_and(|mask| mask & 1 == 1)
}

/// The text of a file that must not be longer than `bytes`.
///
/// # Errors
/// It cannot be read, is longer, or is no text.
pub(crate) fn read_bounded(path: &std::path::Path, bytes: u64) -> anyhow::Result<String> {
    use std::io::Read as _;
    let mut text = String::new();
    let file = std::fs::File::open(path).with_context(|| format!("cannot open {}", path.display()))?;
    let length = file.take(bytes + 1).read_to_string(&mut text).with_context(|| format!("cannot read {}", path.display()))?;
    anyhow::ensure!(u64::try_from(length)? <= bytes, "{} is longer than {bytes} bytes", path.display());
    Ok(text)
}

async fn exec(name: &str, node: NodeId, argv: &[String]) -> anyhow::Result<ExitCode> {
    let lab = Lab::attach(name)?;
    let argv: Vec<&str> = argv.iter().map(String::as_str).collect();
    let mut command = lab.find(node)?.command(&argv);
    let mut child = command.spawn().with_context(|| format!("cannot enter node {node}"))?;
    let status = tokio::select! {
        status = child.wait() => status,
        raised = told_to_end() => {
            end(&child, raised?);
            child.wait().await
        }
    };
    let status = status.with_context(|| format!("cannot wait for {}", argv.first().unwrap_or(&"")))?;
    let signalled = || std::os::unix::process::ExitStatusExt::signal(&status).map(|signal| signal + 128);
    let code = status.code().or_else(signalled).and_then(|code| u8::try_from(code).ok());
    Ok(code.map_or(ExitCode::FAILURE, ExitCode::from))
}

/// Waits for SIGTERM or SIGHUP. A terminal's SIGINT is the command's own: it gets it too.
async fn told_to_end() -> anyhow::Result<Signal> {
    let mut terminate = signal(SignalKind::terminate()).context("cannot wait for SIGTERM")?;
    let mut hang_up = signal(SignalKind::hangup()).context("cannot wait for SIGHUP")?;
    tokio::select! {
        _ = terminate.recv() => Ok(Signal::TERM),
        _ = hang_up.recv() => Ok(Signal::HUP),
    }
}

/// Hands the signal on to what runs in the node, which `nsenter` would leave behind.
fn end(nsenter: &tokio::process::Child, raised: Signal) {
    let Some(pid) = nsenter.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw) else { return };
    let inside = crate::service::descendants(pid);
    // It may not have started anything yet.
    for process in if inside.is_empty() { vec![pid] } else { inside } {
        // One that has ended is what was wanted.
        kill_process(process, raised).ok();
    }
}

async fn break_or_heal(name: &str, given: FaultArgs, breaking: bool) -> anyhow::Result<ExitCode> {
    let Some(fault) = given.name else {
        print(&fault::list())?;
        return Ok(ExitCode::SUCCESS);
    };
    let lab = Lab::attach(name)?;
    if !breaking && fault == "all" {
        fault::heal_all(&lab).await?;
        return Ok(ExitCode::SUCCESS);
    }
    let node = given.node.context("which node? as in: fip-lab fault loop-stop cp2")?;
    lab.find(node)?;
    let args: BTreeMap<String, String> = given.args.into_iter().collect();
    if breaking {
        fault::inject(&lab, &fault, node, &args).await?
    } else {
        fault::heal(&lab, &fault, node, &args).await?
    }
    Ok(ExitCode::SUCCESS)
}

/// Lines with the time since the start, on a terminal or when asked for.
fn progress(verbose: bool) -> impl FnMut(&str) {
    let shown = verbose || std::io::stderr().is_terminal();
    let start = std::time::Instant::now();
    move |text: &str| {
        if shown {
            say(&format!("{:5.1} s  {text}", start.elapsed().as_secs_f64()));
        }
    }
}

fn say(line: &str) {
    // Nobody is left to tell when standard error is closed.
    writeln!(std::io::stderr(), "{line}").ok();
}

/// Writes to standard output; a caller that passes the error on ends well where the reader has seen enough.
pub(crate) fn print(text: &str) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).context("cannot write the answer")
}

/// A reader that has seen enough, as in `fip-lab status | head -1`, is no failure.
fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let cause = error.chain().find_map(|cause| cause.downcast_ref::<std::io::Error>());
    cause.is_some_and(|cause| cause.kind() == std::io::ErrorKind::BrokenPipe)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ordered(words: &[&str]) -> Vec<OsString> {
        name_first(words.iter().map(OsString::from).collect())
    }

    #[test]
    fn a_hang_up_that_nohup_ignores_stays_ignored() {
        assert!(ignores_hang_up("Name:\tfip-lab\nSigIgn:\t0000000000001001\nSigCgt:\t0000000000000000\n"));
        assert!(!ignores_hang_up("SigIgn:\t0000000000001000\nSigCgt:\t0000000000000001\n"));
        assert!(!ignores_hang_up(""));
    }

    #[test]
    fn a_file_without_end_is_refused_by_name() {
        let error = read_bounded(std::path::Path::new("/dev/zero"), 1000).unwrap_err().to_string();
        assert_eq!(error, "/dev/zero is longer than 1000 bytes");
        assert_eq!(read_bounded(std::path::Path::new("/dev/null"), 0).unwrap(), "");
    }

    #[test]
    fn the_instance_may_be_named_before_or_behind_the_subcommand() {
        let behind: Vec<OsString> = ["fip-lab", "run", "--lab", "a", "quiet"].iter().map(OsString::from).collect();
        assert_eq!(ordered(&["fip-lab", "--lab", "a", "run", "quiet"]), behind);
        assert_eq!(ordered(&["fip-lab", "run", "--lab", "a", "quiet"]), behind);
        let own = ["fip-lab", "--lab", "a", "up"];
        assert_eq!(ordered(&own), own.iter().map(OsString::from).collect::<Vec<_>>());
        assert_eq!(ordered(&["fip-lab", "--lab=a", "list"])[1], "list");
    }
}
