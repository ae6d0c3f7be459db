//! The numbered rules of a kubelet that need no process: the whole state machine over a simulated clock.

use std::path::Path;
use std::time::Duration;

use super::super::manifest;
use super::*;

const S: u64 = 1_000;

/// A kubelet of workers alone: time is stepped, started containers live until they are killed or told to die.
struct Sim {
    workers: Workers,
    conditions: Conditions,
    now_ms: u64,
    stubborn: bool,
    running: Vec<Uid>,
    log: Vec<(u64, Uid, Effect)>,
}

impl Sim {
    fn new() -> Self {
        let timing = Timing::new(Duration::from_secs(2), Duration::from_secs(20), 1.0);
        Self {
            workers: Workers::new(timing),
            conditions: Conditions::default(),
            now_ms: 0,
            stubborn: true,
            running: vec![],
            log: vec![],
        }
    }

    fn now(&self) -> Stamp {
        Duration::from_millis(self.now_ms)
    }

    fn desire(&mut self, pods: &[Pod]) {
        let effects = self.workers.set_desired(pods, self.now(), self.conditions);
        self.apply(effects);
    }

    fn apply(&mut self, effects: Vec<(Uid, Effect)>) {
        for (uid, effect) in effects {
            match &effect {
                Effect::Start { .. } => {
                    assert!(!self.running.contains(&uid), "two containers of {uid} at {} ms", self.now_ms);
                    self.running.push(uid.clone());
                    self.workers.started(&uid, self.now(), true);
                }
                Effect::Kill => self.die(&uid),
                Effect::Term if !self.stubborn => self.die(&uid),
                Effect::Term | Effect::RemoveRecord | Effect::RemoveLogDir | Effect::Say(_) => {}
            }
            self.log.push((self.now_ms, uid, effect));
        }
    }

    fn die(&mut self, uid: &str) {
        self.running.retain(|running| running != uid);
        self.workers.died(uid, self.now());
    }

    /// Steps of 10 ms; housekeeping at whole multiples of 2 s.
    fn run(&mut self, ms: u64) {
        let end = self.now_ms + ms;
        while self.now_ms < end {
            self.now_ms += 10;
            if self.now_ms.is_multiple_of(2 * S) {
                let effects = self.workers.tick(self.now(), self.conditions);
                self.apply(effects);
            }
            let effects = self.workers.poll(self.now(), self.conditions);
            self.apply(effects);
        }
    }

    fn times(&self, wanted: &Effect) -> Vec<u64> {
        self.log.iter().filter(|(_, _, effect)| effect == wanted).map(|(at, _, _)| *at).collect()
    }

    fn starts(&self) -> Vec<(u64, u32)> {
        let start = |effect: &Effect| if let Effect::Start { attempt } = effect { Some(*attempt) } else { None };
        self.log.iter().filter_map(|(at, _, effect)| start(effect).map(|attempt| (*at, attempt))).collect()
    }

    fn said(&self, text: &str) -> bool {
        self.log.iter().any(|(_, _, effect)| matches!(effect, Effect::Say(sentence) if sentence.contains(text)))
    }
}

fn pod_of(note: &str) -> Pod {
    let text = format!(
        "kind: Pod\nmetadata: {{name: p, annotations: {{note: '{note}'}}}}\nspec: {{containers: [{{name: c, command: ['true']}}]}}"
    );
    manifest::parse(&text, Path::new("/m/p.yaml"), "n").expect("valid")
}

/// A pod that has run for a while, at 5.0 s.
fn running() -> (Sim, Pod) {
    let (mut sim, pod) = (Sim::new(), pod_of("a"));
    sim.desire(std::slice::from_ref(&pod));
    sim.run(5 * S);
    assert_eq!(sim.running.first(), Some(&pod.uid));
    (sim, pod)
}

#[test]
fn no_7_a_stubborn_container_uses_its_whole_grace_before_kill() {
    let (mut sim, _) = running();
    sim.desire(&[]);
    sim.run(40 * S);
    assert_eq!((sim.times(&Effect::Term), sim.times(&Effect::Kill)), (vec![5 * S], vec![35 * S]));
}

#[test]
fn no_7_a_grace_of_zero_still_leaves_two_seconds() {
    let (mut sim, mut pod) = (Sim::new(), pod_of("a"));
    pod.grace_seconds = 0;
    sim.desire(&[pod]);
    sim.run(5 * S);
    sim.desire(&[]);
    sim.run(5 * S);
    assert_eq!(sim.times(&Effect::Kill), [7 * S]);
}

