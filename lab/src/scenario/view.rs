//! The state of the lab at one moment, folded from events. Pure; waits and the timeline's lanes both read it.

use super::event::{Container, Event, Fault, Lifetime, What};
use super::node::{NODES_MAX, Node};
use crate::probe::outage::Heard;

/// One node's state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeView {
    /// The FIP on its interface.
    pub fip: Option<Lifetime>,
    /// Its link carries traffic.
    pub link_up: bool,
    /// Cut off from the client by a fault other than its link.
    pub cut_off: bool,
    /// Its etcd leads: it said so, and no fault stopped it since.
    pub leads: bool,
    /// Its watchdog's last verdict.
    pub verdict: Option<String>,
    /// Its loop's container.
    pub container: Option<Container>,
    /// The manifest is in its directory.
    pub manifest: Option<bool>,
    /// The cause that a diagnosis last found.
    pub diagnosis: Option<String>,
}

impl NodeView {
    const fn new() -> Self {
        Self {
            fip: None,
            link_up: true,
            cut_off: false,
            leads: false,
            verdict: None,
            container: None,
            manifest: None,
            diagnosis: None,
        }
    }

    /// Traffic between this node and the client can pass.
    #[must_use]
    pub const fn reachable(&self) -> bool {
        self.link_up && !self.cut_off
    }

    /// The client could reach the FIP here.
    #[must_use]
    pub const fn serves(&self) -> bool {
        self.fip.is_some() && self.reachable()
    }

    /// A leader that a node or the client could still talk to.
    #[must_use]
    pub const fn leads_reachably(&self) -> bool {
        self.leads && self.reachable()
    }
}

/// All of it.
#[derive(Debug, Clone)]
pub struct View {
    nodes: Vec<NodeView>,
    /// Whom the client hears.
    pub heard: Heard,
}

impl View {
    /// Before the first event, for `nodes` nodes.
    #[must_use]
    pub fn new(nodes: usize) -> Self {
        Self { nodes: vec![NodeView::new(); nodes.min(NODES_MAX)], heard: Heard::Silence }
    }

    /// The state of `node`.
    #[must_use]
    pub fn node(&self, node: Node) -> Option<&NodeView> {
        self.nodes.get(node.index())
    }

    /// Every node with its state.
    pub fn nodes(&self) -> impl Iterator<Item = (Node, &NodeView)> {
        (1_u8..).map(Node::new).zip(&self.nodes)
    }

    /// The node whose etcd leads, if exactly one reachable one does.
    #[must_use]
    pub fn leader(&self) -> Option<Node> {
        let mut leaders = self.nodes().filter(|(_, view)| view.leads_reachably()).map(|(node, _)| node);
        leaders.next().filter(|_| leaders.next().is_none())
    }

    /// Takes one event in. Events must come in the order of their stamps for each node.
    pub fn apply(&mut self, event: &Event) {
        if let What::Client(heard) = event.what {
            self.heard = heard;
        }
        let Some(view) = event.node.and_then(|node| self.nodes.get_mut(node.index())) else { return };
        match &event.what {
            What::Audit(audit) => {
                if audit.verdict.is_some() && audit.event == "verdict_changed" {
                    view.verdict.clone_from(&audit.verdict);
                } else if audit.event == "started" {
                    view.verdict = None;
                }
            }
            What::Leads { .. } => view.leads = true,
            What::LeadsNoMore => view.leads = false,
            What::FipHeld(lifetime) => view.fip = Some(*lifetime),
            What::FipGone => view.fip = None,
            What::Link { up } => view.link_up = *up,
            What::Container(container) => view.container = Some(container.clone()),
            What::Diagnosis(found) => view.diagnosis = Some(found.cause.clone()),
            What::Manifest { present } => view.manifest = Some(*present),
            What::Fault(fault) => {
                view.leads &= !ends_leadership(fault);
                view.cut_off |= cuts_off(fault);
            }
            What::Heal(fault) => view.cut_off &= !cuts_off(fault),
            What::Log(_) | What::Client(_) | What::Mark(_) | What::Note(_) | What::SourceLost(_) | What::JournalRead { .. } => {}
        }
    }
}

/// Faults after which the node's etcd leads nobody, although its journal cannot say so.
fn ends_leadership(fault: &Fault) -> bool {
    matches!(
        fault.name.as_str(),
        "etcd-stop"
            | "etcd-kill"
            | "etcd-restart"
            | "etcd-nospace"
            | "etcd-certificate"
            | "etcd-crash-loop"
            | "etcd-disk"
            | "etcd-removed"
            | "etcd-learner"
            | "node-freeze"
    )
}

/// Faults that part the node from the client without touching its link. A partition counts when it drops everything
/// from the client or from everybody; one that names other peers or ports leaves the client's way open.
fn cuts_off(fault: &Fault) -> bool {
    let arg = |key: &str| fault.args.get(key).map(String::as_str);
    fault.name == "partition"
        && arg("ports").is_none_or(|ports| ports == "all")
        && arg("peers").is_some_and(|peers| peers.split(',').any(|peer| matches!(peer.trim(), "client" | "all")))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::time::Duration;

    use super::*;

    fn at(node: u8, what: What) -> Event {
        Event { at: Duration::ZERO, node: Some(Node::new(node)), what }
    }

    fn fault(name: &str, args: &[(&str, &str)]) -> Fault {
        let args: BTreeMap<_, _> = args.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        Fault { name: name.to_owned(), args }
    }

    #[test]
    fn a_leader_behind_a_dead_link_is_no_reachable_leader() {
        let mut view = View::new(3);
        view.apply(&at(1, What::Leads { term: 2 }));
        assert_eq!(view.leader(), Some(Node::new(1)));
        view.apply(&at(1, What::Link { up: false }));
        assert_eq!(view.leader(), None);
        view.apply(&at(2, What::Leads { term: 3 }));
        assert_eq!(view.leader(), Some(Node::new(2)));
    }

    #[test]
    fn a_killed_etcd_leads_no_more_although_it_could_not_log_it() {
        let mut view = View::new(3);
        view.apply(&at(1, What::Leads { term: 2 }));
        view.apply(&at(1, What::Fault(fault("etcd-kill", &[]))));
        assert_eq!(view.leader(), None);
    }

    #[test]
    fn only_a_partition_that_includes_the_client_cuts_a_holder_off() {
        for (args, cut) in [
            (&[("peers", "all")][..], true),
            (&[("peers", "cp2,client")], true),
            (&[("peers", "cp2,cp3")], false),
            (&[("peers", "all"), ("ports", "2380")], false),
            (&[], false),
        ] {
            let mut view = View::new(3);
            view.apply(&at(1, What::FipHeld(Lifetime::Forever)));
            view.apply(&at(1, What::Fault(fault("partition", args))));
            assert_eq!(view.node(Node::new(1)).unwrap().serves(), !cut, "{args:?}");
            view.apply(&at(1, What::Heal(fault("partition", args))));
            assert!(view.node(Node::new(1)).unwrap().serves());
        }
    }
}
