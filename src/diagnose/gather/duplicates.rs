//! Whether another station answers for this node's address: the probe of RFC 5227, section 2.1.1.
//!
//! Invariant: it is a question and nothing else. Its sender address is zero, so that it changes no neighbour's cache; nothing is announced and
//! nothing defended. Silence is no proof: a station that is cut off is silent. May be dropped at any await.

use std::net::IpAddr;
use std::time::Duration;

use super::interfaces;
use crate::actuator::arp::{ArpWire as _, PacketWire, ProbeOutcome};
use crate::diagnose::evidence::{Duplicate, Member, Seen};
use crate::policy::Policy;

/// Three probes are spread over it. A station on the segment answers within 10 ms.
const WAIT: Duration = Duration::from_millis(900);

/// See the module's head. `own` is the local member, when it is known.
pub(super) async fn look(policy: &Policy, own: Option<&Member>) -> Seen<Vec<Duplicate>> {
    let Some(address) = own.and_then(|own| own.address) else {
        return Seen::No("which address of this node the others use is not known".to_owned());
    };
    probe(address, &policy.fip.interface).await.map_or_else(Seen::No, Seen::Yes)
}

/// Others that answer for `address`, on the interface that has it.
async fn probe(address: IpAddr, always: &str) -> Result<Vec<Duplicate>, String> {
    let IpAddr::V4(wanted) = address else { return Err(format!("{address} is no IPv4 address, so ARP does not know it")) };
    if wanted.is_loopback() {
        return Ok(Vec::new());
    }
    let interfaces = interfaces::list(always).await?;
    let interface = interfaces.iter().find(|interface| interface.addresses.iter().any(|(own, _)| *own == address));
    let name = &interface.ok_or_else(|| format!("{address} is on no interface of this node"))?.name;
    let outcome = PacketWire.probe(name, wanted, WAIT).await;
    match outcome.map_err(|error| format!("ARP on {name} cannot be asked: {}", error.source))? {
        ProbeOutcome::Silent => Ok(Vec::new()),
        ProbeOutcome::Answered { mac } => Ok(vec![Duplicate { address, mac: mac.to_string() }]),
    }
}
