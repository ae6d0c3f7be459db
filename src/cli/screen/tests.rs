//! The screen, letter for letter, and what it does with the edges.

use std::net::Ipv4Addr;
use std::path::PathBuf;

use super::*;
use crate::audit::text::clip;
use crate::control::recent::{RecentStep, RecentSteps};
use crate::control::report::{PolicyRejection, PolicySummary, StatusInputs};
use crate::decision::api::ApiView;
use crate::decision::observation::{
    AliasEntry, AliasView, Beat, ConflictView, CycleView, EtcdFault, EtcdStatus, EtcdView, HeartbeatView, KubeletView, LoopFip,
    LoopProcess, LoopVerdict, ManifestView, Observation, OperatorPause, ProcessView, Quorum, Reading, StrainView,
};
use crate::decision::plan::{Decision, EtcdDepth, UnsafeReason, WaitingOn};
use crate::decision::step::{StepKind, StepOutcome};
use crate::decision::time::Moment;
use crate::decision::verdict::Verdict;
use crate::policy::Policy;
use crate::runtime::ledger::{PauseKind, PauseLedger, PauseRecord};

const NOW: u64 = 100_000;

fn at(milliseconds: u64) -> Moment {
    Moment::from_origin(Duration::from_millis(milliseconds))
}

fn fresh<T>(value: T) -> Reading<T> {
    Reading::Fresh { value, at: at(NOW - 100) }
}

/// The first article, with our alias up and the cycle about to start.
fn observation() -> Observation {
    Observation {
        etcd: fresh(EtcdView::Answered(EtcdStatus {
            member_id: 0x8e9e_05c5_2164_694d,
            leader: 0x8e9e_05c5_2164_694d,
            raft_term: 7,
            version: "3.4.23".to_owned(),
            quorum: Quorum::Confirmed { at: at(NOW - 250) },
            ..EtcdStatus::default()
        })),
        heartbeat: fresh(HeartbeatView {
            last_beat: Some(Beat {
                verdict: LoopVerdict::Follower,
                revision: None,
                raft_index: None,
                raft_term: Some(6),
                fip: LoopFip::Untouched,
            }),
            last_beat_at: Some(at(NOW - 31_000)),
            following_since: at(0),
            last_growth_at: Some(at(NOW - 31_000)),
            log: PathBuf::from("/var/log/pods/kube-system_wcp-fip/wcp-fip/0.log"),
        }),
        process: fresh(ProcessView::Present(LoopProcess {
            pid: 1234,
            start_ticks: 5678,
            state: 'S',
            progress_at: at(NOW - 30_000),
            seen_since: at(NOW - 30_000),
            wchan: Some("anon_pipe_write".to_owned()),
            copies: 1,
        })),
        alias: fresh(AliasView {
            entries: vec![AliasEntry { prefix_len: 32, valid_for: Some(Duration::from_millis(7200)), lent: false }],
            up: true,
            carrier: true,
        }),
        manifest: fresh(ManifestView { sha256: Some("1a2b3c4d5e6f7081".to_owned()), shadows: Vec::new(), immovable: None }),
        kubelet: fresh(KubeletView::Running),
        conflict: fresh(ConflictView::default()),
        api: ApiView::default(),
        expired: None,
        cycle: None,
        in_flight: std::iter::once(StepKind::RenewAlias).collect(),
        paused: None,
        resumed_at: None,
        strain: StrainView::default(),
        hold_off: None,
    }
}

fn decision() -> Decision {
    Decision {
        verdict: Verdict::LoopStalledFipMissing,
        since: at(NOW - 4_000),
        reasons: vec!["no finished round for 31s".to_owned(), "the process has made no progress for 30s".to_owned()],
        start: Vec::new(),
        waiting_on: vec![WaitingOn::Confirm { step: StepKind::CycleManifest, remaining: Duration::from_secs(1) }],
        etcd_depth: EtcdDepth::Proof,
        next_deadline: at(NOW + 250),
    }
}

fn policy() -> PolicySummary {
    let policy = Policy::with_defaults(Ipv4Addr::new(192, 168, 111, 200), "eth0");
    PolicySummary::of(&policy, PathBuf::from("/etc/fip-watchdog/policy.yaml"), at(1_000))
}

fn report(observation: &Observation, decision: &Decision, policy: &PolicySummary) -> StatusReport {
    let mut recent = RecentSteps::default();
    recent.push(RecentStep {
        step: StepKind::ApplyAlias,
        verdict: Verdict::LoopStalledFipMissing,
        started_at: at(NOW - 4_000),
        ended_at: at(NOW - 3_958),
        outcome: StepOutcome::Succeeded("192.168.111.200/32 is on eth0".to_owned()),
    });
    let mut pauses = PauseLedger::default();
    let (length, wall) = (Duration::from_secs(600), Duration::from_secs(1_796_000_000));
    pauses.push(PauseRecord { kind: PauseKind::Suspended, length, at: at(NOW - 75_000), wall });
    pauses.push(PauseRecord { kind: PauseKind::SteppedBack, length: Duration::from_secs(3600), at: at(NOW - 70_000), wall });
    let (recent, pauses, now) = (&recent, &pauses, at(NOW));
    StatusReport::new(StatusInputs { observation, decision, policy, recent, pauses, diagnosis: None, started_at: at(500), now })
}

