//! Troubles from their first round to their last, against a clock of the test's own.

use super::*;
use crate::audit::recovery::{FipLoss, Leadership};
use crate::diagnose::{Cause, Diagnosis, Outcome};

const STABLE_FOR: Duration = Duration::from_secs(15);

/// What a node said of looks that had ended before, in order: when, under which verdict, and which cause.
type Said = Vec<(u64, Verdict, Cause)>;

/// A node that the test turns, half a second a round.
struct Node {
    trouble: Trouble,
    look: Look,
    ms: u64,
    begun: Vec<u64>,
    recovered: Vec<(u64, Recovery)>,
    said: Said,
}

impl Node {
    fn new() -> Self {
        let look = Look { verdict: Verdict::Healthy, term: Some((7, Some(1))), here: Some(true), refused: 0 };
        let mut node =
            Self { trouble: Trouble::default(), look, ms: 0, begun: Vec::new(), recovered: Vec::new(), said: Vec::new() };
        node.goes(|_| {}, 1_000);
        node
    }

    fn goes(&mut self, change: impl FnOnce(&mut Look), for_ms: u64) -> &mut Self {
        change(&mut self.look);
        let end = self.ms + for_ms;
        while self.ms < end {
            let now = Moment::from_origin(Duration::from_millis(self.ms));
            self.recovered.extend(self.trouble.note(self.look, STABLE_FOR, now).map(|recovery| (self.ms, recovery)));
            let settled = self.trouble.settled(now);
            self.said.extend(settled.map(|(verdict, finding)| (self.ms, verdict, finding.diagnosed.diagnosis.cause)));
            self.begun.extend(self.trouble.is_due(now).then_some(self.ms));
            self.ms += 500;
        }
        self
    }

    fn is(&mut self, verdict: Verdict, for_ms: u64) -> &mut Self {
        self.goes(|look| look.verdict = verdict, for_ms)
    }

    /// Like [`Self::is`], with what is said of an earlier look.
    fn is_and_says(&mut self, verdict: Verdict, for_ms: u64) -> Said {
        let said = self.said.len();
        self.is(verdict, for_ms);
        self.said.split_off(said)
    }

    /// A look ends now. Whether what it found stands, and if so, whether it is news.
    fn finds(&mut self, cause: Cause) -> Option<bool> {
        let outcome = if cause == Cause::Healthy { Outcome::Healthy } else { Outcome::Network };
        let diagnosis = Diagnosis { cause, outcome, ..Diagnosis::given_up(Duration::ZERO) };
        let ended_at = Moment::from_origin(Duration::from_millis(self.ms));
        let diagnosed = Box::new(Diagnosed { diagnosis, took: Duration::ZERO, ended_at });
        self.trouble.found(diagnosed).map(|(_, finding)| finding.is_new)
    }
}

#[test]
fn an_election_is_no_trouble() {
    let mut node = Node::new();
    for _ in 0..5 {
        node.is(Verdict::NoQuorum, 2_000).is(Verdict::LeaderUnproven, 1_500).is(Verdict::Healthy, 20_000);
    }
    assert_eq!((node.begun.as_slice(), node.recovered.len()), ([].as_slice(), 0));
}

#[test]
fn a_trouble_is_diagnosed_at_growing_distances_while_it_lasts_and_not_after() {
    let mut node = Node::new();
    node.is(Verdict::NoQuorum, 130_000).is(Verdict::Healthy, 300_000);
    assert_eq!(node.begun, [5_000, 20_000, 50_000, 110_000]);
    assert_eq!(node.recovered.len(), 1);
}

#[test]
fn another_verdict_in_a_trouble_is_looked_into_when_it_has_held() {
    let mut node = Node::new();
    node.is(Verdict::NoQuorum, 60_000).is(Verdict::EtcdUnreachable, 30_000);
    assert_eq!(node.begun, [5_000, 20_000, 50_000, 65_000]);
}

