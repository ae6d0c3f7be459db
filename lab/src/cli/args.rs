//! What the command line may say.

use std::ffi::OsString;

use clap::{Args, Parser, Subcommand};

use crate::node::NodeId;

/// Three control-plane nodes on one machine, with faults, scenarios and a client that measures.
#[derive(Debug, Parser)]
#[command(name = "fip-lab", version, disable_help_subcommand = true)]
pub(super) struct Cli {
    /// Which instance; several can run side by side.
    #[arg(long, global = true, default_value = "fip", value_name = "NAME")]
    pub lab: String,
    /// Say what is being done even when the output is no terminal.
    #[arg(short, long, global = true)]
    pub verbose: bool,
    #[command(subcommand)]
    pub command: Verb,
}

#[derive(Debug, Subcommand)]
pub(super) enum Verb {
    /// Bring an instance up; one of the same name is taken down first.
    Up(Box<Up>),
    /// Take an instance down, running or half dead; nothing there is success.
    Down,
    /// One line a node: etcd, floating IP, loop, watchdog.
    Status {
        /// As JSON.
        #[arg(long)]
        json: bool,
    },
    /// Run a command on a node, with this terminal; its exit code is passed on.
    Exec {
        /// cp1, cp2, …
        node: NodeId,
        /// The command and its arguments.
        #[arg(last = true, required = true)]
        argv: Vec<String>,
    },
    /// Break something on a node; without a name, list what can be broken.
    Fault(FaultArgs),
    /// Undo a fault; `heal all` undoes all of them on all nodes.
    Heal(FaultArgs),
    /// Probe the floating IP from the client and report outages (`fip-lab probe --help`).
    #[command(disable_help_flag = true)]
    Probe(Rest),
    /// Run a scenario file (`fip-lab run --help`).
    #[command(disable_help_flag = true)]
    Run(Rest),
    /// List the scenarios (`fip-lab list --help`).
    #[command(disable_help_flag = true)]
    List(Rest),
}

/// Arguments that another module parses.
#[derive(Debug, Args)]
pub(super) struct Rest {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    _words: Vec<OsString>,
}

#[derive(Debug, Args)]
pub(super) struct Up {
    /// Start fip-watchdog on each node.
    #[arg(long)]
    pub watchdog: bool,
    /// The watchdog's policy; without one: version 1, the floating IP, eth0.
    #[arg(long, value_name = "FILE")]
    pub policy: Option<std::path::PathBuf>,
    /// The watchdog's binary; without one: the one beside this program.
    #[arg(long, value_name = "FILE")]
    pub watchdog_binary: Option<std::path::PathBuf>,
    /// How often the loop runs, in seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=3600))]
    pub interval: u32,
    /// etcd's election timeout, in seconds; its heartbeat stays at 100 ms.
    #[arg(long, value_name = "SECONDS", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=50))]
    pub election_timeout: u32,
    /// The loop's pod's grace period, in seconds; without one it is the kubelet's 30.
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(0..=3600))]
    pub grace: Option<u32>,
    /// How many nodes.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u8).range(1..=7))]
    pub nodes: u8,
}

#[derive(Debug, Args)]
pub(super) struct FaultArgs {
    /// The fault's name.
    pub name: Option<String>,
    /// cp1, cp2, …
    pub node: Option<NodeId>,
    /// KEY=VALUE, as the list of faults says.
    #[arg(value_parser = key_value)]
    pub args: Vec<(String, String)>,
}

fn key_value(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').ok_or_else(|| format!("{text:?} is not KEY=VALUE"))?;
    Ok((key.to_owned(), value.to_owned()))
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn instance_can_be_named_before_and_behind_the_subcommand() {
        for words in [["fip-lab", "--lab", "t1", "down"], ["fip-lab", "down", "--lab", "t1"]] {
            assert_eq!(Cli::try_parse_from(words).unwrap().lab, "t1");
        }
    }

    #[test]
    fn what_follows_the_dashes_is_the_nodes_command() {
        let cli = Cli::try_parse_from(["fip-lab", "exec", "cp1", "--", "ls", "--lab", "x"]).unwrap();
        assert!(matches!(cli.command, Verb::Exec { argv, .. } if argv == ["ls", "--lab", "x"]));
        assert_eq!(cli.lab, "fip");
    }
}