/// A report with this verdict, for tests of others.
pub(crate) fn sample(verdict: Verdict) -> StatusReport {
    report(&observation(), &Decision { verdict, ..decision() }, &policy())
}

#[test]
fn the_first_article_fits_on_one_screen() {
    let screen = render(&report(&observation(), &decision(), &policy()), false);
    let expected = format!(
        "          fip-watchdog {} (enforce), up 1m 39s
verdict   loop_stalled_fip_missing for 4.0s
          no finished round for 31s
          the process has made no progress for 30s
FIP       192.168.111.200 on eth0: held here by us, lease has 7.2s left
etcd      leader, term 7, confirmed by a quorum 250ms ago, etcd 3.4.23
loop      last beat 31s ago: follower, FIP untouched; log grew 31s ago
          process 1234 in state S, progress 30s ago, in anon_pipe_write
manifest  present, sha256 1a2b3c4d5e6f
kubelet   running
cycle     none open
doing     renew_alias
waiting   cycle_manifest: the verdict must hold a little longer, 1.0s left
policy    /etc/fip-watchdog/policy.yaml, in force for 1m 39s
recent    3.9s ago: apply_alias succeeded in 42ms: 192.168.111.200/32 is on eth0
pauses    1m 10s ago: clock_stepped_back 1h 00m, over at 2026-11-30T00:53:20Z
          1m 15s ago: suspended 10m 00s, over at 2026-11-30T00:53:20Z
",
        env!("CARGO_PKG_VERSION")
    );
    assert_eq!(screen, expected);
}

#[test]
fn what_is_behind_the_fip_is_a_line_where_it_is_asked() {
    let mut observation = observation();
    let line = |observation: &Observation| {
        let screen = render(&report(observation, &decision(), &policy()), false);
        screen.lines().find(|line| line.starts_with("API")).map(str::to_owned)
    };
    assert_eq!(line(&observation), None);
    observation.api = ApiView::new(6443);
    assert_eq!(line(&observation).as_deref(), Some("API       port 6443 is being asked"));
    observation.api.note(Ok(()), at(NOW - 40_000));
    assert_eq!(line(&observation).as_deref(), Some("API       port 6443 answers, asked 40s ago"));
    for ago in [30_000, 20_000, 10_000] {
        observation.api.note(Err("connection refused".to_owned()), at(NOW - ago));
    }
    let silent = "API       port 6443 has not answered for 30s, last answer 40s ago: connection refused";
    assert_eq!(line(&observation).as_deref(), Some(silent));
}

#[test]
fn senses_that_cannot_tell_say_why() {
    let mut observation = observation();
    observation.etcd = fresh(EtcdView::Unreachable(EtcdFault::Refused));
    observation.heartbeat = Reading::Unknown("no log below /var/log/pods".to_owned());
    observation.process = fresh(ProcessView::Absent { since: at(NOW - 90_000) });
    observation.alias = Reading::Unknown("interface eth0 does not exist".to_owned());
    observation.manifest = Reading::Stale { since: at(NOW - 61_000) };
    observation.cycle = Some(CycleView { phase: CyclePhase::Out });
    let screen = render(&report(&observation, &decision(), &policy()), false);
    for line in [
        "FIP       192.168.111.200 on eth0: cannot tell: interface eth0 does not exist\n",
        "etcd      nothing listens\n",
        "loop      cannot tell: no log below /var/log/pods\n",
        "          process absent for 1m 30s\n",
        "manifest  stale, last read 1m 01s ago\n",
        "cycle     out, waiting for the old pod to die\n",
    ] {
        assert!(screen.contains(line), "{line}{screen}");
    }
}

#[test]
fn a_refused_edit_and_a_pause_are_shown() {
    let mut observation = observation();
    observation.paused = Some(OperatorPause { reason: "etcd upgrade".to_owned(), remaining: Duration::from_secs(600) });
    let rejection = PolicyRejection { at: at(NOW - 5_000), faults: vec!["14:15: limits.cooldown: 0s is too short".to_owned()] };
    let policy = PolicySummary { rejection: Some(rejection), ..policy() };
    let screen = render(&report(&observation, &decision(), &policy), false);
    assert!(screen.contains("paused    for another 10m 00s: etcd upgrade\n"), "{screen}");
    assert!(screen.contains("an edit 5.0s ago was refused"), "{screen}");
    assert!(screen.contains("            14:15: limits.cooldown: 0s is too short\n"), "{screen}");
}

