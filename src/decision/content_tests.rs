//! What makes a content known good, and what counts as changed.

use super::*;
use crate::decision::api::ApiView;
use crate::decision::observation::{Beat, HeartbeatView, LoopFip, LoopVerdict, ManifestView, Reading, StrainView};

fn at(seconds: u64) -> Moment {
    Moment::from_origin(Duration::from_secs(seconds))
}

/// A manifest of this content, a container that is followed since `began`, and its last round.
fn seen(content: Option<&str>, began: u64, beat_at: Option<u64>) -> Observation {
    let unread = || "the test does not need it".to_owned();
    let verdict = LoopVerdict::Follower;
    let heartbeat = HeartbeatView {
        last_beat: beat_at.map(|_| Beat { verdict, revision: None, raft_index: None, raft_term: None, fip: LoopFip::Untouched }),
        last_beat_at: beat_at.map(at),
        following_since: at(began),
        last_growth_at: None,
        log: "/var/log/pods/x/0.log".into(),
    };
    let manifest = ManifestView { sha256: content.map(str::to_owned), shadows: Vec::new(), immovable: None };
    Observation {
        etcd: Reading::Unknown(unread()),
        heartbeat: Reading::Fresh { value: heartbeat, at: at(0) },
        process: Reading::Unknown(unread()),
        alias: Reading::Unknown(unread()),
        manifest: Reading::Fresh { value: manifest, at: at(0) },
        kubelet: Reading::Unknown(unread()),
        conflict: Reading::Unknown(unread()),
        api: ApiView::default(),
        expired: None,
        cycle: None,
        in_flight: std::collections::BTreeSet::new(),
        paused: None,
        resumed_at: None,
        strain: StrainView::default(),
        hold_off: None,
    }
}

fn known(content: &str) -> Content {
    Content::known_good_before(Some(content.to_owned()))
}

#[test]
fn without_a_known_good_content_nothing_is_changed_and_the_first_that_beats_becomes_it() {
    let mut memory = Content::default();
    memory.note(&seen(Some("a"), 0, None), at(100));
    assert_eq!((memory.known_good(), memory.changed_since()), (None, None));
    memory.note(&seen(Some("a"), 0, Some(159)), at(159));
    assert_eq!(memory.known_good(), None, "it may be the old pod's");
    memory.note(&seen(Some("a"), 0, Some(160)), at(160));
    assert_eq!(memory.known_good(), Some("a"));
}

#[test]
fn another_content_is_changed_until_a_loop_that_began_after_it_beats() {
    let mut memory = known("a");
    memory.note(&seen(Some("a"), 0, Some(99)), at(99));
    assert_eq!(memory.changed_since(), None);
    for now in [100, 110, 129] {
        memory.note(&seen(Some("b"), 0, Some(now)), at(now));
        assert_eq!(memory.changed_since(), Some(at(100)), "the old pod beats on for its grace period");
    }
    memory.note(&seen(Some("b"), 140, None), at(140));
    assert_eq!(memory.changed_since(), Some(at(100)));
    memory.note(&seen(Some("b"), 140, Some(140)), at(141));
    assert_eq!(memory.changed_since(), Some(at(100)), "read with the log's first look, it may have ended before");
    memory.note(&seen(Some("b"), 140, Some(145)), at(145));
    assert_eq!((memory.known_good(), memory.changed_since()), (Some("b"), None));
}

#[test]
fn a_content_that_changed_while_nobody_looked_becomes_good_once_the_old_pod_must_be_gone() {
    let mut memory = known("a");
    for now in [100, 105, 159] {
        memory.note(&seen(Some("b"), 100, Some(now)), at(now));
        assert_eq!(memory.changed_since(), Some(at(100)));
    }
    memory.note(&seen(Some("b"), 100, Some(161)), at(161));
    assert_eq!(memory.known_good(), Some("b"));
}

#[test]
fn a_manifest_that_is_out_for_a_while_or_goes_back_to_what_it_was_is_not_changed() {
    let mut memory = known("a");
    for (content, now) in [(Some("a"), 100), (None, 101), (Some("a"), 110)] {
        memory.note(&seen(content, 0, Some(99)), at(now));
        assert_eq!(memory.changed_since(), None);
    }
    memory.note(&seen(Some("b"), 0, Some(99)), at(120));
    assert_eq!(memory.changed_since(), Some(at(120)));
    memory.note(&seen(Some("a"), 0, Some(99)), at(125));
    assert_eq!((memory.known_good(), memory.changed_since()), (Some("a"), None));
}
