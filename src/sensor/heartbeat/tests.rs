//! The whole sense, on real files.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use tempfile::TempDir;

use super::*;
use crate::decision::observation::{LoopFip, LoopVerdict};
use crate::policy::Policy;

const FOLLOWER: &str = r#"++ curl -m 10 -q -s -X POST -d '{}' https://127.0.0.1:2379/v3beta/maintenance/status
+ out='{"header":{"member_id":"16529434649879028690","revision":"REV","raft_term":"2"},"leader":"14064401587421453142","raftIndex":"7904694","raftTerm":"2"}'
+ return 4
+ clean_up
+ '[' 0 -eq 0 ']'
+ return
+ continue
+ '[' 1 ']'
"#;

pub(super) fn round(revision: u64) -> String {
    FOLLOWER.replace("REV", &revision.to_string())
}

/// Frames what the loop writes as containerd does. Each line is later than all before it, and its length is that of its text.
pub(super) fn cri(text: &str) -> String {
    static NANOSECONDS: AtomicI64 = AtomicI64::new(0);
    let framed = |line| {
        let stamp = Timestamp::constant(1_796_001_706, 0) + SignedDuration::from_nanos(NANOSECONDS.fetch_add(70_000, Relaxed));
        format!("{stamp:.9} stderr F {line}\n")
    };
    text.lines().map(framed).collect()
}

pub(super) fn append(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    OpenOptions::new().create(true).append(true).open(path).unwrap().write_all(text.as_bytes()).unwrap();
}

pub(super) struct Bench {
    pub(super) root: TempDir,
    pub(super) policy: LoopPolicy,
    pub(super) sensor: HeartbeatSensor,
    pub(super) seconds: u64,
}

impl Bench {
    pub(super) fn new() -> Self {
        let root = TempDir::new().unwrap();
        let mut policy = Policy::with_defaults([192, 0, 2, 1].into(), "eth0").watched_loop;
        policy.log_root = root.path().join("pods");
        Self { sensor: HeartbeatSensor::new(&policy), policy, root, seconds: 0 }
    }

    pub(super) fn log(&self, uid: &str, restarts: u32) -> PathBuf {
        self.policy.log_root.join(format!("kube-system_wcp-fip-node_{uid}/wcp-fip/{restarts}.log"))
    }

    fn read(&mut self) -> Reading<HeartbeatView> {
        self.seconds += 5;
        self.sensor.read(self.now())
    }

    pub(super) fn now(&self) -> Moment {
        Moment::from_origin(Duration::from_secs(self.seconds))
    }

    pub(super) fn view(&mut self) -> HeartbeatView {
        match self.read() {
            Reading::Fresh { value, at } => {
                assert_eq!(at, self.now());
                value
            }
            Reading::Stale { since } => panic!("stale since {since:?}"),
            Reading::Unknown(reason) => panic!("{reason}"),
        }
    }

    pub(super) fn unknown(&mut self) -> String {
        match self.read() {
            Reading::Unknown(reason) => reason,
            reading @ (Reading::Fresh { .. } | Reading::Stale { .. }) => panic!("{reading:?}"),
        }
    }
}

/// Truncates the log, as copytruncate does.
pub(super) fn truncate(log: &Path) {
    File::options().write(true).open(log).unwrap().set_len(0).unwrap();
}

pub(super) fn revision(view: &HeartbeatView) -> Option<u64> {
    view.last_beat.as_ref().and_then(|beat| beat.revision)
}

