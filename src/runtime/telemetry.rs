//! Where diagnostics (`tracing`) go. The audit has its own way, see [`audit`](crate::audit).
//!
//! Under systemd they go to the journal with their fields, by hand as lines to standard error.
//! `FIP_WATCHDOG_LOG` filters them (`debug`, `fip_watchdog::sensor=trace`); the default is `info`.
//! Fields get the prefix `FIP_LOG_`, so that they are never mistaken for the audit's.

use std::io::{self, IsTerminal};
use std::path::Path;

use tracing::level_filters::LevelFilter;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::{SubscriberInitExt, TryInitError};

use super::stderr::ImpatientStderr;
use crate::audit::journal_layer::JournalLayer;
use crate::audit::journald::JOURNAL_SOCKET;

/// The variable that holds the filter.
pub const FILTER_VARIABLE: &str = "FIP_WATCHDOG_LOG";

/// Sets up diagnostics for the whole process.
///
/// A filter that cannot be parsed is no reason not to watch: its bad parts are ignored.
///
/// # Errors
/// When a subscriber is set already.
pub fn tracing_setup() -> Result<(), TryInitError> {
    let filter =
        EnvFilter::builder().with_default_directive(LevelFilter::INFO.into()).with_env_var(FILTER_VARIABLE).from_env_lossy();
    let registry = tracing_subscriber::registry().with(filter);
    let journal = if stderr_is_the_journal() { JournalLayer::open(Path::new(JOURNAL_SOCKET)).ok() } else { None };
    if let Some(journal) = journal {
        registry.with(journal).try_init()
    } else {
        // NO_COLOR (https://no-color.org) counts when it is set and not empty.
        let colour = io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        registry.with(tracing_subscriber::fmt::layer().with_writer(|| ImpatientStderr).with_ansi(colour)).try_init()
    }
}

/// Whether standard error is the journal's stream: systemd then names its device and inode in
/// `JOURNAL_STREAM`, which a child with a redirected standard error inherits as well, so that the
/// variable alone tells nothing (systemd.exec(5)).
#[must_use]
pub fn stderr_is_the_journal() -> bool {
    let Some(stream) = std::env::var_os("JOURNAL_STREAM") else { return false };
    rustix::fs::fstat(io::stderr()).is_ok_and(|stat| stream.to_str() == Some(format!("{}:{}", stat.st_dev, stat.st_ino).as_str()))
}
