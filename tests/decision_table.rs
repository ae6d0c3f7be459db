//! The whole verdict table, as a person would write it down, against the code.

use std::sync::LazyLock;
use std::time::Duration;

use fip_watchdog::decision::facts::{Holding, LoopState, Role};
use fip_watchdog::decision::judge::{Facts, Judgement, judge};
use fip_watchdog::decision::observation::EtcdFault;
use fip_watchdog::decision::verdict::Verdict;

const WORST_ROUND: Duration = Duration::from_secs(16);

/// `early`: role and holding younger than one worst round; `late`: older.
const GRID: &str = "
role    holding loop     early                     late
leads   absent  alive    healthy                   fip_missing
leads   absent  overdue  healthy                   fip_missing
leads   absent  log      log_stalled               fip_missing
leads   absent  starved  host_starved              fip_missing
leads   absent  stalled  loop_stalled_fip_missing  loop_stalled_fip_missing
leads   absent  gone     loop_absent               loop_absent
leads   absent  returning loop_absent               loop_absent
leads   absent  unknown  unknown                   unknown
leads   absent  renewed  manifest_changed          manifest_changed
leads   absent  blind    loop_blind                loop_blind
leads   absent  mistaken loop_mistaken             loop_mistaken
leads   leased  alive    healthy                   healthy
leads   leased  overdue  healthy                   healthy
leads   leased  log      log_stalled               log_stalled
leads   leased  starved  host_starved              host_starved
leads   leased  stalled  loop_stalled_fip_held     loop_stalled_fip_held
leads   leased  gone     loop_absent               loop_absent
leads   leased  returning loop_absent               loop_absent
leads   leased  unknown  unknown                   unknown
leads   leased  renewed  manifest_changed          manifest_changed
leads   leased  blind    loop_blind                loop_blind
leads   leased  mistaken loop_mistaken             loop_mistaken
leads   held    alive    healthy                   healthy
leads   held    overdue  healthy                   healthy
leads   held    log      log_stalled               log_stalled
leads   held    starved  host_starved              host_starved
leads   held    stalled  loop_stalled_fip_held     loop_stalled_fip_held
leads   held    gone     loop_absent               loop_absent
leads   held    returning loop_absent               loop_absent
leads   held    unknown  unknown                   unknown
leads   held    renewed  manifest_changed          manifest_changed
leads   held    blind    loop_blind                loop_blind
leads   held    mistaken loop_mistaken             loop_mistaken
follows absent  alive    healthy                   healthy
follows absent  overdue  healthy                   healthy
follows absent  log      log_stalled               log_stalled
follows absent  starved  host_starved              host_starved
follows absent  stalled  loop_stalled_follower     loop_stalled_follower
follows absent  gone     loop_absent               loop_absent
follows absent  returning loop_absent               loop_absent
follows absent  unknown  unknown                   unknown
follows absent  renewed  manifest_changed          manifest_changed
follows absent  blind    loop_blind                loop_blind
follows absent  mistaken loop_mistaken             loop_mistaken
follows leased  alive    fip_orphaned              fip_orphaned
follows leased  overdue  fip_orphaned              fip_orphaned
follows leased  log      fip_orphaned              fip_orphaned
follows leased  starved  fip_orphaned              fip_orphaned
follows leased  stalled  fip_orphaned              fip_orphaned
follows leased  gone     fip_orphaned              fip_orphaned
follows leased  returning fip_orphaned              fip_orphaned
follows leased  unknown  fip_orphaned              fip_orphaned
follows leased  renewed  fip_orphaned              fip_orphaned
follows leased  blind    fip_orphaned              fip_orphaned
follows leased  mistaken fip_orphaned              fip_orphaned
follows held    alive    healthy                   fip_orphaned
follows held    overdue  healthy                   fip_orphaned
follows held    log      log_stalled               fip_orphaned
follows held    starved  host_starved              fip_orphaned
follows held    stalled  fip_orphaned              fip_orphaned
follows held    gone     fip_orphaned              fip_orphaned
follows held    returning loop_absent               fip_orphaned
follows held    unknown  unknown                   fip_orphaned
follows held    renewed  manifest_changed          fip_orphaned
follows held    blind    fip_orphaned              fip_orphaned
follows held    mistaken fip_orphaned              fip_orphaned
";

