//! Stories for people: schedules that were written, not drawn.
//!
//! The timeline has the lab's columns: `█` the FIP for ever, `▒` by a lease, `·` not there, `L` etcd's leader.

use std::io::Write;

use anyhow::bail;
use fip_watchdog::audit::text::clip;

use crate::fault::{Fault, Planned};
use crate::run;
use crate::sim::Sim;
use crate::{Ms, NODES};

/// The seed of every story; any would do.
const SEED: u64 = 1;

/// When the loop freezes: all is calm until then.
const FREEZES_AT: Ms = 30_000;

/// When the leadership moves: the watchdog has just seen that the loop there is frozen, and waits to be sure.
const MOVES_AT: Ms = 50_000;

/// The evidence behind a step would fill lines of its own.
const LINE_MAX: usize = 160;

/// Tells a story; whether an invariant was broken on the way.
///
/// # Errors
/// There is no such story, or nobody listens.
pub fn tell(name: &str, out: &mut impl Write) -> anyhow::Result<bool> {
    if name != "first-article" {
        bail!("there is no story {name:?}; there is first-article");
    }
    let outcome = first_article()?;
    writeln!(out, "  seconds  cp1 cp2 cp3 client")?;
    for line in &outcome.timeline {
        writeln!(out, "{}", clip(line, LINE_MAX))?;
    }
    for violation in &outcome.violations {
        writeln!(out, "BROKEN: {}: {}", violation.invariant, violation.how)?;
    }
    let outage = outcome.outage as f64 / 1000.0;
    writeln!(
        out,
        "\nsimulated, not measured: the client was without service for {outage:.2} s; with the loop alone it is for ever"
    )?;
    Ok(!outcome.violations.is_empty())
}

/// The loop on a follower freezes, and then the leadership moves there.
///
/// # Errors
/// No runtime can be made.
pub fn first_article() -> std::io::Result<run::Outcome> {
    let mut calm = Sim::new(SEED, Vec::new(), false);
    calm.begin();
    let node = (calm.etcd.leader.unwrap_or(0) + 1) % NODES;
    let planned = |at, fault| Planned { at, lasts: 0, node, fault };
    run::plan(SEED, vec![planned(FREEZES_AT, Fault::LoopPipeFull), planned(MOVES_AT, Fault::LeaderMoves)], true)
}
