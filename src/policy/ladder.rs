//! One ladder of `remedies`: from its node to steps, or every fault in it.

use crate::decision::step::StepKind;
use crate::decision::verdict::Verdict;

use super::fault::{FaultLog, did_you_mean, quoted};
use super::remedies::{allowed_text, refusal, step};
use super::tree::{Kind, Node};

/// Longest ladder; there are fewer steps than this.
const LADDER_MAX: usize = 8;

/// The steps, or `None` with their faults in the log.
pub(super) fn read(node: &Node, verdict: Verdict, path: &str, faults: &mut FaultLog) -> Option<Vec<StepKind>> {
    if !node.plain(path, faults) {
        return None;
    }
    let allowed = allowed_text(verdict);
    let (what, hint) = match &node.kind {
        Kind::List(items) if items.len() <= LADDER_MAX => return read_items(items, verdict, path, faults),
        Kind::List(_) => (format!("has more than {LADDER_MAX} steps ({allowed})"), None),
        Kind::Null => (format!("has no value ({allowed})"), Some("write [] to answer it by observing".to_owned())),
        Kind::Scalar { text, .. } if step(text).is_some() => {
            (format!("is a single value, not a list of steps ({allowed})"), Some(format!("write [{text}]")))
        }
        Kind::Scalar { .. } | Kind::Map(_) => {
            let hint = "a ladder looks like [apply_alias, cycle_manifest]".to_owned();
            (format!("is {}, not a list of steps ({allowed})", node.kind.noun()), Some(hint))
        }
    };
    faults.add(node.pos, path, what, hint);
    None
}

fn read_items(items: &[Node], verdict: Verdict, path: &str, faults: &mut FaultLog) -> Option<Vec<StepKind>> {
    let mut ladder = Vec::with_capacity(items.len());
    for item in items {
        if let Some(step) = read_step(item, verdict, path, faults) {
            if ladder.contains(&step) {
                faults.add(item.pos, path, format!("`{}` is in the list twice", step.name()), None);
            } else {
                ladder.push(step);
            }
        }
    }
    (ladder.len() == items.len()).then_some(ladder)
}

fn read_step(item: &Node, verdict: Verdict, path: &str, faults: &mut FaultLog) -> Option<StepKind> {
    if !item.plain(path, faults) {
        return None;
    }
    let Kind::Scalar { text, .. } = &item.kind else {
        faults.add(item.pos, path, format!("a step is a word, this is {}", item.kind.noun()), None);
        return None;
    };
    let Some(step) = step(text) else {
        let hint = did_you_mean(text, StepKind::ALL.map(StepKind::name));
        faults.add(item.pos, path, format!("{} is not a step ({})", quoted(text), allowed_text(verdict)), hint);
        return None;
    };
    match refusal(verdict, step) {
        None => Some(step),
        Some(refusal) => {
            faults.add(item.pos, path, format!("`{text}` {refusal}"), None);
            None
        }
    }
}
