//! `fip-lab probe`: what a client of the FIP sees, until it is interrupted, nobody reads, the lab is gone, or a given time has passed.
//!
//! Reads only: it sends datagrams from the client's namespace and touches no node.

pub mod client;
pub mod outage;

use std::ffi::OsString;
use std::io::{self, Write as _};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context as _;
use clap::Parser;
use serde::Serialize;
use tokio::sync::mpsc;

use crate::cluster::Lab;
use crate::network;
use crate::scenario::clock;
use crate::scenario::lab_api;
use crate::scenario::node::Node;
use outage::{Heard, Segment};

/// Changes that may wait to be printed; a client that flaps faster than a terminal prints loses the rest of them here,
/// not in its report.
const CHANGES_MAX: usize = 1024;
/// Between two looks whether the lab is still there: nothing answers in one that was taken down, for ever.
const LAB_LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// Ask the FIP every 20 ms from the client's namespace: who answers, and when nobody does.
#[derive(Debug, Parser)]
#[command(name = "fip-lab probe", bin_name = "fip-lab probe")]
struct Arguments {
    /// Which lab.
    #[arg(long, default_value = "fip")]
    lab: String,
    /// Stop after this time, for example 30s; without it Ctrl-C stops.
    #[arg(long = "for", value_parser = humantime::parse_duration)]
    length: Option<Duration>,
    /// Print one JSON document at the end and nothing else.
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Report<'a> {
    sent: u64,
    answered: u64,
    #[serde(serialize_with = "crate::scenario::clock::seconds")]
    longest_outage: Duration,
    segments: &'a [Segment],
}

/// Runs the subcommand; the first argument is its name.
///
/// # Errors
/// The lab is not there, or its client namespace cannot be entered.
pub fn main(args: &[OsString]) -> anyhow::Result<ExitCode> {
    let arguments = match Arguments::try_parse_from(args) {
        Ok(arguments) => arguments,
        Err(error) => return Ok(crate::scenario::usage(&error)),
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().context("cannot start the runtime")?;
    runtime.block_on(watch(&arguments))
}

async fn watch(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    Lab::attach_to_what_runs(&arguments.lab)?;
    let (tell, mut told) = mpsc::channel(CHANGES_MAX);
    let began = clock::now();
    let client = lab_api::client(
        &arguments.lab,
        Box::new(move |at, heard| {
            tell.try_send((at, heard)).ok();
        }),
    )?;
    let end = async {
        match arguments.length {
            Some(length) => tokio::time::sleep(length).await,
            None => std::future::pending().await,
        }
    };
    let interrupted = crate::cli::interrupted();
    tokio::pin!(end, interrupted);
    let namespace = network::namespace_path(&network::client_namespace(&arguments.lab));
    let mut looks = tokio::time::interval(LAB_LOOK_INTERVAL);
    loop {
        tokio::select! {
            // A reader that has seen enough (`| head`) ends it.
            Some((at, heard)) = told.recv() => if !arguments.json && print_change(began, at, heard).is_err() { break },
            () = &mut end => break,
            raised = &mut interrupted => {
                raised?;
                break;
            }
            _ = looks.tick() => if !namespace.exists() {
                drop(writeln!(io::stderr(), "fip-lab: lab {} is gone", arguments.lab));
                break;
            },
        }
    }
    let recorder = client.snapshot();
    let (sent, answered) = recorder.counts();
    let segments = recorder.segments();
    let longest_outage = longest_between_answers(segments);
    let mut out = io::stdout().lock();
    // A reader that went away (`| head`) is no error.
    drop(if arguments.json {
        serde_json::to_writer(&mut out, &Report { sent, answered, longest_outage, segments })
            .map_err(io::Error::from)
            .and_then(|()| writeln!(out))
    } else {
        writeln!(out, "{sent} asked, {answered} answered, longest outage {:.2} s", longest_outage.as_secs_f64())
    });
    Ok(ExitCode::SUCCESS)
}

/// The longest silence that began with an answer: what came before the first one is no outage.
fn longest_between_answers(segments: &[Segment]) -> Duration {
    let heard_before = segments.iter().skip_while(|segment| segment.heard == Heard::Silence);
    let silences = heard_before.filter(|segment| segment.heard == Heard::Silence);
    silences.map(|segment| segment.to.saturating_sub(segment.from)).max().unwrap_or_default()
}

fn print_change(began: Duration, at: Duration, heard: Heard) -> io::Result<()> {
    let who = match heard {
        Heard::Node(node) => Node::to_string(&node),
        Heard::Silence => "nobody answers".to_owned(),
    };
    writeln!(io::stdout().lock(), "{:>9.3}  {who}", at.saturating_sub(began).as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn silence_before_the_first_answer_is_no_outage() {
        let s = Duration::from_secs;
        let segment = |from, to, heard| Segment { from: s(from), to: s(to), heard, answers: 0 };
        let cp1 = Heard::Node(Node::new(1));
        assert_eq!(longest_between_answers(&[segment(0, 30, Heard::Silence), segment(30, 40, cp1)]), s(0));
        let with_gap = [segment(0, 30, Heard::Silence), segment(30, 40, cp1), segment(40, 43, Heard::Silence)];
        assert_eq!(longest_between_answers(&with_gap), s(3));
    }
}
