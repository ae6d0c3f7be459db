//! Command line of the stand-in.
//! Invariant: every path it touches can be moved elsewhere, so that tests and several nodes run side by side.

use std::path::PathBuf;
use std::time::Duration;

use clap::Parser;

/// containerLogMaxSize of a kubelet: 10 MiB.
pub const ROTATE_BYTES_DEFAULT: u64 = 10 << 20;

/// Options of `fip-lab kubelet`.
#[derive(Debug, Clone, Parser)]
#[command(name = "kubelet", about = "Run static pods as a kubelet does, with the measured delays and the known faults")]
pub struct Options {
    /// Directory of the static pods' manifests.
    #[arg(long, default_value = "/etc/kubernetes/manifests")]
    pub manifests: PathBuf,
    /// Name of the node; the default is the content of --node-name-file.
    #[arg(long)]
    pub node_name: Option<String>,
    /// Where the node's name is found.
    #[arg(long, default_value = "/run/fip-lab/node-name")]
    pub node_name_file: PathBuf,
    /// Logs of the pods; links are made in the directory `containers` beside it.
    #[arg(long, default_value = "/var/log/pods")]
    pub pods_log: PathBuf,
    /// Where the stand-in remembers its containers.
    #[arg(long, default_value = "/var/lib/kubelet")]
    pub state_dir: PathBuf,
    /// Control file with one mode a line: sources-not-ready, watch-dead, unkillable, log-reader-dead.
    #[arg(long, default_value = "/run/fip-lab/kubelet.mode")]
    pub mode_file: PathBuf,
    /// Where the state of all containers is published.
    #[arg(long, default_value = "/run/fip-lab/kubelet.json")]
    pub state_json: PathBuf,
    /// Period of the full list.
    #[arg(long, default_value = "20s", value_parser = humantime::parse_duration)]
    pub list_period: Duration,
    /// Period of the housekeeping.
    #[arg(long, default_value = "2s", value_parser = humantime::parse_duration)]
    pub tick: Duration,
    /// Rotate a container's log when it is larger than this.
    #[arg(long, default_value_t = ROTATE_BYTES_DEFAULT)]
    pub rotate_bytes: u64,
    /// Multiply every delay, grace periods, --tick and --list-period included, by this (for tests).
    #[arg(long, default_value_t = 1.0, value_parser = scale)]
    pub time_scale: f64,
}

fn scale(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(scale) if (0.001..=10.0).contains(&scale) => Ok(scale),
        Ok(_) | Err(_) => Err("must be a number from 0.001 to 10".to_owned()),
    }
}
