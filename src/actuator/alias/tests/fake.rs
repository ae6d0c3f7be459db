//! A scripted etcd, kernel and wire.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard};

use crate::actuator::alias::*;
use crate::actuator::arp::{ArpError, Mac, ProbeOutcome};
use crate::decision::observation::AliasEntry;
use crate::sensor::alias::{Added, Lifetime, TableError};
use crate::sensor::etcd::NotProven;

pub(super) const FIP: Ipv4Addr = Ipv4Addr::new(192, 168, 111, 200);
pub(super) const LEASE: Duration = Duration::from_secs(10);
pub(super) const MAC: Mac = Mac([2, 0, 0, 0, 0, 9]);
pub(super) const OURS: AliasEntry = AliasEntry { prefix_len: 32, valid_for: Some(LEASE), lent: false };
pub(super) const LENT: AliasEntry = AliasEntry { prefix_len: 32, valid_for: Some(LEASE), lent: true };
pub(super) const LOOPS: AliasEntry = AliasEntry { prefix_len: 32, valid_for: None, lent: false };

/// What a proof says when it is asked for; the last word goes on for ever.
#[derive(Debug, Clone, Copy)]
pub(super) enum Says {
    Here,
    /// Leads here, but the proof is already this old.
    HereAgo(Duration),
    Elsewhere,
    Nothing,
}

#[derive(Debug)]
pub(super) struct World {
    proofs: VecDeque<Says>,
    probes: VecDeque<ProbeOutcome>,
    pub(super) entries: Vec<AliasEntry>,
    pub(super) link: bool,
    pub(super) unreadable: bool,
    pub(super) add_fails: bool,
    pub(super) add_hangs: bool,
    pub(super) remove_fails: bool,
    pub(super) announce_fails: bool,
    /// The machine stands still in the middle of a change of the lifetime.
    pub(super) stands_still: Option<Duration>,
    /// The loop puts the FIP up when this many probes were sent.
    pub(super) loop_adds_after_probes: Option<usize>,
    /// Everything that was asked or done, in order.
    pub(super) log: Vec<&'static str>,
}

impl World {
    pub(super) fn did(&self, what: &str) -> usize {
        self.log.iter().filter(|entry| **entry == what).count()
    }

    pub(super) fn touched(&self) -> bool {
        ["add", "set_lifetime", "remove", "announce"].iter().any(|what| self.did(what) > 0)
    }
}

#[derive(Debug, Clone)]
pub(super) struct Fake(Arc<Mutex<World>>);

impl Fake {
    pub(super) fn new(proofs: &[Says], probes: &[ProbeOutcome], entries: &[AliasEntry]) -> Self {
        Self(Arc::new(Mutex::new(World {
            proofs: proofs.iter().copied().collect(),
            probes: probes.iter().copied().collect(),
            entries: entries.to_vec(),
            link: true,
            unreadable: false,
            add_fails: false,
            add_hangs: false,
            remove_fails: false,
            announce_fails: false,
            stands_still: None,
            loop_adds_after_probes: None,
            log: Vec::new(),
        })))
    }

    pub(super) fn world(&self) -> MutexGuard<'_, World> {
        self.0.lock().unwrap()
    }

    pub(super) fn steps(&self, on_conflict: OnConflict) -> AliasSteps<Self, Self, Self> {
        let settings = AliasSettings {
            fip: FIP,
            interface: "eth0".to_owned(),
            on_conflict,
            lease: LEASE,
            worst_round: Duration::from_secs(16),
            proof_max_age: Duration::from_secs(2),
        };
        AliasSteps::new(self.clone(), self.clone(), self.clone(), settings)
    }
}

fn next<V: Copy>(queue: &mut VecDeque<V>) -> Option<V> {
    if queue.len() > 1 { queue.pop_front() } else { queue.front().copied() }
}

pub(super) fn proof(leader: u64, age: Duration) -> Proof {
    let now = clock::now().since_origin();
    Proof { member_id: 1, leader, raft_term: 4, at: Moment::from_origin(now.saturating_sub(age)) }
}

