//! The sentences behind a verdict: what is said of each sense, and that what the verdict rests on is said first.

use std::time::Duration;

use fip_watchdog::decision::api::ApiView;
use fip_watchdog::decision::curl::{exit_status, explain};
use fip_watchdog::decision::facts::{Holding, LoopState, Role};
use fip_watchdog::decision::observation::{
    AliasEntry, Claim, ConflictView, CyclePhase, CycleView, EtcdFault, EtcdStatus, EtcdView, HoldOff, LoopFip, LoopProcess,
    LoopVerdict, OperatorPause, ProcessView, Reading,
};
use fip_watchdog::decision::reasons::reasons;
use fip_watchdog::decision::step::StepKind;
use fip_watchdog::decision::verdict::Verdict;

use crate::scene::{NOW, Scene, at, entry, fresh};

const MINUTE: Duration = Duration::from_secs(60);

fn said(scene: &Scene, verdict: Verdict) -> Vec<String> {
    reasons(&scene.observation, &scene.facts, verdict, at(NOW))
}

fn leader() -> Scene {
    let mut scene = Scene::of(StepKind::AnnounceAlias);
    scene.beat(LoopVerdict::Leader, LoopFip::Kept, 1_000);
    scene
}

#[test]
fn the_sense_that_a_verdict_rests_on_is_said_first_and_each_of_the_three_is_said_once() {
    for verdict in Verdict::ALL {
        let first = match verdict {
            Verdict::LoopStalledFipMissing
            | Verdict::LoopStalledFipHeld
            | Verdict::LoopStalledFollower
            | Verdict::ManifestChanged
            | Verdict::LoopBlind
            | Verdict::LoopMistaken
            | Verdict::LoopAbsent
            | Verdict::PodStuck
            | Verdict::KubeletDown
            | Verdict::LogStalled
            | Verdict::HostStarved => "the loop finishes its rounds",
            Verdict::FipOrphaned | Verdict::FipMissing => "the FIP has been on this node",
            Verdict::Paused
            | Verdict::Starting
            | Verdict::Resumed
            | Verdict::Unknown
            | Verdict::EtcdUnreachable
            | Verdict::NoQuorum
            | Verdict::LeaderUnproven
            | Verdict::LeaderFlapping
            | Verdict::ManifestMissing
            | Verdict::ManifestShadowed
            | Verdict::FipDuplicated
            | Verdict::Healthy => "the local member leads, confirmed by a quorum",
        };
        let sentences = said(&leader(), verdict);
        assert!(sentences[0].starts_with(first), "{verdict}: {sentences:?}");
        for sense in ["the local member", "the FIP", "the loop"] {
            let of_it = sentences.iter().filter(|sentence| sentence.starts_with(sense)).count();
            assert_eq!((of_it, sentences.len()), (1, 3), "{verdict}: {sentences:?}");
        }
    }
}

#[test]
fn an_api_that_does_not_answer_is_said_first_when_all_else_is_well_and_one_that_never_did_last() {
    let asked = |answers: u64| {
        let mut api = ApiView::new(6443);
        for question in 0..answers {
            api.note(Ok(()), at(question));
        }
        for ago in [34_000, 24_000, 14_000] {
            api.note(Err("connection refused".to_owned()), at(NOW - ago));
        }
        api
    };
    let mut scene = leader();
    scene.observation.api = asked(1);
    let silent = "the API behind the FIP does not answer: port 6443, for 34 s: connection refused";
    let right = format!("the FIP is right, but {silent}");
    assert_eq!(said(&scene, Verdict::Healthy)[0], right);
    assert_eq!(said(&scene, Verdict::LoopStalledFipHeld)[3], right, "there is worse to say");
    scene.facts.role = Role::Follows;
    assert_eq!(said(&scene, Verdict::Healthy)[0], silent, "whether the FIP is right is not said");
    scene.observation.api = asked(0);
    let never = "nothing has answered on port 6443 behind the FIP in 34 s of asking, and never before: connection refused";
    assert_eq!(said(&scene, Verdict::Healthy)[3], never);
}

