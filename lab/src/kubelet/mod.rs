//! A kubelet stand-in: runs static pods from a manifest directory with the behaviour and the delays that were measured on real kubelets,
//! and with faults that can be switched on while it runs.
//!
//! ```text
//!  manifests ──inotify, list──► source ──► workers ──► pod (state machine) ──effects──► container ──► shim ──► the loop (PID 1)
//!  mode file ──────────────────────────────────▲                                                        └────► log reader ──► N.log
//! ```
//!
//! `sync` owns clock and processes; `workers` and `pod` have neither. Invariant: the container and its log reader outlive the kubelet's
//! process, and whatever the kubelet starts is in its state file before anything else is done with it.

mod backoff;
mod cgroup;
mod container;
pub(crate) mod cri;
mod log_reader;
mod manifest;
mod mode;
mod namespace;
mod notify;
mod options;
mod phase;
mod pod;
mod process;
mod rotate;
mod shim;
mod source;
pub mod state_json;
mod store;
mod sync;
mod timing;
mod uid;
mod workers;

use std::ffi::OsString;
use std::io::Write as _;
use std::process::ExitCode;

use clap::Parser as _;

/// Run `kubelet`, `kubelet-shim` or `log-reader`, whichever `args` begins with.
///
/// # Errors
/// What the subcommand cannot do without is missing.
pub fn main(args: &[OsString]) -> anyhow::Result<ExitCode> {
    let result = match args.first().and_then(|name| name.to_str()) {
        Some("kubelet") => options::Options::try_parse_from(args)
            .map_err(anyhow::Error::from)
            .and_then(|options| sync::Kubelet::new(options)?.run().map(|()| ExitCode::SUCCESS)),
        Some("kubelet-shim") => shim::main(args),
        Some("log-reader") => log_reader::main(args),
        Some(_) | None => anyhow::bail!("expected kubelet, kubelet-shim or log-reader, found {:?}", args.first()),
    };
    // clap words its own errors, and its help is one of them.
    match result.map_err(anyhow::Error::downcast::<clap::Error>) {
        Ok(code) => Ok(code),
        Err(Ok(usage)) => {
            usage.print()?;
            Ok(if usage.use_stderr() { ExitCode::from(64) } else { ExitCode::SUCCESS })
        }
        Err(Err(error)) => Err(error),
    }
}

/// One line to stderr, which is the journal in a node. A closed stderr is no reason to stop.
fn say(sentence: &str) {
    let _written = writeln!(std::io::stderr().lock(), "{sentence}");
}
