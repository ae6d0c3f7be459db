//! A run as a person reads it: what happened, one line each, with who held the FIP beside it. Pure: text out.
//!
//! ```text
//!  seconds  cp1  cp2  cp3  client
//!    0.000  █L   ·    ·    cp1
//!   21.412  █L   ·    ·    cp1     cp2  verdict  healthy → loop_stalled_follower
//! ```

use std::fmt::Write as _;
use std::time::Duration;

use super::event::{Audit, Event, Lifetime, What};
use super::instance::Outcome;
use super::measure::Timeline;
use super::paint::{Ink, Paper, fold};
use super::view::{NodeView, View};
use crate::probe::client::PERIOD;
use crate::probe::outage::Heard;

/// The FIP is there as the loop leaves it; by a lease; on a node that the client cannot reach; not there.
const FOREVER: char = '█';
const LEASE: char = '▒';
const CUT_OFF: char = '░';
const ABSENT: char = '·';
/// Columns before the text: seconds, a cell for each node, the client.
const CELL: usize = 5;
const CLIENT: usize = 8;
const SECONDS: usize = 9;
/// An outage shorter than this many columns is still shown.
const BAR_MIN: usize = 40;

/// One event in words.
struct Line {
    who: String,
    kind: &'static str,
    text: String,
    ink: Ink,
}

/// Prints the whole run.
#[must_use]
pub fn print(outcome: &Outcome, paper: &Paper) -> String {
    let run = &outcome.timeline;
    let origin = run.since(None);
    let mut out = String::new();
    let mut view = View::new(run.nodes);
    let mut silent_since = None;
    let mut begun = false;
    heading(&mut out, &view, paper);
    for event in &run.events {
        let before = view.clone();
        view.apply(event);
        if let What::Client(Heard::Silence) = event.what {
            silent_since = Some(event.at.saturating_sub(PERIOD));
        }
        // Everything before this moment is set-up: it shows in the state of the first line, and nowhere else.
        if event.at < origin {
            continue;
        }
        if !begun {
            begun = true;
            row(
                &mut out,
                &view,
                Duration::ZERO,
                paper,
                &Line { who: String::new(), kind: "", text: "the story begins".to_owned(), ink: Ink::Faint },
            );
        }
        if let Some(line) = words(event, &before, silent_since) {
            row(&mut out, &view, event.at.saturating_sub(origin), paper, &line);
        }
    }
    bars(&mut out, run, origin, paper);
    out
}

fn heading(out: &mut String, view: &View, paper: &Paper) {
    let mut line = format!("{:>SECONDS$}  ", "seconds");
    for (node, _) in view.nodes() {
        line.push_str(&pad(&node.to_string(), CELL));
    }
    line.push_str("client");
    writeln(out, &paper.ink(Ink::Strong, &line));
}

fn row(out: &mut String, view: &View, at: Duration, paper: &Paper, line: &Line) {
    let lanes = |out: &mut String| {
        for (_, node) in view.nodes() {
            let leads = if node.leads { "L" } else { " " };
            let cell = format!("{}{leads}", holding(node));
            let ink = if node.serves() { Ink::Good } else { Ink::Faint };
            out.push_str(&paper.ink(ink, &cell));
            out.push_str(&" ".repeat(CELL - 2));
        }
        match view.heard {
            Heard::Node(node) => out.push_str(&pad(&node.to_string(), CLIENT)),
            Heard::Silence => out.push_str(&paper.ink(Ink::Bad, &pad("──", CLIENT))),
        }
    };
    let before_text = SECONDS + 2 + CELL * view.nodes().count() + CLIENT;
    let label = format!("{:<4} {:<9} ", line.who, line.kind);
    let width = paper.width.saturating_sub(before_text + label.chars().count()).max(20);
    for (number, text) in fold(&line.text, width).iter().enumerate() {
        let seconds = if number == 0 { format!("{:>SECONDS$.3}", at.as_secs_f64()) } else { " ".repeat(SECONDS) };
        let label = if number == 0 { label.clone() } else { " ".repeat(label.chars().count()) };
        let mut text_line = format!("{seconds}  ");
        lanes(&mut text_line);
        text_line.push_str(&paper.ink(line.ink, &format!("{label}{text}")));
        writeln(out, text_line.trim_end());
    }
}

