//! A run as a person reads it: what happened, one line each, with who held the FIP beside it. Pure: text out.
//!
//! ```text
//!  seconds  cp1  cp2  cp3  client
//!    0.000  █L   ·    ·    cp1
//!   21.412  █L   ·    ·    cp1     cp2  verdict  healthy → loop_stalled_follower
//! ```

use std::fmt::Write as _;
use std::time::Duration;

use super::event::{Event, Lifetime, What};
use super::instance::Outcome;
use super::measure::Timeline;
use super::paint::{Ink, Paper, fold};
use super::view::{NodeView, View};
use super::words::Line;
use crate::probe::client::PERIOD;
use crate::probe::outage::Heard;

/// The FIP is there as the loop leaves it; by a lease; on a node that the client cannot reach; not there.
const FOREVER: char = '█';
const LEASE: char = '▒';
const CUT_OFF: char = '░';
const ABSENT: char = '·';
/// Columns before the text: seconds, a cell for each node, the client.
const CELL: usize = 4;
const CLIENT: usize = 7;
const SECONDS: usize = 8;
/// A step that is done this soon after it began is one line, not two.
const AT_ONCE: Duration = Duration::from_millis(500);
/// An outage shorter than this many columns is still shown.
const BAR_MIN: usize = 40;

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
    for (number, event) in run.events.iter().enumerate() {
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
            row(&mut out, &view, Duration::ZERO, paper, &Line::faint("the story begins"));
        }
        if let Some(line) = Line::of(event, &before, silent_since).filter(|_| !is_done_at_once(event, &run.events[number..])) {
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
    let label = format!("{:<4} {:<8} ", line.who, line.kind);
    // The reason begins below the kind, not below the text: it has more room there.
    let indent = 5;
    let room = |used: usize| paper.width.saturating_sub(before_text + used).max(20);
    let used = label.chars().count();
    let labels = std::iter::once(label).chain(std::iter::repeat(" ".repeat(used)));
    let first = labels.zip(fold(&line.text, room(used))).map(|(label, text)| (label, text, line.ink));
    let why = if line.why.is_empty() { Vec::new() } else { fold(&line.why, room(indent)) };
    let texts = first.chain(why.into_iter().map(|text| (" ".repeat(indent), text, Ink::Faint)));
    for (number, (label, text, ink)) in texts.enumerate() {
        let seconds = if number == 0 { format!("{:>SECONDS$.2}", at.as_secs_f64()) } else { " ".repeat(SECONDS) };
        let mut text_line = format!("{seconds}  ");
        lanes(&mut text_line);
        text_line.push_str(&paper.ink(ink, &format!("{label}{text}")));
        writeln(out, text_line.trim_end());
    }
}

/// Whether this is the begin of a step whose end follows at once.
fn is_done_at_once(event: &Event, from_here: &[Event]) -> bool {
    let Some(begun) = event.audit().filter(|audit| audit.event == "step_started") else { return false };
    let soon = from_here.iter().take_while(|later| later.at.saturating_sub(event.at) <= AT_ONCE);
    let mut ends = soon.filter(|later| later.node == event.node).filter_map(Event::audit);
    ends.any(|audit| audit.step == begun.step && matches!(audit.event.as_str(), "step_succeeded" | "step_failed"))
}

const fn holding(node: &NodeView) -> char {
    match node.fip {
        None => ABSENT,
        Some(_) if !node.reachable() => CUT_OFF,
        Some(Lifetime::Forever) => FOREVER,
        Some(Lifetime::Lease) => LEASE,
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
        "{FOREVER} FIP   {LEASE} FIP by a lease   {CUT_OFF} FIP out of reach   L etcd leads   × nobody answers the client"
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::probe::outage::Segment;
    use crate::scenario::event::Audit;
    use crate::scenario::measure::HEALTHY;
    use crate::scenario::node::Node;

    fn s(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn ev(at: u64, node: u8, what: What) -> Event {
        Event { at: s(at), node: (node > 0).then(|| Node::new(node)), what }
    }

    fn step(at: u64, event: &str) -> Event {
        let reason =
            Some("because of a reason that needs more room than one line of a terminal has to give to it; and more".to_owned());
        ev(
            at,
            2,
            What::Audit(Audit { event: event.to_owned(), step: Some("apply_alias".to_owned()), reason, ..Audit::default() }),
        )
    }

    fn printed() -> String {
        let cp1 = Heard::Node(Node::new(1));
        let events = vec![
            ev(1, 1, What::FipHeld(Lifetime::Forever)),
            ev(1, 1, What::Leads { term: 2 }),
            ev(1, 1, What::Link { up: true }),
            ev(2, 0, What::Client(cp1)),
            ev(5, 0, What::Mark(HEALTHY.to_owned())),
            ev(15, 1, What::FipGone),
            ev(15, 0, What::Client(Heard::Silence)),
            step(16, "step_started"),
            step(16, "step_succeeded"),
            ev(16, 2, What::FipHeld(Lifetime::Lease)),
        ];
        let client = vec![
            Segment { from: s(2), to: s(15), heard: cp1, answers: 1 },
            Segment { from: s(15), to: s(25), heard: Heard::Silence, answers: 0 },
        ];
        let outcome = Outcome {
            scenario: "t".to_owned(),
            watchdog: true,
            passed: true,
            findings: Vec::new(),
            longest_outage: None,
            variables: BTreeMap::new(),
            timeline: Timeline::new(3, s(0), s(25), events, client),
            deeds: BTreeMap::new(),
            journals: BTreeMap::new(),
        };
        print(&outcome, &Paper::plain())
    }

    #[test]
    fn no_line_is_wider_than_the_paper() {
        let text = printed();
        assert!(text.lines().all(|line| line.chars().count() <= Paper::plain().width), "{text}");
    }

    #[test]
    fn time_counts_from_the_healthy_lab_and_set_up_is_not_told() {
        let text = printed();
        assert!(text.contains("   10.00  ·L  ·   ·   cp1    cp1  FIP      gone from eth0"), "{text}");
        assert!(!text.contains("link"), "{text}");
    }

    #[test]
    fn a_step_that_is_done_at_once_is_one_line_with_its_reason() {
        let text = printed();
        assert!(!text.contains("apply_alias …"), "{text}");
        assert_eq!(text.matches("apply_alias done").count(), 1, "{text}");
        assert!(text.contains("because of a reason") && !text.contains("and more"), "{text}");
    }

    #[test]
    fn the_bars_show_who_held_the_fip_and_when_the_client_was_alone() {
        let text = printed();
        let bar = |name: &str| text.lines().rfind(|line| line.starts_with(name)).unwrap().to_owned();
        assert!(bar("cp1").contains("██") && !bar("cp1").contains('▒'));
        assert!(bar("cp2").contains("▒▒") && !bar("cp2").contains('█'));
        assert!(bar("client").contains("11××"));
    }
}
