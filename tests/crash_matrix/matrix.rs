//! Every point at which a task can be killed or failed, and the question after each.

use std::collections::BTreeMap;

use crate::scene::Stage;
use crate::strace::{Call, Ended, Fault, Shot, Thread, shoot, with_small_files};

/// What a call that touches a file may answer.
const ERRNOS: [&str; 6] = ["ENOSPC", "EIO", "EROFS", "EACCES", "EXDEV", "EINTR"];
/// What a disk answers that does not get well again.
const LASTING: [&str; 2] = ["ENOSPC", "EROFS"];
/// Sizes at which files are cut short, from nothing to beyond the longest write.
const SIZES: u64 = 40;

/// Something that is done to a task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Point {
    Shot(Shot),
    /// No file may grow beyond this: a write is short, and the next one kills or fails.
    SmallFiles {
        limit: u64,
        survives: bool,
    },
}

/// How a point ended that was reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    Killed,
    FailedOnce,
    FailedFromThenOn,
    CutShort,
}

impl Kind {
    /// For the summary.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Killed => "killed at a system call",
            Self::FailedOnce => "a call failed once",
            Self::FailedFromThenOn => "a call failed from then on",
            Self::CutShort => "a write was cut short",
        }
    }
}

/// Every point of a stage, in a fixed order.
pub fn points(stage: &Stage) -> Vec<Point> {
    let shot = |call: &Call, fault| Point::Shot(Shot { thread: call.thread, call: call.name.clone(), nth: call.nth, fault });
    // The process's own end is no part of the task.
    let work = || stage.calls.iter().filter(|call| call.name != "exit_group" && call.name != "restart_syscall");
    let mut points: Vec<Point> = work().map(|call| shot(call, Fault::Kill)).collect();
    let files = stage.file_calls();
    for call in &files {
        points.extend(ERRNOS.iter().map(|errno| shot(call, Fault::Once(errno))));
        points.extend(LASTING.iter().map(|errno| shot(call, Fault::From(errno))));
    }
    let longest = files.iter().filter(|call| call.name == "write").filter_map(written).max().unwrap_or(0);
    let limits = (0..=SIZES).map(|step| step * (longest + SIZES) / SIZES);
    points.extend(limits.flat_map(|limit| [true, false].map(|survives| Point::SmallFiles { limit, survives })));
    points
}

/// The first calls of each name that the recording does not have: a kill there shows that the task runs
/// through, or is one more point.
pub fn beyond(stage: &Stage) -> Vec<Shot> {
    let mut last: BTreeMap<(Thread, &str), usize> = BTreeMap::new();
    for call in stage.calls.iter().filter(|call| call.name != "exit_group" && call.name != "restart_syscall") {
        last.insert((call.thread, &call.name), call.nth);
    }
    let shot =
        |((thread, call), nth): ((Thread, &str), usize)| Shot { thread, call: call.to_owned(), nth: nth + 1, fault: Fault::Kill };
    last.into_iter().map(shot).collect()
}

fn written(call: &Call) -> Option<u64> {
    call.text.rsplit_once("= ")?.1.trim().parse().ok()
}

/// Does the task with the point, then what a start does, and looks. `None`: the point was not reached.
///
/// # Errors
/// What is wrong afterwards.
pub fn attack(stage: &Stage, point: &Point) -> Result<Option<Kind>, String> {
    let Stage { scene, site, tree, .. } = stage;
    tree.write(site.root());
    let (ended, kind) = match point {
        Point::Shot(shot) => {
            let kind = match shot.fault {
                Fault::Kill => Kind::Killed,
                Fault::Once(_) => Kind::FailedOnce,
                Fault::From(_) => Kind::FailedFromThenOn,
            };
            let paths: &[String] = if shot.fault == Fault::Kill { &[] } else { &stage.paths };
            (shoot(site, scene.task(), shot, paths), kind)
        }
        Point::SmallFiles { limit, survives } => (with_small_files(site, scene.task(), *limit, *survives), Kind::CutShort),
    };
    let fault = |what: String| format!("{scene:?}, {point:?}: {what}; the task said {:?}", ended.said);
    at_once(stage, &ended, kind).map_err(fault)?;
    let recovered = site.recover().map_err(fault)?;
    site.is_home().and_then(|()| site.is_clean()).map_err(|what| fault(format!("{what}, after {recovered}")))?;
    Ok(ended.hit.then_some(kind))
}

/// What has to hold before any restart.
fn at_once(stage: &Stage, ended: &Ended, kind: Kind) -> Result<(), String> {
    // A cycle that met one failing call puts the manifest back by itself; one that says that all is well,
    // or that nothing was touched, is right.
    let by_itself = kind == Kind::FailedOnce && stage.scene.task() != crate::child::Task::Recover;
    let claims = ["succeeded", "refused", "recovered"].iter().any(|word| ended.said.starts_with(word));
    let alive = !ended.said.is_empty();
    if alive && (by_itself || claims) {
        stage.site.is_home().map_err(|what| format!("{what}, before any restart"))
    } else {
        Ok(())
    }
}
