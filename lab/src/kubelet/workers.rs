//! All pod workers: compares what the source wants with what is there, and keeps namesakes apart.
//! Pure like [`super::pod`]. Invariant: two pods of one name never run at the same time, whatever the order of events.

use std::collections::BTreeMap;

use super::manifest::Pod;
use super::phase::{Conditions, Effect, Phase};
use super::pod::Worker;
use super::timing::{Stamp, Timing};

/// A pod's UID.
pub type Uid = String;

/// The workers by UID.
#[derive(Debug)]
pub struct Workers {
    workers: BTreeMap<Uid, Worker>,
    timing: Timing,
}

impl Workers {
    /// No pods yet.
    #[must_use]
    pub const fn new(timing: Timing) -> Self {
        Self { workers: BTreeMap::new(), timing }
    }

    /// A container of `pod` was found when the kubelet started.
    pub fn adopt(&mut self, pod: Pod, attempt: u32, now: Stamp) {
        let worker = Worker::adopted(pod, attempt, now, &self.timing);
        self.workers.insert(worker.pod.uid.clone(), worker);
    }

    /// The source wants exactly `pods`.
    pub fn set_desired(&mut self, pods: &[Pod], now: Stamp, conditions: Conditions) -> Vec<(Uid, Effect)> {
        let mut effects = Vec::new();
        let gone: Vec<Uid> = self
            .workers
            .iter()
            .filter(|(uid, worker)| worker.wanted && !pods.iter().any(|pod| &pod.uid == *uid))
            .map(|(uid, _)| uid.clone())
            .collect();
        for uid in gone {
            if let Some(worker) = self.workers.get_mut(&uid) {
                effects.push((
                    uid.clone(),
                    Effect::Say(format!("\"SyncLoop REMOVE\" source=\"file\" pods=[\"{}\"]", worker.pod.key())),
                ));
                effects.extend(worker.unwant(now, conditions, &self.timing).into_iter().map(|effect| (uid.clone(), effect)));
            }
        }
        for pod in pods {
            if self.workers.get(&pod.uid).is_some_and(|worker| worker.wanted) {
                continue;
            }
            effects.push((pod.uid.clone(), Effect::Say(format!("\"SyncLoop ADD\" source=\"file\" pods=[\"{}\"]", pod.key()))));
            effects.extend(self.displace_namesakes(pod, now, conditions));
            let held = self.name_is_taken(pod);
            match self.workers.get_mut(&pod.uid) {
                Some(worker) => worker.want(pod, now, &self.timing),
                None => {
                    self.workers.insert(pod.uid.clone(), Worker::new(pod.clone(), held, now, &self.timing));
                }
            }
        }
        effects
    }

    /// A running namesake with other content, left alone by a removal that was skipped, ends now all the same:
    /// measured on a kubelet whose sources were not ready, where after a change of content nothing ran any more.
    fn displace_namesakes(&mut self, pod: &Pod, now: Stamp, conditions: Conditions) -> Vec<(Uid, Effect)> {
        let mut effects = Vec::new();
        for (uid, worker) in &mut self.workers {
            if *uid != pod.uid && worker.pod.key() == pod.key() && worker.phase == Phase::Running && !worker.wanted {
                effects.extend(worker.terminate(now, conditions, &self.timing).into_iter().map(|effect| (uid.clone(), effect)));
            }
        }
        effects
    }

    fn name_is_taken(&self, pod: &Pod) -> bool {
        self.workers.values().any(|other| other.pod.uid != pod.uid && other.pod.key() == pod.key() && other.occupies_name())
    }

    /// The driver started the container of `uid`, or could not.
    pub fn started(&mut self, uid: &str, now: Stamp, ok: bool) {
        if let Some(worker) = self.workers.get_mut(uid) {
            worker.started(now, ok, &self.timing);
        }
    }

    /// The container of `uid` died.
    pub fn died(&mut self, uid: &str, now: Stamp) {
        if let Some(worker) = self.workers.get_mut(uid) {
            worker.died(now, &self.timing);
        }
    }

    /// Housekeeping.
    pub fn tick(&mut self, now: Stamp, conditions: Conditions) -> Vec<(Uid, Effect)> {
        let mut effects = Vec::new();
        for (uid, worker) in &mut self.workers {
            effects.extend(worker.tick(now, conditions, &self.timing).into_iter().map(|effect| (uid.clone(), effect)));
        }
        let timing = self.timing;
        self.workers.retain(|_, worker| !worker.is_forgettable(now, &timing));
        effects
    }

    /// Everything that is due by `now`.
    pub fn poll(&mut self, now: Stamp, conditions: Conditions) -> Vec<(Uid, Effect)> {
        if !conditions.sources_not_ready {
            self.release_held(now);
        }
        let mut effects = Vec::new();
        let uids: Vec<Uid> = self.workers.keys().cloned().collect();
        for uid in uids {
            let taken = self.workers.get(&uid).is_some_and(|worker| self.name_is_taken(&worker.pod));
            if let Some(worker) = self.workers.get_mut(&uid) {
                let due = worker.poll(now, conditions, &self.timing);
                // A restart that lost the race for its name waits for the other's end.
                let due = due.into_iter().filter(|effect| !(taken && matches!(effect, Effect::Start { .. })));
                effects.extend(due.map(|effect| (uid.clone(), effect)));
            }
        }
        effects
    }

    fn release_held(&mut self, now: Stamp) {
        let free: Vec<Uid> = self
            .workers
            .values()
            .filter(|worker| worker.phase == Phase::Held && !self.name_is_taken(&worker.pod))
            .map(|worker| worker.pod.uid.clone())
            .collect();
        for uid in free {
            if let Some(worker) = self.workers.get_mut(&uid) {
                worker.release(now, &self.timing);
            }
        }
    }

    /// The pod of `uid`.
    #[must_use]
    pub fn pod(&self, uid: &str) -> Option<&Pod> {
        self.workers.get(uid).map(|worker| &worker.pod)
    }

    /// Whether the container of `uid` was asked to end.
    #[must_use]
    pub fn is_terminating(&self, uid: &str) -> bool {
        self.workers.get(uid).is_some_and(|worker| matches!(worker.phase, Phase::Terminating { .. }))
    }

    /// When [`Workers::poll`] has something to do next.
    #[must_use]
    pub fn next_deadline(&self, conditions: Conditions) -> Option<Stamp> {
        self.workers.values().filter_map(|worker| worker.next_deadline(conditions)).min()
    }
}

#[cfg(test)]
#[path = "workers_tests.rs"]
mod tests;