#[test]
fn what_else_is_wrong_is_said_first_under_its_own_verdict_and_last_under_any_other() {
    type Change = fn(&mut Scene);
    let all: [(Verdict, Change, &str); 6] = [
        (
            Verdict::FipDuplicated,
            |scene| {
                scene.facts.contested = true;
                let claim = Claim { mac: "02:00:00:00:00:09".to_owned(), at: at(NOW - 40) };
                scene.observation.conflict = fresh(ConflictView { last: Some(claim) });
            },
            "the FIP is here, and 02:00:00:00:00:09 claimed it 40 ms ago",
        ),
        (
            Verdict::ManifestMissing,
            |scene| scene.facts.manifest_missing = Some(MINUTE),
            "the manifest has been out of its directory for 60 s, and not by us",
        ),
        (
            Verdict::ManifestShadowed,
            |scene| {
                scene.manifest(|view| view.shadows.push("/etc/x.bak".into()));
            },
            "/etc/x.bak defines the same pod as the manifest, so that a cycle would start either of them",
        ),
        (
            Verdict::PodStuck,
            |scene| scene.facts.pod_stuck = Some("no new pod".to_owned()),
            "the last manifest cycle failed: no new pod",
        ),
        (
            Verdict::KubeletDown,
            |scene| scene.facts.kubelet_down = Some(MINUTE),
            "the kubelet has not been running for 60 s, so nobody would restart the loop",
        ),
        (
            Verdict::LeaderFlapping,
            |scene| scene.facts.flapping = Some(MINUTE),
            "the leadership has changed too often of late: nothing is put up or cycled until it is stable, 60 s more",
        ),
    ];
    for (verdict, change, sentence) in all {
        let mut scene = leader();
        assert!(!said(&scene, verdict).iter().any(|said| said == sentence), "{verdict}, although it is not so");
        change(&mut scene);
        assert_eq!(said(&scene, verdict).first().map(String::as_str), Some(sentence), "{verdict}");
        assert_eq!(said(&scene, Verdict::Healthy).last().map(String::as_str), Some(sentence), "{verdict}");
    }
}

#[test]
fn what_holds_the_watchdog_itself_back_is_said_before_everything_and_an_open_cycle_after_it() {
    let mut scene = leader();
    scene.observation.hold_off = Some(HoldOff { reason: "x.service is activating".to_owned(), remaining: MINUTE });
    assert_eq!(said(&scene, Verdict::Starting)[0], "after the boot, for 60 s more at most: x.service is activating");
    scene.facts.resumed = true;
    assert_eq!(said(&scene, Verdict::Resumed)[0], "this daemon itself did not run for a while; all ages are void");
    scene.observation.paused = Some(OperatorPause { reason: "maintenance".to_owned(), remaining: MINUTE });
    assert_eq!(said(&scene, Verdict::Paused)[0], "paused for 60 s more: maintenance");
    scene.observation.cycle = Some(CycleView { phase: CyclePhase::Out });
    assert_eq!(said(&scene, Verdict::Paused).last().map(String::as_str), Some("a manifest cycle is open (out)"));
}

