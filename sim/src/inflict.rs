//! Faults begin and end.

use std::sync::Arc;

use crate::fault::{Fault, MidStep, PolicyKind};
use crate::sim::{Act, Event, Freeze, Sim};
use crate::{Ms, NODES};

/// systemd replaces a daemon that has not fed it for this long (`WatchdogSec`).
const WATCHDOG_SEC: Ms = 10_000;

/// systemd starts a daemon again after this (`RestartSec`), and the exec takes a moment.
const RESTART_SEC: (Ms, Ms) = (1_000, 1_300);

/// A standstill from which the daemon must void all ages.
const NOTICED: Ms = 5_000;

const fn count(counter: &mut u8, begins: bool) {
    *counter = if begins { counter.saturating_add(1) } else { counter.saturating_sub(1) };
}

impl Sim {
    /// A fault begins.
    pub fn inflict(&mut self, index: usize) {
        let planned = self.plan[index];
        self.say(Some(planned.node), || format!("FAULT {}", planned.fault));
        if planned.fault.is_state() {
            self.after(planned.lasts, Event::Heal { index });
        }
        self.switch(index, true);
        self.strike(index);
        self.after_a_change();
    }

    /// A fault ends.
    pub fn heal(&mut self, index: usize) {
        let planned = self.plan[index];
        self.say(Some(planned.node), || format!("HEALED {}", planned.fault));
        self.switch(index, false);
        self.after_a_change();
    }

    fn after_a_change(&mut self) {
        self.etcd_reassess();
        self.client_looks();
    }

    /// States: on and off.
    fn switch(&mut self, index: usize, on: bool) {
        let planned = self.plan[index];
        let at = planned.node;
        let (member, node) = (&mut self.etcd.members[at], &mut self.nodes[at]);
        match planned.fault {
            Fault::EtcdStopped => {
                count(&mut member.stopped, on);
                if member.stopped == 0 {
                    self.etcd_restarted(at);
                }
            }
            Fault::EtcdHangs => count(&mut member.hung, on),
            Fault::EtcdTls => count(&mut member.tls, on),
            Fault::EtcdSlow => count(&mut member.slow, on),
            Fault::CutOneWay { from } => count(&mut self.cuts[from][at], on),
            Fault::CutFrom { peer } => {
                count(&mut self.cuts[peer][at], on);
                count(&mut self.cuts[at][peer], on);
            }
            Fault::CutOff => self.cut_off(at, on),
            Fault::AllCut => (0..NODES).for_each(|each| self.cut_off(each, on)),
            Fault::KubeletDown => count(&mut node.kubelet.down, on),
            Fault::KubeletNotReady => count(&mut node.kubelet.not_ready, on),
            Fault::KubeletBlind => count(&mut node.kubelet.blind, on),
            Fault::LoopUnkillable => count(&mut node.kubelet.unkillable, on),
            Fault::LinkDown => {
                count(&mut node.link_down, on);
                self.wake(at);
            }
            Fault::SenseLost { sense } => count(&mut node.blind[sense % 5], on),
            Fault::DiskReadOnly => count(&mut node.daemon.read_only, on),
            Fault::LoopStopped => self.loop_stopped(at, on),
            Fault::ChildHangs => self.child_hangs(at, on),
            Fault::WatchdogStopped => self.daemon_stopped(at, on, true),
            Fault::LoopAndWatchdogFrozen => {
                self.loop_stopped(at, on);
                self.daemon_stopped(at, on, false);
            }
            Fault::Stunned | Fault::Suspended => self.stand_still(index, on),
            Fault::MidStep { .. } if !on => self.stand_still(index, false),
            Fault::ManifestTakenOut => self.operator_moves_manifest(at, on),
            Fault::OperatorPause => {
                let wall = u64::try_from(self.clocks(at).wall.as_millis()).unwrap_or(0);
                self.nodes[at].daemon.paused_until = on.then_some(wall + planned.lasts);
            }
            Fault::LeaderMoves
            | Fault::LoopPipeFull
            | Fault::LogReaderDead
            | Fault::LoopKilled
            | Fault::WatchdogKilled
            | Fault::WatchdogRestarted
            | Fault::MidStep { .. }
            | Fault::WallSteps { .. }
            | Fault::WallJumps { .. }
            | Fault::FipDeleted
            | Fault::ManifestEdited
            | Fault::Policy(_) => {}
        }
        if !on && matches!(planned.fault, Fault::KubeletDown | Fault::KubeletNotReady) {
            self.kubelet_syncs(at);
        }
    }