/// The same while another station claims the FIP; rows that are not here are as above.
const CONTESTED: &str = "
leads   leased  alive    fip_duplicated            fip_duplicated
leads   leased  overdue  fip_duplicated            fip_duplicated
leads   leased  log      fip_duplicated            fip_duplicated
leads   leased  starved  fip_duplicated            fip_duplicated
leads   leased  gone     fip_duplicated            fip_duplicated
leads   leased  returning fip_duplicated            fip_duplicated
leads   leased  unknown  fip_duplicated            fip_duplicated
leads   leased  renewed  fip_duplicated            fip_duplicated
leads   leased  blind    fip_duplicated            fip_duplicated
leads   leased  mistaken fip_duplicated            fip_duplicated
leads   held    alive    fip_duplicated            fip_duplicated
leads   held    overdue  fip_duplicated            fip_duplicated
leads   held    log      fip_duplicated            fip_duplicated
leads   held    starved  fip_duplicated            fip_duplicated
leads   held    gone     fip_duplicated            fip_duplicated
leads   held    returning fip_duplicated            fip_duplicated
leads   held    unknown  fip_duplicated            fip_duplicated
leads   held    renewed  fip_duplicated            fip_duplicated
leads   held    blind    fip_duplicated            fip_duplicated
leads   held    mistaken fip_duplicated            fip_duplicated
follows held    alive    fip_duplicated            fip_orphaned
follows held    overdue  fip_duplicated            fip_orphaned
follows held    log      fip_duplicated            fip_orphaned
follows held    starved  fip_duplicated            fip_orphaned
follows held    returning fip_duplicated            fip_orphaned
follows held    unknown  fip_duplicated            fip_orphaned
follows held    renewed  fip_duplicated            fip_orphaned
";

fn holdings() -> Vec<(&'static str, Result<Holding, String>)> {
    vec![
        ("absent", Ok(Holding::Absent)),
        ("leased", Ok(Holding::Leased { remaining: Duration::from_secs(4) })),
        ("held", Ok(Holding::Held)),
        // What is lent is the loop's: judged like what it holds for ever.
        ("held", Ok(Holding::Lent { remaining: Duration::from_secs(4) })),
        ("unknown", Err("interface eth0 does not exist".to_owned())),
    ]
}

fn loops() -> Vec<(&'static str, LoopState)> {
    vec![
        ("alive", LoopState::Alive { overdue: false }),
        ("overdue", LoopState::Alive { overdue: true }),
        ("log", LoopState::LogStalled),
        ("starved", LoopState::Starved("woke late".to_owned())),
        ("stalled", LoopState::Stalled("in pipe_write".to_owned())),
        ("gone", LoopState::Absent),
        ("returning", LoopState::Returning),
        ("unknown", LoopState::Unknown("no log directory".to_owned())),
        ("renewed", LoopState::Renewed { lasts: Duration::from_secs(20), unrecognised: true }),
        (
            "blind",
            LoopState::Blind { how: "curl exit status 60".to_owned(), lasts: Duration::from_secs(20), took_fip_off: false },
        ),
        ("mistaken", LoopState::Mistaken { says_it_leads: true, lasts: Duration::from_secs(20), took_fip_off: false }),
    ]
}

/// Every role, and the verdict that it has whatever FIP and loop do; `None` where the grid decides.
fn roles() -> Vec<(Role, &'static str, Option<Verdict>)> {
    vec![
        (Role::Unknown("certificate unreadable".to_owned()), "-", Some(Verdict::Unknown)),
        (Role::Unreachable(EtcdFault::Refused), "-", Some(Verdict::EtcdUnreachable)),
        (Role::NoLeader, "-", Some(Verdict::NoQuorum)),
        (Role::Learner, "-", Some(Verdict::Unknown)),
        (Role::ClaimsToLead, "leads", None),
        (Role::Leads, "leads", None),
        (Role::Unproven("timed out".to_owned()), "-", Some(Verdict::LeaderUnproven)),
        (Role::ClaimsToFollow, "follows", None),
        (Role::Follows, "follows", None),
        (Role::CutOff("timed out".to_owned()), "-", Some(Verdict::NoQuorum)),
    ]
}