#[test]
fn every_role_is_put_into_words_with_what_etcd_reports_of_itself() {
    let why = || "why".to_owned();
    for (role, sentence) in [
        (Role::Unknown(why()), "etcd: why"),
        (Role::Unreachable(EtcdFault::TimedOut), "etcd is unreachable: TimedOut"),
        (Role::NoLeader, "etcd knows of no leader"),
        (Role::Learner, "the local member is a learner"),
        (Role::ClaimsToLead, "the local member says that it leads"),
        (Role::Leads, "the local member leads, confirmed by a quorum"),
        (Role::Unproven(why()), "the local member says that it leads, and the quorum does not confirm: why"),
        (Role::ClaimsToFollow, "another member leads, by the local member's word"),
        (Role::Follows, "another member leads, confirmed by a quorum"),
        (Role::CutOff(why()), "another member is said to lead, and the quorum does not answer: why"),
    ] {
        let mut scene = leader();
        scene.facts.role = role;
        let answered = |errors: &[&str]| {
            let errors = errors.iter().map(|error| (*error).to_owned()).collect();
            fresh(EtcdView::Answered(EtcdStatus { raft_term: 7, revision: 41, errors, ..EtcdStatus::default() }))
        };
        for (etcd, rest) in [
            (answered(&[]), " (term 7, revision 41)"),
            (answered(&["a", "b"]), " (term 7, revision 41); it reports: a, b"),
            (fresh(EtcdView::Unreachable(EtcdFault::TimedOut)), ""),
            (Reading::Unknown(why()), ""),
        ] {
            scene.observation.etcd = etcd;
            assert_eq!(said(&scene, Verdict::Healthy)[0], format!("{sentence}{rest}"));
        }
    }
}

#[test]
fn an_alias_is_described_by_its_age_its_lease_and_a_mask_that_is_not_the_loops() {
    let remaining = Duration::from_secs(9);
    let fip = |holding: Result<Holding, String>, entries: Vec<AliasEntry>| {
        let mut scene = leader();
        scene.alias(|view| view.entries = entries).facts.holding = holding;
        said(&scene, Verdict::FipMissing).remove(0)
    };
    assert_eq!(fip(Ok(Holding::Absent), Vec::new()), "the FIP has not been on this node for 60 s");
    assert_eq!(fip(Ok(Holding::Held), vec![entry(None)]), "the FIP has been on this node for 60 s, lifetime forever");
    let subnet = AliasEntry { prefix_len: 24, ..entry(None) };
    assert_eq!(
        fip(Ok(Holding::Held), vec![entry(None), subnet]),
        "the FIP has been on this node for 60 s, lifetime forever, as a /24 and not a /32: it can go along with another \
         address of its subnet"
    );
    assert_eq!(
        fip(Ok(Holding::Leased { remaining }), vec![entry(Some(remaining))]),
        "the FIP has been on this node for 60 s, leased by us for 9 s more"
    );
    assert_eq!(
        fip(Ok(Holding::Lent { remaining }), vec![AliasEntry { lent: true, ..entry(Some(remaining)) }]),
        "the FIP has been on this node for 60 s, the loop's, with our lease of 9 s more"
    );
    assert_eq!(fip(Err("no such interface".to_owned()), Vec::new()), "the FIP: no such interface");
}

#[test]
fn how_the_loop_does_is_put_into_words() {
    let how = || "how".to_owned();
    let (lasts, sign) = (MINUTE, "; last sign of it 1 s ago");
    let blind = LoopState::Blind { how: "curl exit status 7".to_owned(), lasts, took_fip_off: false };
    let mistaken = |says_it_leads| LoopState::Mistaken { says_it_leads, lasts, took_fip_off: false };
    let renewed = |unrecognised| LoopState::Renewed { lasts, unrecognised };
    for (state, sentence) in [
        (LoopState::Unknown(how()), "the loop: how".to_owned()),
        (LoopState::Alive { overdue: false }, format!("the loop finishes its rounds{sign}")),
        (LoopState::Alive { overdue: true }, format!("a round of the loop is overdue{sign}")),
        (
            blind,
            "the loop's queries have failed in every round for 60 s: curl exit status 7, which means that nothing accepts the \
             connection"
                .to_owned()
                + sign,
        ),
        (mistaken(true), format!("the loop has said in every round for 60 s that this node leads, which is wrong{sign}")),
        (mistaken(false), format!("the loop has said in every round for 60 s that this node does not lead, which is wrong{sign}")),
        (LoopState::Starved(how()), "the loop looks frozen, and the node starves: how".to_owned()),
        (renewed(false), "the manifest changed 60 s ago, and the loop has not finished a round under it".to_owned()),
        (
            renewed(true),
            "the manifest changed 60 s ago, and the loop has not finished a round under it; its log grows, but no finished round \
             is recognised in it: the new loop's format is not known"
                .to_owned(),
        ),
        (LoopState::LogStalled, format!("the loop's log is frozen, its process works on{sign}")),
        (LoopState::Stalled(how()), "the loop is stalled: how".to_owned()),
        (LoopState::Absent, format!("no process of the loop exists{sign}")),
        (LoopState::Returning, format!("the loop was down, and has not finished a round since{sign}")),
    ] {
        let mut scene = leader();
        scene.facts.watched_loop = state;
        assert_eq!(said(&scene, Verdict::LoopBlind)[0], sentence);
    }
}

