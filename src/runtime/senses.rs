//! All senses of one round, read side by side, each with its own deadline.

use std::sync::Arc;
use std::time::Duration;

use super::clock;
use super::offload::{Offloaded, into_reading};
use crate::decision::api::ApiView;
use crate::decision::certificate::{Expired, is_suspected};
use crate::decision::observation::{
    AliasView, ConflictView, EtcdView, HeartbeatView, HoldOff, KubeletView, ManifestView, ProcessView, Reading,
};
use crate::decision::plan::EtcdDepth;
use crate::policy::Policy;
use crate::sensor::alias::{AddressTable as _, AliasTable};
use crate::sensor::api::ApiSensor;
use crate::sensor::boot::BootSensor;
use crate::sensor::certificates::CertificateSensor;
use crate::sensor::conflict::ConflictSensor;
use crate::sensor::etcd::{EtcdProver, EtcdSensor, MemberList};
use crate::sensor::heartbeat::HeartbeatSensor;
use crate::sensor::kubelet::KubeletSensor;
use crate::sensor::manifest::ManifestSensor;
use crate::sensor::pressure;
use crate::sensor::process::ProcessSensor;

/// A local file that takes longer than this is on a disk that hangs; the loop must go on without it.
const FILE_DEADLINE: Duration = Duration::from_secs(1);

/// What one round read.
#[derive(Debug)]
pub struct Readings {
    /// The local etcd member.
    pub etcd: Reading<EtcdView>,
    /// The loop's log.
    pub heartbeat: Reading<HeartbeatView>,
    /// The loop's process.
    pub process: Reading<ProcessView>,
    /// The interface, and the FIP on it.
    pub alias: Reading<AliasView>,
    /// The manifest directory.
    pub manifest: Reading<ManifestView>,
    /// The kubelet.
    pub kubelet: Reading<KubeletView>,
    /// Who else claims the FIP.
    pub conflict: Reading<ConflictView>,
    /// What answers behind the FIP.
    pub api: ApiView,
    /// The certificate that is over, when a query failed over TLS and one is.
    pub expired: Option<Expired>,
    /// Percentage of time in which some task waits for a CPU, where the kernel says.
    pub cpu_pressure: Option<u32>,
    /// What is waited for after a boot.
    pub hold_off: Option<HoldOff>,
}

/// The loop's two heartbeats: the process is found by what the log's directory is called.
#[derive(Debug)]
struct LoopSenses {
    heartbeat: HeartbeatSensor,
    process: ProcessSensor,
}

/// Every sense, with what it keeps between two rounds.
#[derive(Debug)]
pub struct Senses {
    etcd: EtcdSensor,
    alias: Arc<AliasTable>,
    conflict: ConflictSensor,
    api: ApiSensor,
    certificates: CertificateSensor,
    watched_loop: Offloaded<LoopSenses, (Reading<HeartbeatView>, Reading<ProcessView>)>,
    manifest: Offloaded<ManifestSensor, Reading<ManifestView>>,
    kubelet: Offloaded<KubeletSensor, Reading<KubeletView>>,
    boot: BootSensor,
}

impl Senses {
    /// The senses that a policy asks for.
    #[must_use]
    pub fn new(policy: &Policy, alias: Arc<AliasTable>) -> Self {
        Self {
            etcd: EtcdSensor::for_fip(&policy.etcd, policy.fip.address),
            alias,
            conflict: ConflictSensor::default(),
            api: ApiSensor::default(),
            certificates: CertificateSensor::default(),
            watched_loop: watched_loop(policy),
            manifest: manifest(policy),
            kubelet: kubelet(policy),
            boot: BootSensor::default(),
        }
    }

    /// Takes over a new policy. A sense whose part of it is unchanged goes on with what it knows.
    pub fn adopt(&mut self, old: &Policy, new: &Policy) {
        if old.etcd != new.etcd || old.fip.address != new.fip.address {
            self.etcd = EtcdSensor::for_fip(&new.etcd, new.fip.address);
        }
        if old.watched_loop != new.watched_loop {
            self.watched_loop = watched_loop(new);
            self.manifest = manifest(new);
            self.kubelet = kubelet(new);
        }
    }

    /// Reads them all. Takes at most the longest of their deadlines.
    pub async fn read(&mut self, policy: &Policy, depth: EtcdDepth) -> Readings {
        let (etcd, alias, watched_loop, manifest, kubelet, hold_off) = tokio::join!(
            self.etcd.read(depth),
            self.alias.read(&policy.fip.interface, policy.fip.address),
            self.watched_loop.read(FILE_DEADLINE, |senses| {
                let heartbeat = senses.heartbeat.read(clock::now());
                let uid = senses.heartbeat.pod_uid();
                let process = senses.process.read(clock::now(), uid.as_deref());
                (heartbeat, process)
            }),
            self.manifest.read(FILE_DEADLINE, |sensor| sensor.read(clock::now())),
            self.kubelet.read(FILE_DEADLINE, |sensor| sensor.read(clock::now())),
            self.boot.read(&policy.boot, clock::now(), clock::boottime()),
        );
        let (heartbeat, process) =
            watched_loop.unwrap_or_else(|reason| (Reading::Unknown(reason.clone()), Reading::Unknown(reason)));
        let conflict = self.conflict.read(&policy.fip.interface, policy.fip.address, &alias, clock::now());
        let api = self.api.read(&policy.api, policy.fip.address, &alias, clock::now());
        let expired = self.certificates.read(policy, is_suspected(&etcd, &heartbeat), clock::now());
        let (manifest, kubelet) = (into_reading(manifest), into_reading(kubelet));
        let cpu_pressure = pressure::cpu();
        Readings { etcd, heartbeat, process, alias, manifest, kubelet, conflict, api, expired, cpu_pressure, hold_off }
    }

    /// etcd's member list, as it was read last.
    #[must_use]
    pub fn member_list(&self) -> Option<Arc<MemberList>> {
        self.etcd.member_list()
    }

    /// A prover for the alias steps.
    #[must_use]
    pub fn prover(&self) -> EtcdProver {
        self.etcd.prover()
    }
}

fn watched_loop(policy: &Policy) -> Offloaded<LoopSenses, (Reading<HeartbeatView>, Reading<ProcessView>)> {
    let senses = LoopSenses { heartbeat: HeartbeatSensor::new(&policy.watched_loop), process: ProcessSensor::new() };
    Offloaded::new("the loop's log and process", senses)
}

fn manifest(policy: &Policy) -> Offloaded<ManifestSensor, Reading<ManifestView>> {
    Offloaded::new("the manifest directory", ManifestSensor::new(&policy.watched_loop))
}

fn kubelet(policy: &Policy) -> Offloaded<KubeletSensor, Reading<KubeletView>> {
    Offloaded::new("the kubelet's cgroup", KubeletSensor::new(&policy.watched_loop))
}