/// The cells of a grid's rows, with their verdicts.
fn rows(grid: &'static str) -> Vec<([&'static str; 3], [Verdict; 2])> {
    let named = |name: &str| {
        Verdict::ALL.into_iter().find(|verdict| verdict.name() == name).unwrap_or_else(|| panic!("no verdict is named {name}"))
    };
    let cells = grid.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let rows = cells.filter(|cells| cells.len() == 5 && cells[0] != "role");
    rows.map(|cells| ([cells[0], cells[1], cells[2]], [named(cells[3]), named(cells[4])])).collect()
}

fn grid_says(role: &str, holding: &str, watched_loop: &str, contested: bool, late: bool) -> Verdict {
    static PLAIN: LazyLock<Vec<([&str; 3], [Verdict; 2])>> = LazyLock::new(|| rows(GRID));
    static OTHER: LazyLock<Vec<([&str; 3], [Verdict; 2])>> = LazyLock::new(|| rows(CONTESTED));
    let other = if contested { OTHER.as_slice() } else { &[] };
    let row = other.iter().chain(PLAIN.iter()).find(|(cells, _)| *cells == [role, holding, watched_loop]);
    row.unwrap_or_else(|| panic!("the grid has no row for {role} {holding} {watched_loop}")).1[usize::from(late)]
}

/// What a person would say, from the rows of the design's table in their order.
fn expected(facts: &Facts, role_name: &str, fixed: Option<Verdict>, holding_name: &str, loop_name: &str) -> Verdict {
    match () {
        () if facts.paused => Verdict::Paused,
        () if facts.resumed => Verdict::Resumed,
        () if facts.starting => Verdict::Starting,
        () => {
            if let Some(verdict) = fixed {
                return verdict;
            }
            if holding_name == "unknown" {
                return Verdict::Unknown;
            }
            let late = facts.role_age >= WORST_ROUND && facts.holding_age >= WORST_ROUND;
            let verdict = grid_says(role_name, holding_name, loop_name, facts.contested, late);
            let steady = matches!((role_name, holding_name), ("leads", "leased" | "held") | ("follows", "absent"));
            let verdict = instead(facts, verdict, steady);
            let held_up = if facts.manifest_missing.is_some_and(|age| age >= Duration::from_secs(5)) {
                Some(Verdict::ManifestMissing)
            } else {
                facts.flapping.map(|_| Verdict::LeaderFlapping)
            };
            // Whatever keeps a frozen loop from being cycled, a leader defends the FIP that it has.
            let defends = facts.contested && role_name == "leads" && holding_name != "absent";
            let is_cycled = verdict == Verdict::LoopStalledFipHeld && held_up.is_none();
            let verdict = if defends && !is_cycled { Verdict::FipDuplicated } else { verdict };
            let two_holders = [Verdict::FipOrphaned, Verdict::FipDuplicated].contains(&verdict);
            held_up.filter(|_| !two_holders).unwrap_or(verdict)
        }
    }
}

/// Below the grid: what is known of the kubelet and of the last cycle stands in for "stalled", "mistaken" and "absent", and a loop that
/// works beside a kubelet that does not is only healthy while it has something to put right.
fn instead(facts: &Facts, verdict: Verdict, steady: bool) -> Verdict {
    let down = facts.kubelet_down.is_some_and(|age| age >= Duration::from_secs(5));
    let shadowed = facts.manifest_shadowed.is_some_and(|age| age >= Duration::from_secs(5));
    let loop_is_down = [
        Verdict::LoopStalledFipMissing,
        Verdict::LoopStalledFipHeld,
        Verdict::LoopStalledFollower,
        Verdict::LoopMistaken,
        Verdict::LoopAbsent,
    ]
    .contains(&verdict);
    if down && (loop_is_down || verdict == Verdict::Healthy && steady) {
        Verdict::KubeletDown
    } else if loop_is_down && facts.pod_stuck.is_some() {
        Verdict::PodStuck
    } else if shadowed && (loop_is_down || verdict == Verdict::Healthy && steady) {
        Verdict::ManifestShadowed
    } else {
        verdict
    }
}