    fn cut_off(&mut self, at: usize, on: bool) {
        for peer in (0..NODES).filter(|peer| *peer != at) {
            count(&mut self.cuts[peer][at], on);
            count(&mut self.cuts[at][peer], on);
        }
        count(&mut self.client_cuts[at], on);
    }

    /// What happens once.
    fn strike(&mut self, index: usize) {
        let planned = self.plan[index];
        let at = planned.node;
        match planned.fault {
            Fault::LeaderMoves => self.etcd_moves_to(at),
            Fault::LoopPipeFull => self.loop_pipe_fills(at),
            Fault::LogReaderDead => self.nodes[at].pod.log_is_read = false,
            Fault::LoopKilled if self.nodes[at].kubelet.unkillable == 0 => self.loop_ends(at),
            Fault::WatchdogKilled => self.daemon_dies(at),
            Fault::MidStep { after, .. } => self.nodes[at].armed = Some((after, index)),
            Fault::WatchdogRestarted if self.nodes[at].daemon.running => self.acts.push(Act::Stop(at)),
            Fault::WallSteps { seconds } => self.nodes[at].wall_offset += seconds * 1_000,
            Fault::WallJumps { hours } => self.nodes[at].wall_offset += hours * 3_600_000,
            Fault::FipDeleted if self.nodes[at].address.is_some() => self.set_address(at, None),
            Fault::ManifestEdited => {
                let manifest = &mut self.nodes[at].manifest;
                manifest.newest += 1;
                // Whatever an operator keeps elsewhere is the old one from here on.
                manifest.operator_has = None;
                manifest.in_place = Some(manifest.newest);
                self.manifest_changed(at);
            }
            Fault::Policy(kind) => self.policy_edited(at, kind),
            // States, and what strikes nobody.
            Fault::EtcdStopped
            | Fault::EtcdHangs
            | Fault::EtcdTls
            | Fault::EtcdSlow
            | Fault::CutOneWay { .. }
            | Fault::CutFrom { .. }
            | Fault::CutOff
            | Fault::AllCut
            | Fault::LoopStopped
            | Fault::ChildHangs
            | Fault::LoopKilled
            | Fault::KubeletDown
            | Fault::KubeletNotReady
            | Fault::KubeletBlind
            | Fault::LoopUnkillable
            | Fault::WatchdogRestarted
            | Fault::WatchdogStopped
            | Fault::LoopAndWatchdogFrozen
            | Fault::Stunned
            | Fault::Suspended
            | Fault::FipDeleted
            | Fault::LinkDown
            | Fault::SenseLost { .. }
            | Fault::ManifestTakenOut
            | Fault::DiskReadOnly
            | Fault::OperatorPause => {}
        }
    }

    /// The policy's file has new content.
    pub fn policy_edited(&mut self, at: usize, kind: PolicyKind) {
        let daemon = &mut self.nodes[at].daemon;
        daemon.edited = Some(kind);
        // A broken edit is mended before anybody restarts the daemon.
        if kind != PolicyKind::Broken {
            daemon.policy = Some(kind);
        }
        self.wake(at);
    }

    fn loop_stopped(&mut self, at: usize, on: bool) {
        self.nodes[at].pod.stopped = on;
        if !on {
            self.loop_resumes(at);
        }
    }

    fn child_hangs(&mut self, at: usize, on: bool) {
        self.nodes[at].pod.child_hangs = on;
        if !on {
            self.loop_resumes(at);
        }
    }

    fn operator_moves_manifest(&mut self, at: usize, out: bool) {
        let manifest = &mut self.nodes[at].manifest;
        if out {
            // A second operator finds nothing to take.
            manifest.operator_has = manifest.in_place.take().or(manifest.operator_has);
        } else if let Some(version) = manifest.operator_has.take()
            && manifest.in_place.is_none()
        {
            manifest.in_place = Some(version);
        }
        self.manifest_changed(at);
    }