#[test]
fn history_is_no_beat_and_what_follows_it_is() {
    let mut bench = Bench::new();
    append(&bench.log("uid", 0), &cri(&round(1)));
    let first = bench.view();
    assert_eq!((first.last_beat, first.last_beat_at, first.last_growth_at), (None, None, None));
    assert_eq!(first.following_since, bench.now());
    append(&bench.log("uid", 0), &cri(&round(2)));
    let second = bench.view();
    let beat = Beat {
        verdict: LoopVerdict::Follower,
        revision: Some(2),
        raft_index: Some(7_904_694),
        raft_term: Some(2),
        fip: LoopFip::Untouched,
    };
    assert_eq!((second.last_beat, second.last_beat_at), (Some(beat), Some(bench.now())));
    assert_eq!(second.last_growth_at, Some(bench.now()));
    assert_eq!(second.log, bench.log("uid", 0));
    assert_eq!(bench.sensor.pod_uid().as_deref(), Some("uid"));
}

#[test]
fn a_round_that_history_left_half_written_is_understood() {
    let mut bench = Bench::new();
    let whole = cri(&round(7));
    for cut in [10, 200, 500, whole.len() - 80] {
        let log = bench.log("uid", 0);
        append(&log, &whole[..cut]);
        bench.sensor = HeartbeatSensor::new(&bench.policy);
        assert_eq!(bench.view().last_beat, None);
        append(&log, &whole[cut..]);
        assert_eq!(revision(&bench.view()), Some(7), "cut at {cut}");
    }
}

#[test]
fn a_touched_log_and_growth_without_rounds_are_no_beats() {
    let mut bench = Bench::new();
    append(&bench.log("uid", 0), &cri(&round(1)));
    assert_eq!(bench.view().last_beat, None);
    let file = File::options().append(true).open(bench.log("uid", 0)).unwrap();
    file.set_modified(std::time::UNIX_EPOCH).unwrap();
    assert_eq!(bench.view().last_growth_at, None);
    for _ in 0..3 {
        append(&bench.log("uid", 0), &cri("+ '[' 1 ']'\n+ sleep 5\n+ FIP=1\n+ continue\n+ return 4\n"));
        let view = bench.view();
        assert_eq!((view.last_beat, view.last_growth_at), (None, Some(bench.now())));
    }
}

#[test]
fn a_frozen_loop_keeps_its_last_beat_and_its_stamp() {
    let mut bench = Bench::new();
    append(&bench.log("uid", 0), "");
    assert_eq!(bench.view().last_beat, None);
    append(&bench.log("uid", 0), &cri(&round(3)));
    assert_eq!(revision(&bench.view()), Some(3));
    let beat_at = bench.now();
    for _ in 0..5 {
        let view = bench.view();
        assert_eq!((revision(&view), view.last_beat_at, view.last_growth_at), (Some(3), Some(beat_at), Some(beat_at)));
    }
}

#[test]
fn rotation_goes_on_and_another_container_starts_anew() {
    let mut bench = Bench::new();
    let log = bench.log("uid", 0);
    append(&log, &cri(&round(1)));
    let since = bench.view().following_since;
    let whole = cri(&round(2));
    let (head, tail) = whole.split_at(600);
    append(&log, head);
    rustix::fs::rename(&log, log.with_extension("log.20261130-014528")).unwrap();
    append(&log, tail);
    let view = bench.view();
    assert_eq!((revision(&view), view.following_since), (Some(2), since));
    append(&bench.log("uid", 1), "");
    let view = bench.view();
    assert_eq!((view.last_beat.clone(), view.following_since, view.log), (None, bench.now(), bench.log("uid", 1)));
    append(&bench.log("uid", 1), &cri(&round(3)));
    assert_eq!(revision(&bench.view()), Some(3));
}

#[test]
fn two_halves_around_a_loss_are_no_round() {
    let mut bench = Bench::new();
    let log = bench.log("uid", 0);
    append(&log, "");
    assert_eq!(bench.view().last_beat, None);
    let whole = cri(&round(1));
    let (head, tail) = whole.split_at(whole.find("+ clean_up").unwrap() - 40);
    append(&log, head);
    assert_eq!(bench.view().last_beat, None);
    truncate(&log);
    append(&log, tail.split_once('\n').unwrap().1);
    assert_eq!(bench.view().last_beat, None);
    append(&log, &cri(&round(2)));
    assert_eq!(revision(&bench.view()), Some(2));
}