const fn holding(node: &NodeView) -> char {
    match node.fip {
        None => ABSENT,
        Some(_) if !node.reachable() => CUT_OFF,
        Some(Lifetime::Forever) => FOREVER,
        Some(Lifetime::Lease) => LEASE,
    }
}

/// An event in words; none for what changes nothing that a person would look for.
fn words(event: &Event, before: &View, silent_since: Option<Duration>) -> Option<Line> {
    let state = event.node.and_then(|node| before.node(node));
    let who = event.node.map(|node| node.to_string()).unwrap_or_default();
    let line = |kind, ink, text: String| Some(Line { who: who.clone(), kind, text, ink });
    match &event.what {
        What::Audit(audit) => audit_words(audit).and_then(|(kind, ink, text)| line(kind, ink, text)),
        What::Leads { term } => line("etcd", Ink::Plain, format!("leads, term {term}")),
        What::LeadsNoMore => state.filter(|state| state.leads).and_then(|_| line("etcd", Ink::Plain, "leads no more".to_owned())),
        What::FipHeld(Lifetime::Forever) if state.is_some_and(|state| state.fip == Some(Lifetime::Lease)) => {
            line("FIP", Ink::Good, "is there forever".to_owned())
        }
        What::FipHeld(Lifetime::Forever) => line("FIP", Ink::Good, "on eth0, forever".to_owned()),
        What::FipHeld(Lifetime::Lease) => line("FIP", Ink::Good, "on eth0, by a lease".to_owned()),
        What::FipGone => line("FIP", Ink::Plain, "gone from eth0".to_owned()),
        What::Link { up } if state.is_some_and(|state| state.link_up == *up) => None,
        What::Link { up: true } => line("link", Ink::Good, "up".to_owned()),
        What::Link { up: false } => line("link", Ink::Bad, "down".to_owned()),
        What::Container(container) => {
            let id: String = container.id.chars().take(8).collect();
            let runs = if container.running { "runs" } else { "has ended" };
            line("loop", Ink::Plain, format!("container {id}, attempt {}, {runs}", container.attempt))
        }
        What::Manifest { present: true } => line("manifest", Ink::Plain, "is in its directory".to_owned()),
        What::Manifest { present: false } => line("manifest", Ink::Plain, "is out".to_owned()),
        What::Client(Heard::Silence) => line("client", Ink::Bad, "hears nobody from here on".to_owned()),
        What::Client(Heard::Node(node)) => {
            let gap = silent_since.filter(|_| before.heard == Heard::Silence).map(|since| event.at.saturating_sub(since));
            let after = gap.map(|gap| format!(" after {:.2} s of silence", gap.as_secs_f64())).unwrap_or_default();
            line("client", if gap.is_some() { Ink::Good } else { Ink::Plain }, format!("hears {node}{after}"))
        }
        What::Fault(fault) => line("FAULT", Ink::Deed, fault.to_string()),
        What::Heal(fault) => line("HEAL", Ink::Deed, fault.to_string()),
        What::Note(text) if !text.starts_with("waited") => line("", Ink::Faint, text.clone()),
        What::SourceLost(what) => line("", Ink::Bad, what.clone()),
        What::Note(_) | What::Mark(_) | What::Log(_) | What::JournalRead { .. } => None,
    }
}