#[test]
fn every_reason_to_wait_is_a_sentence() {
    let step = StepKind::CycleManifest;
    let remaining = Duration::from_secs(90);
    let waiting_on = vec![
        WaitingOn::Lane { step, running: StepKind::ApplyAlias },
        WaitingOn::Refused { step, reason: UnsafeReason::LinkDown },
        WaitingOn::Cooldown { step, remaining },
        WaitingOn::Budget { step, remaining },
        WaitingOn::ObserveMode { step },
        WaitingOn::LoopsOwnRound { remaining },
        WaitingOn::StableLeader { remaining },
    ];
    let screen = render(&report(&observation(), &Decision { waiting_on, ..decision() }, &policy()), false);
    for line in [
        "waiting   cycle_manifest: apply_alias is still running\n",
        "          cycle_manifest: the interface has no link\n",
        "          cycle_manifest: it ran a short while ago, 1m 30s left\n",
        "          cycle_manifest: its budget for an hour is spent, 1m 30s left\n",
        "          cycle_manifest: observe mode: it would be started\n",
        "          the leadership has changed too often, and must be stable for a while, 1m 30s left\n",
        "          the loop gets the time of one round to put it right itself, 1m 30s left\n",
    ] {
        assert!(screen.contains(line), "{line}{screen}");
    }
}

#[test]
fn colour_is_only_added_and_never_carries_meaning() {
    let report = report(&observation(), &decision(), &policy());
    let coloured = render(&report, true);
    assert!(coloured.contains("\x1b[1;31mloop_stalled_fip_missing\x1b[0m"));
    assert_eq!(coloured.replace("\x1b[1;31m", "").replace("\x1b[0m", ""), render(&report, false));
}

#[test]
fn the_report_survives_the_wire_and_stays_far_below_the_bound_of_the_client() {
    let report = report(&crate::audit::tests::talkative(&"\"\u{1}é".repeat(5000)), &decision(), &policy());
    let line = json(&report);
    assert!(line.len() < 64 * 1024, "{} bytes", line.len());
    assert_eq!(serde_json::from_str::<StatusReport>(&line).unwrap(), report);
    let response = crate::control::protocol::Response::Status(Box::new(report));
    let line = crate::control::protocol::encode_response(&response).unwrap();
    assert_eq!(crate::control::protocol::parse_response(line.as_bytes()), Ok(response), "{}", clip(&line, 500));
}

#[test]
fn an_explanation_tells_what_is_seen_what_would_be_done_and_what_it_waits_for() {
    let text = explain(&report(&observation(), &decision(), &policy()), false);
    let (_, plan) = text.split_once("\nWhat it would do\n").unwrap();
    assert!(text.contains("\nWhat it sees\nFIP       192.168.111.200 on eth0: held here by us, lease has 7.2s left\n"), "{text}");
    assert_eq!(
        plan,
        "          renew_alias is under way
          cycle_manifest, when what it waits for is over

What it waits for
          cycle_manifest: the verdict must hold a little longer, 1.0s left
"
    );
}

#[test]
fn a_step_that_is_under_way_and_waits_for_itself_is_told_once() {
    let (step, in_flight) = (StepKind::CycleManifest, std::collections::BTreeSet::from([StepKind::CycleManifest]));
    let decision = Decision { waiting_on: vec![WaitingOn::Lane { step, running: step }], ..decision() };
    let text = explain(&report(&Observation { in_flight, ..observation() }, &decision, &policy()), false);
    let (_, plan) = text.split_once("\nWhat it would do\n").unwrap();
    assert!(plan.starts_with("          cycle_manifest is under way\n\nWhat it waits for\n"), "{text}");
}

#[test]
fn an_explanation_of_nothing_says_why_nothing_is_done() {
    for verdict in Verdict::ALL {
        let decision = Decision { verdict, start: Vec::new(), waiting_on: Vec::new(), ..decision() };
        let observation = Observation { in_flight: std::collections::BTreeSet::new(), ..observation() };
        let text = explain(&report(&observation, &decision, &policy()), false);
        assert!(text.contains("\nWhat it would do\n          nothing"), "{text}");
    }
}

#[test]
fn a_node_that_waits_for_its_loop_is_not_told_to_be_as_it_should_be() {
    let waits = vec![WaitingOn::LoopsOwnRound { remaining: Duration::from_secs(9) }];
    for (waiting_on, says) in [(waits, "nothing yet: that is the loop's"), (Vec::new(), "nothing: all is as it should be")] {
        let decision = Decision { verdict: Verdict::Healthy, waiting_on, ..decision() };
        let observation = Observation { in_flight: std::collections::BTreeSet::new(), ..observation() };
        let text = explain(&report(&observation, &decision, &policy()), false);
        assert!(text.contains(says), "{text}");
    }
}

#[test]
fn json_holds_no_control_character_and_says_the_same() {
    let text = "a\u{1b}[31m\u{7f}\u{9b}31m\nö\"";
    let line = json(&text);
    assert_eq!(line.trim_end(), r#""a\u001b[31m\u007f\u009b31m\nö\"""#);
    assert_eq!(serde_json::from_str::<String>(&line).unwrap(), text);
}
