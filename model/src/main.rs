//! `make model`: explores, prints the figures, fails on anything broken.
//!
//! Arguments: seconds for the explorations in all (600), threads (2).

use std::process::ExitCode;
use std::time::Duration;

use fip_model::contract::Broken;
use fip_model::removal::REMOVALS;
use fip_model::report::{Exploration, explore};
use fip_model::world::{Cluster, runs};

/// Time for a removed guard's counterexample; the longest needs a tenth of it in this build.
const REMOVAL_LIMIT: Duration = Duration::from_secs(60);

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1).map(|argument| argument.parse::<u64>());
    let (Ok(seconds), Ok(threads)) = (arguments.next().unwrap_or(Ok(600)), arguments.next().unwrap_or(Ok(2))) else {
        say("usage: fip-model [SECONDS [THREADS]]");
        return ExitCode::from(64);
    };
    let threads = usize::try_from(threads).unwrap_or(1).max(1);
    let sound = explore_all(Duration::from_secs(seconds), threads);
    let caught = remove_all();
    if sound && caught { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Every run gets an equal part of the time that is left, so that a short one leaves more to the long ones.
fn explore_all(limit: Duration, threads: usize) -> bool {
    let runs = runs();
    let mut left = limit;
    let mut sound = true;
    for (number, cluster) in runs.iter().enumerate() {
        let share = left / u32::try_from(runs.len() - number).unwrap_or(1);
        let found = explore(cluster.clone(), share, threads);
        left = left.saturating_sub(found.took);
        sound &= found.counterexample.is_none();
        say(&describe(cluster, &found));
    }
    let verdict = if sound { "held in every state" } else { "see the counterexample above" };
    say(&format!("\n{} properties, {verdict}:", Broken::ALL.len()));
    for broken in Broken::ALL {
        say(&format!("  {}", broken.property()));
    }
    sound
}

fn describe(cluster: &Cluster, found: &Exploration) -> String {
    let extent =
        if found.complete { "all there are".to_owned() } else { format!("all up to depth {}", found.depth.saturating_sub(1)) };
    let mut text = format!(
        "{:<12} from {:?}, up to {} faults: {} states ({extent}), {} transitions, depth {}, {:.0} s",
        cluster.menu.name,
        cluster.start,
        cluster.faults,
        found.states,
        found.transitions,
        found.depth,
        found.took.as_secs_f32(),
    );
    if let Some(counterexample) = &found.counterexample {
        text.push_str(&format!("\n  BROKEN: {:?}\n  {}", counterexample.broken, counterexample.story.join("\n  ")));
    }
    text
}

fn remove_all() -> bool {
    say("\nwithout it, broken after so many steps:");
    let mut caught = true;
    for removal in &REMOVALS {
        let found = explore(removal.cluster(), REMOVAL_LIMIT, 1);
        let by = if removal.needs_a_hand() { " (ordered by hand; the ladder never asks)" } else { "" };
        let what = removal.what.to_string();
        if let Some(counterexample) = &found.counterexample {
            say(&format!("  {what:<22} {:>2}  {}{by}", counterexample.story.len(), removal.breaks.property()));
            say(&format!("      {}", counterexample.story.join(" · ")));
        } else {
            caught = false;
            say(&format!("  {what:<22} NO COUNTEREXAMPLE in {} states", found.states));
        }
    }
    caught
}

#[expect(clippy::print_stdout, reason = "the report of this program is its output")]
fn say(line: &str) {
    println!("{line}");
}