fn audit_words(audit: &Audit) -> Option<(&'static str, Ink, String)> {
    let because = |text: String| match audit.reason.as_deref() {
        // The first of several reasons is the one that decided; the journal has them all.
        Some(reason) if !reason.is_empty() => format!("{text}: {}", reason.split("; ").next().unwrap_or(reason)),
        Some(_) | None => text,
    };
    let step = audit.step.as_deref().unwrap_or_default();
    let took = audit.duration_ms.map(|ms| format!(" in {ms} ms")).unwrap_or_default();
    match audit.event.as_str() {
        "verdict_changed" => {
            let to = audit.verdict.as_deref().unwrap_or("?");
            let from = audit.from.as_deref().map(|from| format!("{from} → ")).unwrap_or_default();
            Some(("verdict", Ink::Thought, because(format!("{from}{to}"))))
        }
        // Renewals and plans repeat what the steps say.
        "step_started" if step == "renew_alias" => None,
        "step_succeeded" if step == "renew_alias" => None,
        "plan_started" | "lease_renewed" => None,
        "step_started" => Some(("step", Ink::Plain, format!("{step} …"))),
        "step_succeeded" => Some(("step", Ink::Good, because(format!("{step} done{took}")))),
        "step_failed" => Some(("step", Ink::Bad, because(format!("{step} failed{took}")))),
        "step_refused" => Some(("step", Ink::Bad, because(format!("{step} refused")))),
        _other => Some(("watchdog", Ink::Plain, audit.message.clone())),
    }
}

/// Who held the FIP and whom the client heard, over the whole time, one character for a slice of it.
fn bars(out: &mut String, run: &Timeline, origin: Duration, paper: &Paper) {
    let total = run.ended.saturating_sub(origin);
    let width = paper.width.saturating_sub(CELL + CLIENT).max(BAR_MIN);
    if total.is_zero() {
        return;
    }
    let slice = total / u32::try_from(width).unwrap_or(1);
    let from = |column: usize| origin + slice * u32::try_from(column).unwrap_or(0);
    out.push('\n');
    for node in (1_u8..).take(run.nodes).map(super::node::Node::new) {
        let strongest = |column: usize| {
            let spans = [Lifetime::Forever, Lifetime::Lease].map(|lifetime| (lifetime, run.held(node, lifetime)));
            let holds = spans.iter().filter_map(|(lifetime, spans)| {
                let here = super::measure::Span { from: from(column), to: from(column + 1) };
                let held: Duration = spans.iter().map(|span| span.overlap(here)).sum();
                (held > Duration::ZERO).then_some((held, if *lifetime == Lifetime::Forever { FOREVER } else { LEASE }))
            });
            holds.max_by_key(|(held, _)| *held).map_or(ABSENT, |(_, glyph)| glyph)
        };
        let bar: String = (0..width).map(strongest).collect();
        writeln(out, &format!("{}{}", pad(&node.to_string(), CLIENT), paper.ink(Ink::Good, &bar)));
    }
    let heard = |column: usize| {
        let (from, to) = (from(column), from(column + 1));
        let mut here = run.client.iter().filter(|segment| segment.from < to && segment.to > from).peekable();
        let last = here.clone().last().map(|segment| segment.heard);
        if here.any(|segment| segment.heard == Heard::Silence) {
            return '×';
        }
        match last {
            Some(Heard::Node(node)) => char::from_digit(u32::from(node.number()), 10).unwrap_or('?'),
            Some(Heard::Silence) | None => ' ',
        }
    };
    let mut line = pad("client", CLIENT);
    for glyph in (0..width).map(heard) {
        line.push_str(&paper.ink(if glyph == '×' { Ink::Bad } else { Ink::Plain }, &glyph.to_string()));
    }
    writeln(out, &line);
    let ends = format!("{:.1} s", total.as_secs_f64());
    writeln(out, &format!("{}0 s{:>left$}", pad("", CLIENT), ends, left = width - 3));
    let legend = format!(
        "{FOREVER} holds the FIP   {LEASE} by a lease   {CUT_OFF} cut off from the client   L etcd leads   × the client hears nobody"
    );
    writeln(out, &paper.ink(Ink::Faint, &legend));
}

fn pad(text: &str, width: usize) -> String {
    let missing = width.saturating_sub(text.chars().count());
    format!("{text}{}", " ".repeat(missing))
}

fn writeln(out: &mut String, line: &str) {
    // Writing to a String cannot fail.
    writeln!(out, "{}", line.trim_end()).ok();
}