#[test]
fn an_untold_verdict_neither_ends_a_trouble_nor_feeds_it() {
    let mut node = Node::new();
    node.is(Verdict::NoQuorum, 6_000).is(Verdict::Paused, 600_000);
    assert_eq!((node.begun.len(), node.recovered.len()), (1, 0), "nobody looks while it is paused");
    node.is(Verdict::Healthy, 14_000).is(Verdict::Resumed, 20_000).is(Verdict::Healthy, 14_500);
    assert_eq!(node.recovered.len(), 0, "the stable time is counted in one piece");
    node.is(Verdict::Healthy, 1_000);
    assert_eq!(node.recovered.len(), 1);
    let mut brief = Node::new();
    brief.is(Verdict::NoQuorum, 3_000).is(Verdict::Resumed, 20_000).is(Verdict::NoQuorum, 3_000).is(Verdict::Healthy, 60_000);
    assert_eq!((brief.begun.len(), brief.recovered.len()), (0, 0), "what was before a gap does not add up");
}

#[test]
fn the_recovery_says_how_long_it_was_and_what_was_lost_once() {
    let mut node = Node::new();
    node.is(Verdict::NoQuorum, 6_000);
    assert_eq!(node.finds(Cause::PeerPortBlocked), Some(true));
    node.goes(|look| (look.here, look.term) = (Some(false), Some((9, None))), 54_000);
    node.goes(|look| look.refused = 2, 1_000);
    // The same member is elected, and its loop needs a round.
    node.goes(|look| (look.verdict, look.term) = (Verdict::FipMissing, Some((12, Some(1)))), 5_000);
    node.goes(|look| (look.verdict, look.here) = (Verdict::Healthy, Some(true)), 60_000);
    let [(at, recovery)] = node.recovered.as_slice() else { panic!("{:?}", node.recovered) };
    assert_eq!(*at, 1_000 + 61_000 + 15_000);
    let fip = FipLoss { was_here: Some(true), is_here: Some(true), away: Duration::from_secs(60), arrived_after: None };
    let wanted = Recovery {
        verdict: Verdict::Healthy,
        lasted: Duration::from_secs(61),
        verdicts: vec![Verdict::NoQuorum],
        cause: Some(Cause::PeerPortBlocked),
        fip,
        leadership: Leadership { changes: 0, terms: Some((7, 12)) },
        refused: 2,
    };
    assert_eq!(*recovery, wanted);
}

#[test]
fn a_node_to_which_the_fip_comes_says_when_and_one_that_lost_it_says_that_it_is_gone() {
    let mut new = Node::new();
    new.goes(|look| look.here = Some(false), 1_000).is(Verdict::NoQuorum, 10_000);
    new.goes(|look| (look.verdict, look.term, look.here) = (Verdict::Healthy, Some((9, Some(2))), Some(true)), 20_000);
    let recovery = &new.recovered[0].1;
    let arrived_after = Some(Duration::from_secs(10));
    assert_eq!(recovery.fip, FipLoss { was_here: Some(false), is_here: Some(true), away: Duration::ZERO, arrived_after });
    assert_eq!(recovery.leadership, Leadership { changes: 1, terms: Some((7, 9)) });

    let mut old = Node::new();
    old.is(Verdict::NoQuorum, 10_000).goes(|look| (look.verdict, look.here) = (Verdict::Healthy, Some(false)), 20_000);
    assert_eq!(
        old.recovered[0].1.fip,
        FipLoss { was_here: Some(true), is_here: Some(false), away: Duration::ZERO, arrived_after: None }
    );
}

#[test]
fn the_fip_is_gone_until_etcd_is_well_where_it_does_not_come_back_and_until_it_does_where_it_does() {
    let gone = |back_after_ms: Option<u64>| {
        let mut node = Node::new();
        node.is(Verdict::NoQuorum, 10_000).goes(|look| look.here = Some(false), 20_000);
        let calm_ms = back_after_ms.unwrap_or(20_000);
        node.is(Verdict::Healthy, calm_ms).goes(|look| look.here = Some(back_after_ms.is_some()), 20_000);
        node.recovered[0].1.fip
    };
    let fip = FipLoss { was_here: Some(true), is_here: Some(false), away: Duration::from_secs(20), arrived_after: None };
    assert_eq!(gone(None), fip, "the calm time is none in which clients miss it");
    assert_eq!(gone(Some(3_000)), FipLoss { is_here: Some(true), away: Duration::from_secs(23), ..fip });
}

