//! `fip-watchdog run`: the daemon.

use std::path::PathBuf;

use clap::Args;

use super::complain;
use crate::audit::Audit;
use crate::runtime::startup::{self, Options, chain};
use crate::runtime::telemetry;

/// Watch this node until a signal ends it. This is what the systemd unit starts.
///
/// Exit code: 0 after SIGTERM or SIGINT; 78 if the policy is missing or bad (each fault at its line is in the journal and
/// on standard error; systemd does not restart it); 75 if another instance holds the lock; 71 or 73 if the system refuses
/// what the daemon needs.
#[derive(Debug, Args)]
pub struct RunArgs {
    /// The policy file. An edit takes effect without a restart.
    #[arg(long, value_name = "FILE", default_value = super::check::DEFAULT_PATH)]
    pub policy: PathBuf,
    /// Where the lock and the control socket are.
    #[arg(long, value_name = "DIR", default_value = "/run/fip-watchdog")]
    pub runtime_dir: PathBuf,
}

/// Runs the daemon; the exit code.
///
/// # Errors
/// The asynchronous runtime cannot be made.
pub fn run(args: &RunArgs) -> anyhow::Result<u8> {
    if let Err(error) = telemetry::tracing_setup() {
        complain(&format!("diagnostics go nowhere: {error}"));
    }
    let verbose =
        std::env::var(telemetry::FILTER_VARIABLE).is_ok_and(|filter| filter.contains("debug") || filter.contains("trace"));
    let options = Options { policy: args.policy.clone(), runtime_dir: args.runtime_dir.clone() };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let outcome = runtime.block_on(startup::run(&options, Audit::connect(verbose)));
    // A blocking read from a dead disk must not keep the process from ending.
    runtime.shutdown_background();
    match outcome {
        Ok(()) => Ok(0),
        Err(error) => {
            complain(&chain(&error));
            Ok(error.exit_code())
        }
    }
}
