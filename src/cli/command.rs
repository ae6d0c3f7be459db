//! The command line: its shape, and where each subcommand goes.

use std::io::{self, Write as _};
use std::net::Ipv4Addr;
use std::path::PathBuf;

use clap::{Args, CommandFactory as _, Parser, Subcommand};

use super::{check, diagnose, explain, history, init, manual, pause, run, schema, status};

/// Keeps the floating IP of a vSphere Supervisor control plane on the node whose etcd leads.
#[derive(Debug, Parser)]
#[command(name = "fip-watchdog", version, max_term_width = 100, arg_required_else_help = true)]
pub struct Cli {
    #[command(subcommand)]
    command: Subcommands,
}

#[derive(Debug, Subcommand)]
enum Subcommands {
    Run(run::RunArgs),
    Status(status::StatusArgs),
    Explain(explain::ExplainArgs),
    Diagnose(diagnose::DiagnoseArgs),
    History(history::HistoryArgs),
    Pause(pause::PauseArgs),
    Resume(pause::ResumeArgs),
    Check(CheckArgs),
    Init(InitArgs),
    /// Write the JSON Schema of the policy file, for editors.
    Schema,
    Man(manual::ManArgs),
    Completions(manual::CompletionsArgs),
}

/// Check policy files: every fault at its line, and what a good policy allows at worst.
///
/// Exit code: 0 if all are good, 78 if one is bad, 66 if one cannot be read.
#[derive(Debug, Args)]
struct CheckArgs {
    /// The files; without one, the installed policy.
    #[arg(value_name = "FILE", default_value = check::DEFAULT_PATH)]
    files: Vec<PathBuf>,
    /// Print one JSON document.
    #[arg(long)]
    json: bool,
}

/// Write a policy for this node to standard output, from what the loop's manifest says.
///
/// Exit code: 0, 66 if the manifest cannot be read, 78 if the FIP cannot be told; then name it.
#[derive(Debug, Args)]
struct InitArgs {
    /// The loop's manifest.
    #[arg(long, value_name = "FILE", default_value = "/etc/kubernetes/manifests/wcp-fip.yaml")]
    manifest: PathBuf,
    /// The FIP, instead of looking for it.
    #[arg(long, value_name = "ADDRESS")]
    address: Option<Ipv4Addr>,
    /// The interface, instead of looking for it.
    #[arg(long, value_name = "NAME")]
    interface: Option<String>,
}

impl Cli {
    /// Carries the subcommand out; the exit code.
    ///
    /// # Errors
    /// The output cannot be written, or the asynchronous runtime cannot be made. A reader that went away is no error.
    pub fn dispatch(self) -> anyhow::Result<u8> {
        let (mut out, mut err) = (io::stdout().lock(), io::stderr());
        match self.command {
            Subcommands::Run(args) => {
                drop(out);
                run::run(&args)
            }
            Subcommands::Status(args) => status::run(&args, &mut out),
            Subcommands::Explain(args) => explain::run(&args, &mut out),
            Subcommands::Diagnose(args) => diagnose::run(&args, &mut out),
            Subcommands::History(args) => history::run(&args, &mut out),
            Subcommands::Pause(args) => pause::run_pause(&args, &mut out),
            Subcommands::Resume(args) => pause::run_resume(&args, &mut out),
            Subcommands::Check(args) => Ok(check::run(&args.files, args.json, &mut out, &mut err)),
            Subcommands::Init(args) => {
                let options = init::Options { manifest: args.manifest, address: args.address, interface: args.interface };
                Ok(init::run(&options, &mut out, &mut err))
            }
            Subcommands::Schema => written(schema::run(&mut out)),
            Subcommands::Man(args) => written(manual::man(&args, Self::command(), &mut out)),
            Subcommands::Completions(args) => {
                let mut script = Vec::new();
                manual::completions(&args, Self::command(), &mut script);
                written(out.write_all(&script))
            }
        }
    }
}

fn written(outcome: io::Result<()>) -> anyhow::Result<u8> {
    match outcome {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error.into()),
        Ok(()) | Err(_) => Ok(0),
    }
}