    /// A step makes a request to the kernel; whether something strikes right before it.
    pub fn struck_mid_step(&mut self, at: usize) -> bool {
        let Some((after, index)) = self.nodes[at].armed else { return false };
        if after > 0 {
            self.nodes[at].armed = Some((after - 1, index));
            return false;
        }
        self.nodes[at].armed = None;
        let Fault::MidStep { strikes, .. } = self.plan[index].fault else { return false };
        self.say(Some(at), || format!("{strikes:?} in the middle of a step"));
        if strikes == MidStep::Kill {
            self.daemon_dies(at);
        } else {
            self.stand_still(index, true);
            self.after(self.plan[index].lasts, Event::Heal { index });
            self.after_a_change();
        }
        true
    }

    fn stand_still(&mut self, index: usize, on: bool) {
        let at = self.plan[index].node;
        let suspended = matches!(self.plan[index].fault, Fault::Suspended | Fault::MidStep { strikes: MidStep::Suspend, .. });
        match self.nodes[at].frozen {
            None if on => {
                self.nodes[at].frozen =
                    Some(Freeze { since: self.now, suspended, until: self.now + self.plan[index].lasts, index })
            }
            Some(freeze) if !on && freeze.index == index => {
                let stood = self.now - freeze.since;
                let node = &mut self.nodes[at];
                node.frozen = None;
                node.thawed_at = self.now;
                node.absent += stood;
                node.standstill += if suspended { stood } else { 0 };
                if stood >= NOTICED {
                    self.checks.thawed(at, self.now);
                }
                self.poll_again(at);
            }
            None | Some(_) => {}
        }
    }

    fn poll_again(&mut self, at: usize) {
        self.nodes[at].wakers.drain(..).for_each(std::task::Waker::wake);
    }

    fn daemon_stopped(&mut self, at: usize, on: bool, systemd_sees: bool) {
        let daemon = &mut self.nodes[at].daemon;
        if on && daemon.running {
            (daemon.stopped, daemon.stopped_at) = (true, self.now);
            let life = daemon.life;
            if systemd_sees {
                self.after(WATCHDOG_SEC, Event::DaemonStarved { node: at, life });
            }
        } else if !on && daemon.stopped {
            daemon.stopped = false;
            if self.now - daemon.stopped_at >= NOTICED {
                self.checks.thawed(at, self.now);
            }
            self.poll_again(at);
        }
    }

    /// systemd misses its feed.
    pub fn daemon_starved(&mut self, node: usize, life: u64) {
        if self.nodes[node].daemon.life == life && self.nodes[node].daemon.stopped {
            self.say(Some(node), || "systemd kills the watchdog that does not feed it".to_owned());
            self.daemon_dies(node);
        }
    }

    /// The daemon is gone, and systemd starts another.
    fn daemon_dies(&mut self, at: usize) {
        if self.nodes[at].daemon.running {
            self.acts.push(Act::Kill(at));
            self.daemon_ended(at);
        }
    }

    /// The daemon has ended, by whatever way.
    pub fn daemon_ended(&mut self, at: usize) {
        let daemon = &mut self.nodes[at].daemon;
        (daemon.running, daemon.stopped) = (false, false);
        daemon.life += 1;
        // A waker of the old life must not be woken in place of the new one's.
        daemon.changed = Arc::default();
        let life = daemon.life;
        self.checks.daemon_ended(at);
        self.poll_again(at);
        let wait = self.rng.between(RESTART_SEC.0, RESTART_SEC.1);
        self.after(wait, Event::DaemonStarts { node: at, life });
    }

    /// systemd starts it.
    pub fn daemon_starts(&mut self, node: usize, life: u64) {
        let daemon = &mut self.nodes[node].daemon;
        if daemon.life == life && !daemon.running {
            daemon.running = true;
            self.acts.push(Act::Start(node));
            self.checks.thawed(node, self.now);
        }
    }
}