fn for_every_combination(mut visit: impl FnMut(&Facts, Verdict)) -> usize {
    let ages = [Duration::ZERO, WORST_ROUND - Duration::from_millis(1), WORST_ROUND];
    let missing = [None, Some(Duration::from_millis(4999)), Some(Duration::from_secs(5))];
    let kubelet = [None, Some(Duration::from_millis(4999)), Some(Duration::from_secs(5))];
    let stuck = [None, Some("process 7 is left".to_owned())];
    let ages_of_a_shadow = missing;
    let below: Vec<_> = kubelet
        .iter()
        .flat_map(|kubelet| stuck.iter().map(move |stuck| (*kubelet, stuck.clone())))
        .flat_map(|(kubelet, stuck)| ages_of_a_shadow.map(|shadowed| (kubelet, stuck.clone(), shadowed)))
        .collect();
    let mut count = 0;
    for bits in 0..32_u8 {
        for (role, role_name, fixed) in roles() {
            for (holding_name, holding) in holdings() {
                for (loop_name, watched_loop) in loops() {
                    for role_age in ages {
                        for holding_age in ages {
                            for manifest_missing in missing {
                                for (kubelet_down, pod_stuck, manifest_shadowed) in &below {
                                    let facts = Facts {
                                        paused: bits & 1 != 0,
                                        resumed: bits & 2 != 0,
                                        starting: bits & 4 != 0,
                                        role: role.clone(),
                                        role_age,
                                        told_for: role_age,
                                        flapping: (bits & 16 != 0).then_some(Duration::from_secs(9)),
                                        holding: holding.clone(),
                                        holding_age,
                                        contested: bits & 8 != 0,
                                        link_settled: true,
                                        watched_loop: watched_loop.clone(),
                                        manifest_missing,
                                        manifest_shadowed: *manifest_shadowed,
                                        kubelet_down: *kubelet_down,
                                        pod_stuck: pod_stuck.clone(),
                                        worst_round: WORST_ROUND,
                                    };
                                    visit(&facts, expected(&facts, role_name, fixed, holding_name, loop_name));
                                    count += 1;
                                }
                            }
                        }
                    }
                }
            }
        }
    }
    count
}

#[test]
fn every_combination_of_facts_has_the_verdict_of_the_table() {
    let count = for_every_combination(|facts, verdict| {
        assert_eq!(judge(facts).verdict(), verdict, "for {facts:#?}");
    });
    assert_eq!(count, 32 * 10 * 5 * 11 * 3 * 3 * 3 * 3 * 2 * 3);
}

#[test]
fn a_verdict_that_can_act_is_only_given_on_a_proof() {
    let acts = Verdict::ALL.into_iter().filter(|verdict| {
        fip_watchdog::policy::Policy::with_defaults(std::net::Ipv4Addr::new(192, 0, 2, 1), "eth0").remedies.contains_key(verdict)
    });
    let acts: Vec<_> = acts.collect();
    for_every_combination(|facts, _| {
        if let Judgement::Is(verdict) = judge(facts)
            && acts.contains(&verdict)
            && verdict != Verdict::NoQuorum
        {
            assert!(matches!(facts.role, Role::Leads | Role::Follows), "{verdict} without a proof: {facts:#?}");
        }
    });
}

#[test]
fn every_verdict_is_reached_by_some_combination() {
    let mut reached = std::collections::BTreeSet::new();
    for_every_combination(|facts, _| {
        reached.insert(judge(facts).verdict());
    });
    assert_eq!(reached.into_iter().collect::<Vec<_>>(), {
        let mut all = Verdict::ALL.to_vec();
        all.sort();
        all
    });
}