#[test]
fn a_log_that_grows_without_rounds_is_not_called_frozen() {
    let mut scene = leader();
    scene.facts.watched_loop = LoopState::LogStalled;
    let mut log = scene.beat(LoopVerdict::Leader, LoopFip::Kept, 20_000).observation.heartbeat.fresh().unwrap().clone();
    log.last_growth_at = Some(at(NOW - 4_000));
    scene.observation.heartbeat = fresh(log.clone());
    let grows = "the loop's log grows, but no finished round is recognised in it; its process works on; last sign of it 20 s ago";
    assert_eq!(said(&scene, Verdict::LogStalled)[0], grows, "for one worst round");
    log.last_growth_at = Some(at(NOW - 4_001));
    scene.observation.heartbeat = fresh(log);
    let frozen = "the loop's log is frozen, its process works on; last sign of it 20 s ago";
    assert_eq!(said(&scene, Verdict::LogStalled)[0], frozen);
}

#[test]
fn more_than_one_copy_of_the_loop_is_told_of() {
    for (copies, told) in [(0, ""), (1, ""), (2, "; 2 copies of it run at once"), (3, "; 3 copies of it run at once")] {
        let mut scene = leader();
        let Some(ProcessView::Present(process)) = scene.observation.process.fresh().cloned() else { panic!("no process") };
        scene.observation.process = fresh(ProcessView::Present(LoopProcess { copies, ..process }));
        let sentence = said(&scene, Verdict::LogStalled).remove(0);
        assert_eq!(sentence, format!("the loop finishes its rounds; last sign of it 1 s ago{told}"));
    }
}

#[test]
fn what_curl_gives_up_with_on_such_a_node_is_explained_and_nothing_is_made_up_for_the_rest() {
    for (status, word) in [
        (6, "resolved"),
        (7, "accepts the connection"),
        (16, "framing"),
        (22, "answered with an error"),
        (28, "time-out"),
        (35, "handshake"),
        (51, "not for the address"),
        (52, "without an answer"),
        (55, "asking"),
        (56, "before an answer"),
        (58, "client certificate or key"),
        (59, "cipher"),
        (60, "not accepted"),
        (77, "CA certificate"),
        (83, "issuer"),
        (90, "pinned"),
        (92, "framing"),
        (126, "cannot be executed"),
        (127, "no curl"),
        (130, "signal"),
        (137, "signal"),
        (143, "signal"),
    ] {
        let detail = format!("curl exit status {status}");
        let said = explain(&detail);
        let meaning = said.strip_prefix(&detail).and_then(|rest| rest.strip_prefix(", which means that "));
        assert!(meaning.is_some_and(|meaning| meaning.contains(word)), "{said}");
    }
    for status in [0, 1, 5, 8, 36, 61, 91, 125, 128, 255] {
        let detail = format!("curl exit status {status}");
        assert_eq!(explain(&detail), detail);
    }
    assert_eq!(exit_status("no status in the answer, the query returned 5"), None, "5 may be the status of jq");
    assert_eq!(exit_status("no status in the answer, the query returned 6"), Some(6));
}
