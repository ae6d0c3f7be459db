//! A machine whose ages end at the horizon decides as one whose ages do not.

use fip_model::node::{Alias, Manifest, Place, Round, Said, Sense};
use fip_model::scale::{HORIZON, NOW, TICK, Ticks, policy, ticks};
use fip_model::sense::{Asked, EtcdSeen, ProcessSeen, Snapshot};
use fip_watchdog::decision::machine::Machine;
use fip_watchdog::decision::observation::CyclePhase;
use fip_watchdog::decision::step::StepOutcome;

/// Numbers that look random and are the same every time (Knuth's MMIX generator).
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }

    fn pick<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[usize::try_from(self.below(choices.len() as u64)).expect("an index")]
    }

    /// Below the horizon: see the one exception that `Machine::age` names.
    fn age(&mut self) -> Ticks {
        Ticks::try_from(self.below(u64::from(HORIZON))).expect("an age")
    }

    fn snapshot(&mut self) -> Snapshot {
        let asked = self.pick(&[Asked::No, Asked::Confirmed(0), Asked::Confirmed(0), Asked::Denied]);
        Snapshot {
            etcd: EtcdSeen::Answered(self.pick(&[Said::Itself, Said::Itself, Said::Other, Said::Nobody]), asked),
            beat: Some((self.pick(&[Round::Kept, Round::Removed, Round::Failed]), self.age())),
            following: HORIZON,
            process: ProcessSeen::Present { idle: self.age(), seen: HORIZON, twice: false },
            alias: self.pick(&[Alias::Absent, Alias::Leased { left: 2, proof: 0 }, Alias::Forever]),
            link: true,
            manifest: Manifest { place: self.pick(&[Place::Home, Place::Home, Place::Gone]), shadowed: false, immovable: false },
            link_new: false,
            kubelet: self.pick(&[true, true, true, false]),
            claimed: self.pick(&[false, false, true]),
            cycle: self.pick(&[None, None, None, Some(CyclePhase::Out)]),
            in_flight: (None, false),
            paused: false,
            blind: self.pick(&[None, None, None, None, Some(Sense::Etcd), Some(Sense::Alias)]),
            strained: self.pick(&[false, false, false, true]),
            age: 0,
            answered: 0,
        }
    }
}

#[test]
fn ages_beyond_the_horizon_change_no_decision() {
    let policy = policy();
    let mut numbers = Numbers(1);
    let mut steps = 0;
    for _ in 0..100 {
        let (mut cut, mut whole) = (Machine::new(NOW, &[]), Machine::new(NOW, &[]));
        let mut snapshot = numbers.snapshot();
        for tick in 0..100 {
            // The same for a while: without it nothing ever holds long enough to act on.
            if numbers.below(12) == 0 {
                snapshot = numbers.snapshot();
            }
            let observation = snapshot.observation(None);
            let (left, right) = (cut.step(&observation, &policy, NOW), whole.step(&observation, &policy, NOW));
            assert_eq!((left.verdict, &left.start), (right.verdict, &right.start), "tick {tick}: {snapshot:?}");
            assert_eq!(left.etcd_depth, right.etcd_depth, "tick {tick}: {snapshot:?}");
            for step in left.start {
                steps += 1;
                for machine in [&mut cut, &mut whole] {
                    machine.on_step_started(step, NOW);
                    machine.on_step_finished(step, &StepOutcome::Succeeded(String::new()), NOW);
                }
            }
            cut.age(TICK, ticks(HORIZON), &policy.limits, NOW);
            whole.age(TICK, NOW.since_origin(), &policy.limits, NOW);
        }
    }
    assert!(steps > 500, "only {steps} steps: the histories are too wild to mean anything");
}