#[test]
fn no_8_the_record_goes_300_to_900_ms_after_the_death() {
    let (mut sim, _) = running();
    sim.desire(&[]);
    sim.run(40 * S);
    let gone = sim.times(&Effect::RemoveRecord)[0] - 35 * S;
    assert!((300..=910).contains(&gone), "after {gone} ms");
}

#[test]
fn no_9_a_pod_that_is_back_while_it_terminates_restarts_as_attempt_0_at_a_tick_after_its_end() {
    let (mut sim, pod) = running();
    sim.desire(&[]);
    sim.run(10 * S);
    sim.desire(&[pod]);
    sim.run(30 * S);
    assert_eq!(sim.starts()[1..], [(36 * S, 0)]);
}

#[test]
fn no_10_a_pod_that_was_out_for_less_than_a_tick_restarts_as_after_a_crash_with_growing_delays() {
    let (mut sim, pod) = running();
    let mut delays = Vec::new();
    for round in 1..=4_u32 {
        sim.run(100);
        while !sim.now_ms.is_multiple_of(2 * S) {
            sim.run(10);
        }
        sim.run(100);
        sim.desire(&[]);
        sim.run(500);
        sim.desire(std::slice::from_ref(&pod));
        sim.run(30 * S + 90 * S);
        let death = *sim.times(&Effect::Kill).last().expect("killed");
        let (at, attempt) = *sim.starts().last().expect("started");
        assert_eq!(attempt, round);
        delays.push((at - death) / S);
    }
    for (delay, least) in delays.iter().zip([0, 10, 20, 40]) {
        assert!((least..least + 12).contains(delay), "{delays:?}");
    }
}

#[test]
fn no_10_a_container_killed_before_a_tick_saw_it_missing_leaves_its_record_for_long() {
    let (mut sim, pod) = running();
    sim.desire(&[]);
    sim.run(200);
    sim.die(&pod.uid);
    sim.run(10 * S);
    assert!(sim.times(&Effect::RemoveRecord).is_empty());
    sim.desire(&[pod]);
    sim.run(2 * S);
    assert_eq!(sim.starts().last().map(|(_, attempt)| *attempt), Some(1));
}

#[test]
fn no_11_a_pod_that_is_back_after_its_end_runs_within_a_second_as_attempt_0() {
    let (mut sim, pod) = running();
    sim.desire(&[]);
    sim.run(36 * S);
    sim.desire(&[pod]);
    let back = sim.now_ms;
    sim.run(2 * S);
    let (at, attempt) = sim.starts()[1];
    assert_eq!(attempt, 0);
    assert!((300..=1000).contains(&(at - back)), "after {} ms", at - back);
}

#[test]
fn out_a_tick_then_killed_and_back_three_seconds_later_takes_six_seconds_in_all() {
    let (mut sim, pod) = running();
    sim.desire(&[]);
    sim.run(2_500);
    sim.die(&pod.uid);
    sim.run(3_200);
    sim.desire(&[pod]);
    sim.run(2 * S);
    let (at, attempt) = sim.starts()[1];
    assert_eq!(attempt, 0);
    assert!(at - 5 * S < 7 * S, "took {} ms", at - 5 * S);
}

#[test]
fn no_12_changed_content_waits_for_the_old_pods_whole_grace_and_seven_seconds_more() {
    let (mut sim, _) = running();
    let new = pod_of("b");
    sim.desire(std::slice::from_ref(&new));
    sim.run(60 * S);
    assert_eq!(sim.times(&Effect::Kill), [35 * S]);
    let (at, attempt) = sim.starts()[1];
    assert_eq!((attempt, &sim.running), (0, &vec![new.uid]));
    assert!((42 * S..=50 * S).contains(&at), "at {at} ms");
}

#[test]
fn no_13_a_container_that_dies_alone_restarts_in_a_second_then_under_back_off() {
    let (mut sim, pod) = running();
    let mut delays = Vec::new();
    for attempt in 1..=4 {
        let death = sim.now_ms;
        sim.die(&pod.uid);
        sim.run(60 * S);
        let (at, started) = *sim.starts().last().expect("started");
        assert_eq!(started, attempt);
        delays.push(at - death);
    }
    assert!((200..1000).contains(&delays[0]), "{delays:?}");
    assert!(delays[1] > 10 * S && delays[2] > 20 * S && delays[3] > 40 * S, "{delays:?}");
}