#[test]
fn a_cycle_is_followed_to_the_new_pods_log() {
    let mut bench = Bench::new();
    append(&bench.log("uid", 0), &cri(&round(1)));
    assert_eq!(bench.view().last_beat, None);
    fs::remove_dir_all(bench.policy.log_root.join("kube-system_wcp-fip-node_uid")).unwrap();
    let pattern = format!("{}/kube-system_wcp-fip-*_*", bench.policy.log_root.display());
    assert_eq!(bench.unknown(), format!("no log directory {pattern} exists"));
    assert_eq!(bench.sensor.pod_uid().as_deref(), Some("uid"));
    append(&bench.log("uid", 0), &cri(&round(2)));
    let view = bench.view();
    let now = bench.now();
    assert_eq!((revision(&view), view.following_since), (Some(2), now));
    assert_eq!((view.last_beat_at, view.last_growth_at), (Some(now), Some(now)));
    assert_eq!(bench.view().following_since, now);
}

#[test]
fn what_is_missing_is_named() {
    let mut bench = Bench::new();
    let root = bench.policy.log_root.display().to_string();
    assert!(bench.unknown().starts_with(&format!("cannot list the log root {root}: No such file")));
    fs::create_dir(&bench.policy.log_root).unwrap();
    assert_eq!(bench.unknown(), format!("no log directory {root}/kube-system_wcp-fip-*_* exists"));
    fs::create_dir_all(bench.log("uid", 0).parent().unwrap()).unwrap();
    assert_eq!(bench.unknown(), format!("no log {root}/kube-system_wcp-fip-*_*/wcp-fip/N.log exists"));
    assert_eq!(bench.sensor.pod_uid(), None);
    append(&bench.log("uid", 0), &cri(&round(1)));
    assert_eq!(revision(&bench.view()), Some(1));
}

#[test]
fn a_log_that_was_there_before_its_root_was_mounted_is_history() {
    let mut bench = Bench::new();
    assert!(bench.unknown().starts_with("cannot list the log root"));
    append(&bench.log("uid", 0), &cri(&round(1)));
    assert_eq!(bench.view().last_beat, None);
}

#[test]
fn dockers_json_file_behind_its_link_is_followed() {
    let mut bench = Bench::new();
    let docker = |text: &str| -> String {
        text.lines()
            .map(|line| format!("{}\n", serde_json::json!({"log": format!("{line}\n"), "stream": "stderr", "time": "t"})))
            .collect()
    };
    let file = bench.root.path().join("containers/id-json.log");
    append(&file, &docker(&round(1)));
    let log = bench.log("uid", 0);
    fs::create_dir_all(log.parent().unwrap()).unwrap();
    symlink(&file, &log).unwrap();
    assert_eq!(bench.view().last_beat, None);
    append(&file, &docker(&round(2)));
    assert_eq!(revision(&bench.view()), Some(2));
    rustix::fs::rename(&file, file.with_extension("log.1")).unwrap();
    append(&file, &docker(&round(3)));
    assert_eq!(revision(&bench.view()), Some(3));
}

#[test]
fn another_policy_is_followed_and_the_same_one_changes_nothing() {
    let mut bench = Bench::new();
    append(&bench.log("uid", 0), "");
    assert_eq!(bench.view().last_beat, None);
    append(&bench.log("uid", 0), &cri(&round(1)));
    assert_eq!(revision(&bench.view()), Some(1));
    let policy = bench.policy.clone();
    bench.sensor.set_policy(&LoopPolicy { interval: Duration::from_secs(9), ..policy.clone() });
    assert_eq!(revision(&bench.view()), Some(1));
    bench.sensor.set_policy(&LoopPolicy { container: "other".to_owned(), ..policy });
    assert!(bench.unknown().ends_with("/other/N.log exists"));
}
