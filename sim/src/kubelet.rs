//! The kubelet and its static pod, by the rules that were measured: the whole grace period, the record that outlives
//! the container, crash back-off, a list every 20 s, and what makes it do nothing at all.

use crate::Ms;
use crate::sim::{Event, Sim};

/// The loop is PID 1 and ignores SIGTERM.
pub const GRACE: Ms = 30_000;

/// Its full list of the directory.
const LIST_EVERY: Ms = 20_000;

/// Running for longer than this forgives earlier crashes.
const FORGIVES_AFTER: Ms = 600_000;

/// The kubelet.
#[derive(Debug, Default)]
pub struct Kubelet {
    /// Down.
    pub down: u8,
    /// It has not reached its API server since it started: it removes nothing.
    pub not_ready: u8,
    /// Its watch is dead: the list alone works.
    pub blind: u8,
    /// No process of the pod dies.
    pub unkillable: u8,
    /// Crashes in a row.
    crashes: u32,
    started_at: Ms,
    /// The exited container's record is still there.
    record: bool,
    /// Voids a start that was queued before.
    attempt: u64,
    /// A start is queued.
    starting: bool,
}

impl Sim {
    /// The pod runs already.
    pub fn kubelet_begins(&mut self, node: usize) {
        self.nodes[node].manifest.in_place = Some(1);
        self.nodes[node].manifest.newest = 1;
        let first = self.rng.between(100, 5_000);
        self.loop_begins(node, 1, first);
        if self.etcd.leader == Some(node) {
            self.nodes[node].pod.fip = true;
            self.client.neighbour = Some(node);
            self.set_address(node, Some(None));
        }
        let first = self.rng.between(1, LIST_EVERY);
        self.after(first, Event::KubeletLists { node });
    }

    /// The directory changed.
    pub fn manifest_changed(&mut self, node: usize) {
        self.wake(node);
        if self.nodes[node].kubelet.blind == 0 {
            self.kubelet_syncs(node);
        }
    }

    /// Its periodic list.
    pub fn kubelet_lists(&mut self, node: usize) {
        self.kubelet_syncs(node);
        self.after(LIST_EVERY, Event::KubeletLists { node });
    }

    /// Makes the pod what the directory says.
    pub fn kubelet_syncs(&mut self, node: usize) {
        let wanted = self.nodes[node].manifest.in_place;
        let (pod, kubelet) = (&self.nodes[node].pod, &self.nodes[node].kubelet);
        if kubelet.down > 0 {
            return;
        }
        if pod.alive {
            if wanted != Some(pod.version) && !pod.dying && kubelet.not_ready == 0 {
                let container = pod.container;
                self.nodes[node].pod.dying = true;
                self.after(GRACE, Event::PodDies { node, container });
            }
        } else if wanted.is_some() && !kubelet.starting && !kubelet.record {
            self.kubelet_starts_pod(node, false);
        }
    }

    fn kubelet_starts_pod(&mut self, node: usize, crashed: bool) {
        let kubelet = &mut self.nodes[node].kubelet;
        kubelet.attempt += 1;
        kubelet.starting = true;
        let attempt = kubelet.attempt;
        let back_off = match (crashed, kubelet.crashes) {
            (false, _) | (true, 0 | 1) => 0,
            (true, more) => (10_000 << (more - 2).min(5)).min(300_000),
        };
        let wait = back_off + self.rng.between(300, 1_000);
        self.after(wait, Event::PodStarts { node, attempt });
    }

    /// A container starts, if it is still wanted.
    pub fn pod_starts(&mut self, node: usize, attempt: u64) {
        let wanted = self.nodes[node].manifest.in_place;
        let kubelet = &mut self.nodes[node].kubelet;
        if kubelet.attempt != attempt {
            return;
        }
        kubelet.starting = false;
        if kubelet.down > 0 {
            return;
        }
        kubelet.started_at = self.now;
        let Some(version) = wanted else { return };
        self.say(Some(node), || "the kubelet starts a fresh loop".to_owned());
        self.loop_begins(node, version, 5_000);
    }

    /// The grace period is over.
    pub fn pod_dies(&mut self, node: usize, container: u64) {
        let pod = &self.nodes[node].pod;
        if pod.container != container || !pod.alive {
            return;
        }
        if self.nodes[node].kubelet.unkillable > 0 {
            self.after(5_000, Event::PodDies { node, container });
            return;
        }
        self.loop_ends(node);
    }

    /// The loop's process ends, by whatever hand.
    pub fn loop_ends(&mut self, node: usize) {
        let now = self.now;
        let pod = &mut self.nodes[node].pod;
        if !pod.alive {
            return;
        }
        (pod.alive, pod.dead_since) = (false, Some(now));
        let container = pod.container;
        self.nodes[node].kubelet.record = true;
        self.say(Some(node), || "the loop's process ends".to_owned());
        let wait = self.rng.between(300, 900);
        self.after(wait, Event::RecordGone { node, container });
    }

    /// The kubelet notices the end of a container.
    pub fn record_gone(&mut self, node: usize, container: u64) {
        let (now, wanted) = (self.now, self.nodes[node].manifest.in_place);
        let pod = &self.nodes[node].pod;
        if pod.container != container {
            return;
        }
        if self.nodes[node].kubelet.down > 0 {
            self.after(1_000, Event::RecordGone { node, container });
            return;
        }
        // Ended because its manifest is out, or another one is in: no crash.
        let crashed = !pod.dying && wanted == Some(pod.version);
        let kubelet = &mut self.nodes[node].kubelet;
        kubelet.record = false;
        if now.saturating_sub(kubelet.started_at) > FORGIVES_AFTER {
            kubelet.crashes = 0;
        }
        kubelet.crashes = if crashed { kubelet.crashes + 1 } else { kubelet.crashes };
        if wanted.is_some() {
            self.kubelet_starts_pod(node, crashed);
        }
    }
}
