//! The kernel's addresses, the wire, and a client that remembers where the FIP was.
//!
//! The kernel ends a lease by itself, up to half a second late, and announces nothing.

use crate::sim::{Event, Sim};
use crate::{Ms, NODES};

/// How late the kernel ends a lease.
const LEASE_LATE_MAX: Ms = 500;

/// The FIP on an interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Address {
    /// When its lease ends, by the node's monotonic clock; `None` is never.
    pub until: Option<Ms>,
    /// The lease is only lent: the address is the loop's.
    pub lent: bool,
    /// Which change of the address gave it.
    given: u64,
}

/// A client on the segment.
#[derive(Debug, Default)]
pub struct Client {
    /// Where it sends frames for the FIP.
    pub neighbour: Option<usize>,
    /// It gets no answer since.
    pub unserved_since: Option<Ms>,
    /// The longest time without an answer.
    pub longest: Ms,
    asking: bool,
}

impl Sim {
    /// The node's monotonic clock.
    #[must_use]
    pub fn monotonic(&self, node: usize) -> Ms {
        self.now - self.nodes[node].standstill
    }

    /// What remains of the lease; `None` inside is for ever.
    #[must_use]
    pub fn remaining(&self, node: usize) -> Option<Option<Ms>> {
        let address = self.nodes[node].address?;
        Some(address.until.map(|until| until.saturating_sub(self.monotonic(node))))
    }

    /// The FIP is there with a lease, for ever, or not.
    pub fn set_address(&mut self, node: usize, lifetime: Option<Option<Ms>>) {
        let monotonic = self.monotonic(node);
        self.nodes[node].address_changes += 1;
        let given = self.nodes[node].address_changes;
        self.nodes[node].address =
            lifetime.map(|lease| Address { until: lease.map(|lease| monotonic + lease), lent: false, given });
        if let Some(Some(lease)) = lifetime {
            let late = self.rng.between(0, LEASE_LATE_MAX);
            self.after(lease + late, Event::LeaseEnds { node, given });
        }
        self.wake(node);
        self.client_looks();
    }

    /// The kernel ends a lease that was not renewed.
    pub fn lease_ends(&mut self, node: usize, given: u64) {
        if self.nodes[node].address.is_some_and(|address| address.given == given && address.until.is_some()) {
            self.say(Some(node), || "the kernel ends the lease of the FIP".to_owned());
            self.set_address(node, None);
        }
    }

    /// Whether another node answers an ARP question for the FIP.
    #[must_use]
    pub fn answers_probe_of(&self, node: usize) -> Option<usize> {
        let answers = |other: usize| {
            other != node
                && self.nodes[other].address.is_some()
                && self.nodes[other].frozen.is_none()
                && self.reach_each_other(node, other)
        };
        (0..NODES).find(|other| answers(*other))
    }

    /// A gratuitous ARP goes out.
    pub fn announce(&mut self, node: usize) {
        if self.client_reaches(node) {
            self.client.neighbour = Some(node);
            self.client_looks();
        }
    }

    const fn client_reaches(&self, node: usize) -> bool {
        self.client_cuts[node] == 0 && self.nodes[node].link_down == 0 && self.nodes[node].frozen.is_none()
    }

    /// Whether the client is served.
    pub fn client_looks(&mut self) {
        let served = self.client.neighbour.is_some_and(|node| self.nodes[node].address.is_some() && self.client_reaches(node));
        match (served, self.client.unserved_since) {
            (false, None) => self.client.unserved_since = Some(self.now),
            (true, Some(since)) => {
                self.client.longest = self.client.longest.max(self.now - since);
                self.client.unserved_since = None;
                let outage = self.now - since;
                self.say(None, || format!("the client is served again, after {:.2} s", outage as f64 / 1000.0));
            }
            (true, None) | (false, Some(_)) => {}
        }
        if !served && !self.client.asking {
            self.client.asking = true;
            let wait = self.rng.between(3_000, 45_000);
            self.after(wait, Event::ClientAsks);
        }
    }

    /// Its entry has timed out: it asks who has the FIP, and again each second.
    pub fn client_asks(&mut self) {
        self.client.asking = false;
        if self.client.unserved_since.is_none() {
            return;
        }
        let holders: Vec<usize> =
            (0..NODES).filter(|node| self.nodes[*node].address.is_some() && self.client_reaches(*node)).collect();
        if holders.is_empty() {
            self.client.asking = true;
            self.after(1_000, Event::ClientAsks);
            return;
        }
        self.client.neighbour = Some(holders[self.rng.below(holders.len())]);
        self.client_looks();
    }
}