impl LeadershipProver for Fake {
    async fn prove(&self) -> Result<Proof, NotProven> {
        let mut world = self.world();
        world.log.push("prove");
        match next(&mut world.proofs).unwrap_or(Says::Nothing) {
            Says::Here => Ok(proof(1, Duration::ZERO)),
            Says::HereAgo(age) => Ok(proof(1, age)),
            Says::Elsewhere => Ok(proof(2, Duration::ZERO)),
            Says::Nothing => Err(NotProven::Denied("no quorum".to_owned())),
        }
    }
}

impl AddressTable for Fake {
    async fn read(&self, _: &str, _: Ipv4Addr) -> Reading<AliasView> {
        let mut world = self.world();
        world.log.push("read");
        if world.unreadable {
            return Reading::Unknown("interface eth0 does not exist".to_owned());
        }
        let value = AliasView { entries: world.entries.clone(), up: world.link, carrier: world.link };
        Reading::Fresh { value, at: clock::now() }
    }

    async fn add(&self, _: &str, _: Ipv4Addr, lease: Duration) -> Result<Added, TableError> {
        let hangs = {
            let mut world = self.world();
            world.log.push("add");
            if world.add_fails {
                return Err(TableError::Kernel { act: "add".to_owned(), reason: "operation not permitted".to_owned() });
            }
            if world.entries.contains(&LOOPS) {
                return Ok(Added::AlreadyThere);
            }
            world.entries.push(AliasEntry { prefix_len: 32, valid_for: Some(lease), lent: false });
            world.add_hangs
        };
        if hangs {
            std::future::pending::<()>().await;
        }
        Ok(Added::New)
    }

    async fn set_lifetime(&self, _: &str, fip: Ipv4Addr, lifetime: Lifetime) -> Result<(), TableError> {
        let mut world = self.world();
        world.log.push("set_lifetime");
        if let Some(time) = world.stands_still.take() {
            let (now, boottime, wall) = (clock::now() + time, clock::boottime() + time, clock::wall() + time);
            clock::simulate(Some(clock::Clocks { now, boottime, wall }));
        }
        let entry = world.entries.iter_mut().find(|entry| entry.prefix_len == 32).ok_or(TableError::NoAlias(fip))?;
        (entry.valid_for, entry.lent) = match lifetime {
            Lifetime::Forever => (None, false),
            Lifetime::Leased(lease) => (Some(lease), false),
            Lifetime::Lent(lease) => (Some(lease), true),
        };
        Ok(())
    }

    async fn remove(&self, interface: &str, _: Ipv4Addr) -> Result<usize, TableError> {
        let mut world = self.world();
        world.log.push("remove");
        if world.remove_fails {
            return Err(TableError::NoInterface(interface.to_owned()));
        }
        Ok(std::mem::take(&mut world.entries).len())
    }
}

impl ArpWire for Fake {
    async fn probe(&self, _: &str, _: Ipv4Addr, _: Duration) -> Result<ProbeOutcome, ArpError> {
        let mut world = self.world();
        world.log.push("probe");
        if world.loop_adds_after_probes == Some(world.did("probe")) {
            world.entries.push(LOOPS);
        }
        Ok(next(&mut world.probes).unwrap_or(ProbeOutcome::Silent))
    }

    async fn announce(&self, interface: &str, _: Ipv4Addr) -> Result<(), ArpError> {
        let mut world = self.world();
        world.log.push("announce");
        if world.announce_fails {
            let source = io::Error::from(io::ErrorKind::PermissionDenied);
            return Err(ArpError { act: "announce the FIP", interface: interface.to_owned(), source });
        }
        Ok(())
    }
}

pub(super) fn text(outcome: &StepOutcome) -> &str {
    match outcome {
        StepOutcome::Succeeded(text) | StepOutcome::Refused(text) | StepOutcome::Failed(text) | StepOutcome::PodStuck(text) => {
            text
        }
    }
}

#[track_caller]
pub(super) fn assert_succeeded(outcome: &StepOutcome) {
    assert!(matches!(outcome, StepOutcome::Succeeded(_)), "{outcome:?}");
}

#[track_caller]
pub(super) fn assert_refused(outcome: &StepOutcome, fake: &Fake) {
    assert!(matches!(outcome, StepOutcome::Refused(_)), "{outcome:?}");
    assert!(!fake.world().touched(), "{:?}", fake.world().log);
}

pub(super) const ANSWER: ProbeOutcome = ProbeOutcome::Answered { mac: MAC };
pub(super) const SILENT: ProbeOutcome = ProbeOutcome::Silent;