#[test]
fn no_13_the_back_off_survives_a_clean_cycle() {
    let (mut sim, pod) = running();
    sim.die(&pod.uid);
    sim.run(5 * S);
    sim.desire(&[]);
    sim.run(40 * S);
    sim.desire(std::slice::from_ref(&pod));
    sim.run(5 * S);
    assert_eq!(sim.starts().last().map(|(_, attempt)| *attempt), Some(0));
    let death = sim.now_ms;
    sim.die(&pod.uid);
    sim.run(30 * S);
    let (at, attempt) = *sim.starts().last().expect("started");
    assert_eq!(attempt, 1);
    assert!(at - death > 10 * S, "after {} ms", at - death);
}

#[test]
fn no_14_a_removal_is_skipped_while_sources_are_not_ready_and_done_once_they_are() {
    let (mut sim, _) = running();
    sim.conditions.sources_not_ready = true;
    sim.desire(&[]);
    sim.run(60 * S);
    assert!(sim.said("skipping delete because sources aren't ready yet"));
    assert_eq!(sim.running.len(), 1);
    sim.conditions.sources_not_ready = false;
    sim.run(60 * S);
    assert!(sim.running.is_empty());
}

#[test]
fn no_14_a_loop_that_was_killed_while_its_manifest_was_out_runs_soon_after_it_is_back() {
    let (mut sim, pod) = running();
    sim.conditions.sources_not_ready = true;
    sim.desire(&[]);
    sim.run(3 * S);
    sim.die(&pod.uid);
    sim.run(60 * S);
    assert!(sim.times(&Effect::RemoveRecord).is_empty() && sim.running.is_empty());
    sim.desire(&[pod]);
    sim.run(S);
    assert_eq!(sim.starts().last().map(|(_, attempt)| *attempt), Some(1));
}

#[test]
fn no_14_after_a_change_of_content_nothing_runs_any_more() {
    let (mut sim, _) = running();
    sim.conditions.sources_not_ready = true;
    sim.desire(&[pod_of("b")]);
    sim.run(120 * S);
    assert!(sim.running.is_empty());
}

#[test]
fn no_15_an_orphan_is_killed_2400_ms_after_the_start_without_grace() {
    let (mut sim, pod) = (Sim::new(), pod_of("a"));
    sim.workers.adopt(pod.clone(), 3, Duration::ZERO);
    sim.running.push(pod.uid);
    sim.desire(&[]);
    sim.run(5 * S);
    assert_eq!((sim.times(&Effect::Term), sim.times(&Effect::Kill)), (vec![], vec![2_400]));
}

#[test]
fn no_15_an_adopted_container_whose_manifest_is_there_is_left_alone() {
    let (mut sim, pod) = (Sim::new(), pod_of("a"));
    sim.workers.adopt(pod.clone(), 3, Duration::ZERO);
    sim.running.push(pod.uid.clone());
    sim.desire(&[pod]);
    sim.run(60 * S);
    assert!(sim.starts().is_empty() && sim.times(&Effect::Kill).is_empty());
}

#[test]
fn no_17_an_unkillable_container_is_terminating_for_as_long_as_it_is_unkillable() {
    let (mut sim, pod) = running();
    sim.conditions.unkillable = true;
    sim.desire(&[]);
    sim.run(120 * S);
    assert!(sim.times(&Effect::Term).is_empty() && sim.times(&Effect::Kill).is_empty());
    assert!(sim.workers.is_terminating(&pod.uid) && sim.said("Kill container failed"));
    sim.conditions.unkillable = false;
    sim.run(2 * S);
    assert!(sim.running.is_empty());
}

#[test]
fn random_orders_of_events_never_run_two_containers_of_one_name() {
    let mut random = 1_u64;
    let mut next = |bound: u64| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (random >> 33) % bound
    };
    for _ in 0..40 {
        let mut sim = Sim::new();
        for _ in 0..40 {
            match next(6) {
                0 | 1 => sim.desire(&[pod_of("a")]),
                2 => sim.desire(&[pod_of("b")]),
                3 => sim.desire(&[]),
                4 => sim.conditions.sources_not_ready = next(2) == 0,
                _ => {
                    if let Some(uid) = sim.running.first().cloned() {
                        sim.die(&uid);
                    }
                }
            }
            for _ in 0..next(40) {
                sim.run(200);
                assert!(sim.running.len() <= 1, "{:?} at {}", sim.running, sim.now_ms);
            }
        }
    }
}
