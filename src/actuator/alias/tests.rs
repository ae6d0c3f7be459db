//! The steps against a scripted etcd, kernel and wire: every order in which the world can change.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard};

use super::*;
use crate::actuator::arp::{ArpError, Mac, ProbeOutcome};
use crate::decision::observation::AliasEntry;
use crate::sensor::alias::{Added, TableError};
use crate::sensor::etcd::NotProven;

const FIP: Ipv4Addr = Ipv4Addr::new(192, 168, 111, 200);
const LEASE: Duration = Duration::from_secs(10);
const MAC: Mac = Mac([2, 0, 0, 0, 0, 9]);
const OURS: AliasEntry = AliasEntry { prefix_len: 32, valid_for: Some(LEASE) };
const LOOPS: AliasEntry = AliasEntry { prefix_len: 32, valid_for: None };

/// What a proof says when it is asked for; the last word goes on for ever.
#[derive(Debug, Clone, Copy)]
enum Says {
    Here,
    /// Leads here, but the proof is already this old.
    HereAgo(Duration),
    Elsewhere,
    Nothing,
}

#[derive(Debug)]
struct World {
    proofs: VecDeque<Says>,
    probes: VecDeque<ProbeOutcome>,
    entries: Vec<AliasEntry>,
    link: bool,
    unreadable: bool,
    add_fails: bool,
    add_hangs: bool,
    remove_fails: bool,
    announce_fails: bool,
    /// The loop puts the FIP up when this many probes were sent.
    loop_adds_after_probes: Option<usize>,
    /// Everything that was asked or done, in order.
    log: Vec<&'static str>,
}

impl World {
    fn did(&self, what: &str) -> usize {
        self.log.iter().filter(|entry| **entry == what).count()
    }

    fn touched(&self) -> bool {
        ["add", "set_lifetime", "remove", "announce"].iter().any(|what| self.did(what) > 0)
    }
}

#[derive(Debug, Clone)]
struct Fake(Arc<Mutex<World>>);