#[test]
fn a_finding_is_news_once_in_a_trouble_and_again_in_the_next() {
    let mut node = Node::new();
    assert_eq!(node.finds(Cause::LinkDown), None, "there is no trouble");
    node.is(Verdict::EtcdUnreachable, 10_000);
    assert_eq!([Cause::LinkDown, Cause::LinkDown].map(|cause| node.finds(cause)), [Some(true), Some(false)]);
    node.is(Verdict::Healthy, 20_000).is(Verdict::NoQuorum, 10_000);
    assert_eq!(node.finds(Cause::LinkDown), Some(true));
}

#[test]
fn another_finding_is_said_when_etcd_has_stayed_unwell_and_the_first_again_when_it_is_back() {
    let mut node = Node::new();
    node.is(Verdict::EtcdUnreachable, 10_000);
    assert_eq!(node.finds(Cause::LinkDown), Some(true));
    for cause in [Cause::EtcdDown, Cause::LinkDown, Cause::Healthy] {
        let ended_at = node.ms;
        assert_eq!(node.finds(cause), None);
        // Another verdict that is as unwell changes nothing in that.
        let said = [Verdict::NoQuorum, Verdict::LeaderUnproven].map(|verdict| node.is_and_says(verdict, 3_000)).concat();
        assert_eq!(said, [(ended_at + 4_000, Verdict::LeaderUnproven, cause)]);
        assert_eq!(node.finds(cause), Some(false));
    }
    assert_eq!(node.is_and_says(Verdict::NoQuorum, 60_000), [], "each of them once");
    node.is(Verdict::Healthy, 20_000);
    assert_eq!(node.recovered[0].1.cause, Some(Cause::LinkDown), "what was found, not that it was gone");
}

#[test]
fn a_look_that_agrees_with_what_was_said_takes_back_what_is_held() {
    let mut node = Node::new();
    node.is(Verdict::NoQuorum, 10_000);
    let stand = [Cause::LinkDown, Cause::EtcdDown, Cause::LinkDown].map(|cause| node.finds(cause));
    assert_eq!(stand, [Some(true), None, Some(false)]);
    assert_eq!(node.is_and_says(Verdict::NoQuorum, 60_000), []);
}

#[test]
fn a_look_that_straddles_the_repair_says_nothing_before_and_after_etcd_is_well() {
    let after = [Verdict::Healthy, Verdict::FipMissing, Verdict::Paused, Verdict::Unknown];
    for (verdict, cause) in
        after.into_iter().flat_map(|verdict| [Cause::InboundBlocked, Cause::Healthy].map(|cause| (verdict, cause)))
    {
        let mut node = Node::new();
        node.is(Verdict::NoQuorum, 10_000);
        assert_eq!(node.finds(Cause::PeersUnreachable), Some(true));
        node.is(Verdict::NoQuorum, 20_000);
        assert_eq!(node.finds(cause), None);
        let said =
            [(Verdict::NoQuorum, 3_500), (verdict, 1_000)].map(|(verdict, for_ms)| node.is_and_says(verdict, for_ms)).concat();
        assert_eq!(said, [], "{verdict} {cause:?}: it ended too late before");
        assert_eq!(node.finds(cause), None, "{verdict} {cause:?}: it ended after");
        assert_eq!(node.is_and_says(Verdict::NoQuorum, 10_000), [], "{verdict} {cause:?}: nor when etcd is unwell again");
        node.is(Verdict::Healthy, 20_000);
        assert_eq!(node.recovered[0].1.cause, Some(Cause::PeersUnreachable), "{verdict}");
    }
}

#[test]
fn what_no_look_said_is_no_cause() {
    let mut node = Node::new();
    node.is(Verdict::NoQuorum, 6_000).is(Verdict::Healthy, 1_000);
    assert_eq!(node.finds(Cause::InboundBlocked), None);
    node.is(Verdict::Healthy, 20_000);
    assert_eq!(node.recovered[0].1.cause, None);
}