impl Fake {
    fn new(proofs: &[Says], probes: &[ProbeOutcome], entries: &[AliasEntry]) -> Self {
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
            loop_adds_after_probes: None,
            log: Vec::new(),
        })))
    }

    fn world(&self) -> MutexGuard<'_, World> {
        self.0.lock().unwrap()
    }

    fn steps(&self, on_conflict: OnConflict) -> AliasSteps<Self, Self, Self> {
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

fn proof(leader: u64, age: Duration) -> Proof {
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
            world.entries.push(AliasEntry { prefix_len: 32, valid_for: Some(lease) });
            world.add_hangs
        };
        if hangs {
            std::future::pending::<()>().await;
        }
        Ok(Added::New)
    }

    async fn set_lifetime(&self, _: &str, fip: Ipv4Addr, lifetime: Option<Duration>) -> Result<(), TableError> {
        let mut world = self.world();
        world.log.push("set_lifetime");
        let entry = world.entries.iter_mut().find(|entry| entry.prefix_len == 32).ok_or(TableError::NoAlias(fip))?;
        entry.valid_for = lifetime;
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

fn text(outcome: &StepOutcome) -> &str {
    match outcome {
        StepOutcome::Succeeded(text) | StepOutcome::Refused(text) | StepOutcome::Failed(text) => text,
    }
}

#[track_caller]
fn assert_succeeded(outcome: &StepOutcome) {
    assert!(matches!(outcome, StepOutcome::Succeeded(_)), "{outcome:?}");
}

#[track_caller]
fn assert_refused(outcome: &StepOutcome, fake: &Fake) {
    assert!(matches!(outcome, StepOutcome::Refused(_)), "{outcome:?}");
    assert!(!fake.world().touched(), "{:?}", fake.world().log);
}

const ANSWER: ProbeOutcome = ProbeOutcome::Answered { mac: MAC };
const SILENT: ProbeOutcome = ProbeOutcome::Silent;

#[tokio::test(start_paused = true)]
async fn apply_on_a_free_address_proves_adds_announces_and_proves_again() {
    let fake = Fake::new(&[Says::Here], &[SILENT], &[]);
    let outcome = fake.steps(OnConflict::TakeOver).apply().await;
    assert_succeeded(&outcome);
    assert!(text(&outcome).contains("term 4") && text(&outcome).contains(" ms)"), "{outcome:?}");
    assert_eq!(fake.world().log, ["prove", "read", "probe", "add", "read", "announce", "prove"]);
    assert_eq!(fake.world().entries, [OURS]);
}

#[tokio::test(start_paused = true)]
async fn an_old_proof_is_made_again_right_before_the_add() {
    let fake = Fake::new(&[Says::HereAgo(Duration::from_secs(1)), Says::Here], &[SILENT], &[]);
    assert_succeeded(&fake.steps(OnConflict::TakeOver).apply().await);
    assert_eq!(fake.world().log, ["prove", "read", "probe", "prove", "add", "read", "announce", "prove"]);

    let lost = Fake::new(&[Says::HereAgo(Duration::from_secs(1)), Says::Elsewhere], &[SILENT], &[]);
    assert_refused(&lost.steps(OnConflict::TakeOver).apply().await, &lost);
}

#[tokio::test(start_paused = true)]
async fn a_denied_proof_or_another_leader_refuses_and_touches_nothing() {
    for says in [Says::Nothing, Says::Elsewhere] {
        let fake = Fake::new(&[says], &[SILENT], &[]);
        assert_refused(&fake.steps(OnConflict::TakeOver).apply().await, &fake);
        assert_eq!(fake.world().did("probe"), 0, "not even a packet is sent");
    }
}

#[tokio::test(start_paused = true)]
async fn no_link_an_unreadable_interface_or_an_alias_in_place_refuse_and_touch_nothing() {
    let down = Fake::new(&[Says::Here], &[SILENT], &[]);
    down.world().link = false;
    assert_refused(&down.steps(OnConflict::TakeOver).apply().await, &down);

    let missing = Fake::new(&[Says::Here], &[SILENT], &[]);
    missing.world().unreadable = true;
    let outcome = missing.steps(OnConflict::TakeOver).apply().await;
    assert_refused(&outcome, &missing);
    assert!(text(&outcome).starts_with("interface eth0 does not exist"), "{outcome:?}");

    let held = Fake::new(&[Says::Here], &[SILENT], &[LOOPS]);
    assert_refused(&held.steps(OnConflict::TakeOver).apply().await, &held);
}

#[tokio::test(start_paused = true)]
async fn leadership_lost_after_the_add_takes_the_alias_off_again_and_says_so() {
    for says in [Says::Nothing, Says::Elsewhere] {
        let fake = Fake::new(&[Says::Here, says], &[SILENT], &[]);
        let outcome = fake.steps(OnConflict::TakeOver).apply().await;
        assert!(matches!(outcome, StepOutcome::Failed(_)), "{outcome:?}");
        assert!(text(&outcome).contains("the alias was removed again"), "{outcome:?}");
        assert!(fake.world().entries.is_empty());
        assert_eq!(fake.world().log.last(), Some(&"remove"));
    }
}

#[tokio::test(start_paused = true)]
async fn a_removal_that_fails_says_that_the_lease_ends() {
    let fake = Fake::new(&[Says::Here, Says::Nothing], &[SILENT], &[]);
    fake.world().remove_fails = true;
    let outcome = fake.steps(OnConflict::TakeOver).apply().await;
    assert!(text(&outcome).contains("lease ends within 10 s"), "{outcome:?}");
}

#[tokio::test(start_paused = true)]
async fn an_add_that_hangs_after_it_took_effect_is_undone() {
    let fake = Fake::new(&[Says::Here], &[SILENT], &[]);
    fake.world().add_hangs = true;
    let outcome = fake.steps(OnConflict::TakeOver).apply().await;
    assert!(matches!(outcome, StepOutcome::Failed(_)), "{outcome:?}");
    assert!(fake.world().entries.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_refused_add_fails_and_announces_nothing() {
    let fake = Fake::new(&[Says::Here], &[SILENT], &[]);
    fake.world().add_fails = true;
    let outcome = fake.steps(OnConflict::TakeOver).apply().await;
    assert!(matches!(outcome, StepOutcome::Failed(_)), "{outcome:?}");
    assert!(text(&outcome).contains("operation not permitted"), "{outcome:?}");
    assert_eq!(fake.world().did("announce"), 0);
}

#[tokio::test(start_paused = true)]
async fn a_failed_announcement_leaves_the_alias_up_and_says_so() {
    let fake = Fake::new(&[Says::Here], &[SILENT], &[]);
    fake.world().announce_fails = true;
    let outcome = fake.steps(OnConflict::TakeOver).apply().await;
    assert_succeeded(&outcome);
    assert!(text(&outcome).contains("not announced (cannot announce the FIP on eth0: permission denied"), "{outcome:?}");
}

#[tokio::test(start_paused = true)]
async fn a_conflict_that_ends_is_waited_out_with_a_proof_between_probes_whatever_the_policy() {
    for on_conflict in [OnConflict::TakeOver, OnConflict::Wait, OnConflict::Alarm] {
        let fake = Fake::new(&[Says::Here], &[ANSWER, ANSWER, SILENT], &[]);
        let outcome = fake.steps(on_conflict).apply().await;
        assert_succeeded(&outcome);
        assert!(text(&outcome).contains("fell silent after 400 ms"), "{outcome:?}");
        assert_eq!(fake.world().did("probe"), 3);
        assert_eq!(fake.world().did("prove"), 4, "once, once after each answer, once after the add");
    }
}

#[tokio::test(start_paused = true)]
async fn leadership_lost_while_waiting_out_a_conflict_refuses_and_touches_nothing() {
    let fake = Fake::new(&[Says::Here, Says::Here, Says::Elsewhere], &[ANSWER], &[]);
    assert_refused(&fake.steps(OnConflict::TakeOver).apply().await, &fake);
}

#[tokio::test(start_paused = true)]
async fn an_endless_conflict_is_taken_over_after_one_worst_round_with_the_mac_as_evidence() {
    let fake = Fake::new(&[Says::Here], &[ANSWER], &[]);
    let started = tokio::time::Instant::now();
    let outcome = fake.steps(OnConflict::TakeOver).apply().await;
    assert_succeeded(&outcome);
    assert!(text(&outcome).contains("taken over from 02:00:00:00:00:09"), "{outcome:?}");
    assert!(started.elapsed() >= Duration::from_secs(16));
    assert_eq!(fake.world().entries, [OURS]);
}

#[tokio::test(start_paused = true)]
async fn an_endless_conflict_alarms_or_waits_to_the_limit_and_touches_nothing_when_the_policy_says_so() {
    for (on_conflict, at_least) in [(OnConflict::Alarm, 16), (OnConflict::Wait, 48)] {
        let fake = Fake::new(&[Says::Here], &[ANSWER], &[]);
        let started = tokio::time::Instant::now();
        let outcome = fake.steps(on_conflict).apply().await;
        assert!(matches!(outcome, StepOutcome::Failed(_)), "{outcome:?}");
        assert!(text(&outcome).contains("nothing was changed"), "{outcome:?}");
        assert!(!fake.world().touched());
        assert!(started.elapsed() >= Duration::from_secs(at_least));
    }
}

#[tokio::test(start_paused = true)]
async fn an_alias_that_the_loop_puts_up_meanwhile_is_announced_and_never_undone() {
    // While a conflict is waited out, and between the probe and the add.
    for (probes, at_probe) in [(vec![ANSWER], 2), (vec![SILENT], 1)] {
        let kept = Fake::new(&[Says::Here], &probes, &[]);
        kept.world().loop_adds_after_probes = Some(at_probe);
        let outcome = kept.steps(OnConflict::TakeOver).apply().await;
        assert_succeeded(&outcome);
        assert!(text(&outcome).contains("put up by the loop meanwhile"), "{outcome:?}");
        assert_eq!(kept.world().entries, [LOOPS]);
        assert_eq!(kept.world().did("announce"), 1);
    }
    let lost = Fake::new(&[Says::Here, Says::Nothing], &[SILENT], &[]);
    lost.world().loop_adds_after_probes = Some(1);
    let outcome = lost.steps(OnConflict::TakeOver).apply().await;
    assert!(matches!(outcome, StepOutcome::Failed(_)), "{outcome:?}");
    assert_eq!(lost.world().did("remove"), 0);
    assert_eq!(lost.world().entries, [LOOPS]);
}

#[tokio::test(start_paused = true)]
async fn renew_needs_a_lease_and_makes_a_new_proof_when_the_given_one_is_old() {
    let fresh = Fake::new(&[Says::Nothing], &[], &[OURS]);
    assert_succeeded(&fresh.steps(OnConflict::TakeOver).renew(proof(1, Duration::from_millis(500))).await);
    assert_eq!(fresh.world().log, ["read", "set_lifetime", "read"]);

    let old = Fake::new(&[Says::Nothing], &[], &[OURS]);
    assert_refused(&old.steps(OnConflict::TakeOver).renew(proof(1, Duration::from_secs(3))).await, &old);

    let again = Fake::new(&[Says::Here], &[], &[OURS]);
    assert_succeeded(&again.steps(OnConflict::TakeOver).renew(proof(1, Duration::from_secs(3))).await);

    let elsewhere = Fake::new(&[Says::Here], &[], &[OURS]);
    assert_refused(&elsewhere.steps(OnConflict::TakeOver).renew(proof(2, Duration::ZERO)).await, &elsewhere);

    for entries in [&[LOOPS][..], &[]] {
        let fake = Fake::new(&[Says::Here], &[], entries);
        assert_refused(&fake.steps(OnConflict::TakeOver).renew(proof(1, Duration::ZERO)).await, &fake);
    }
}

#[tokio::test(start_paused = true)]
async fn hand_over_makes_the_alias_last_for_ever_on_a_proven_leader_alone() {
    let fake = Fake::new(&[Says::Here], &[], &[OURS]);
    assert_succeeded(&fake.steps(OnConflict::TakeOver).hand_over().await);
    assert_eq!(fake.world().entries, [LOOPS]);

    let again = Fake::new(&[Says::Here], &[], &[LOOPS]);
    assert_succeeded(&again.steps(OnConflict::TakeOver).hand_over().await);
    assert!(!again.world().touched());

    for (says, entries) in [(Says::Nothing, &[OURS][..]), (Says::Elsewhere, &[OURS]), (Says::Here, &[])] {
        let fake = Fake::new(&[says], &[], entries);
        assert_refused(&fake.steps(OnConflict::TakeOver).hand_over().await, &fake);
    }
}

#[tokio::test(start_paused = true)]
async fn release_removes_unless_the_local_member_is_proven_to_lead() {
    for says in [Says::Nothing, Says::Elsewhere] {
        let odd = AliasEntry { prefix_len: 24, valid_for: None };
        let fake = Fake::new(&[says], &[], &[LOOPS, odd]);
        assert_succeeded(&fake.steps(OnConflict::TakeOver).release().await);
        assert!(fake.world().entries.is_empty());
        // Once more: absence is success.
        assert_succeeded(&fake.steps(OnConflict::TakeOver).release().await);
    }
    let leads = Fake::new(&[Says::Here], &[], &[LOOPS]);
    assert_refused(&leads.steps(OnConflict::TakeOver).release().await, &leads);
}

#[tokio::test(start_paused = true)]
async fn announce_speaks_only_where_the_alias_is_and_the_member_leads() {
    let fake = Fake::new(&[Says::Here], &[], &[LOOPS]);
    assert_succeeded(&fake.steps(OnConflict::TakeOver).announce().await);
    for (says, entries) in [(Says::Nothing, &[LOOPS][..]), (Says::Elsewhere, &[LOOPS]), (Says::Here, &[])] {
        let fake = Fake::new(&[says], &[], entries);
        assert_refused(&fake.steps(OnConflict::TakeOver).announce().await, &fake);
    }
}
