//! The conflict sense on a real wire: who counts as a second holder, and who does not.

use std::time::Duration;

use fip_watchdog::actuator::arp::{ArpWire as _, PacketWire};
use fip_watchdog::decision::observation::{AliasEntry, AliasView, ConflictView, Reading};
use fip_watchdog::runtime::clock;
use fip_watchdog::sensor::conflict::ConflictSensor;

use crate::segment::{Segment, eventually};
use crate::{FIP, FIP_TEXT, mac};

fn held(carrier: bool) -> Reading<AliasView> {
    let entries = vec![AliasEntry { prefix_len: 32, valid_for: None, lent: false }];
    Reading::Fresh { value: AliasView { entries, up: true, carrier }, at: clock::now() }
}

fn look(sensor: &mut ConflictSensor, alias: &Reading<AliasView>) -> ConflictView {
    sensor.read("eth0", FIP, alias, clock::now()).fresh().cloned().expect("the conflict sense can tell")
}

/// The MAC of the second holder that is heard in the end.
async fn heard(sensor: &mut ConflictSensor) -> String {
    let view = eventually("a claim", async || look(sensor, &held(true)), |view| view.last.is_some()).await;
    view.last.map(|claim| claim.mac).unwrap_or_default()
}

#[test]
fn a_silent_second_holder_is_found_by_the_question_and_one_that_speaks_by_listening() {
    Segment::new().inside(async |segment| {
        segment.on_node(&["address", "add", FIP_TEXT, "dev", "eth0"]);
        segment.on_neighbour(&["address", "add", FIP_TEXT, "dev", "eth0"]);
        let neighbour = mac(&segment.on_neighbour(&["-o", "link", "show", "eth0"])).to_owned();
        let mut sensor = ConflictSensor::default();
        assert_eq!(heard(&mut sensor).await, neighbour);

        segment.on_neighbour(&["address", "delete", FIP_TEXT, "dev", "eth0"]);
        let mut listener = ConflictSensor::default();
        for _ in 0..3 {
            assert_eq!(look(&mut listener, &held(true)).last, None, "nobody claims it");
        }
        segment.neighbour_speaks(async || PacketWire.announce("eth0", FIP).await.expect("announced"));
        assert_eq!(heard(&mut listener).await, neighbour);
    });
}

#[test]
fn probes_of_others_and_this_nodes_own_interfaces_are_no_conflict() {
    Segment::new().inside(async |segment| {
        segment.on_node(&["address", "add", FIP_TEXT, "dev", "eth0"]);
        // What the node's second interface would say, said by somebody whom the test can make speak.
        segment.on_node(&["link", "add", "own0", "address", "02:00:00:00:00:77", "type", "bridge"]);
        segment.on_neighbour(&["link", "set", "eth0", "address", "02:00:00:00:00:77"]);
        let mut sensor = ConflictSensor::default();
        assert_eq!(look(&mut sensor, &held(true)).last, None);
        segment.neighbour_speaks(async || {
            // Answered by the node, so it has arrived.
            PacketWire.probe("eth0", FIP, Duration::from_secs(5)).await.expect("probed");
            PacketWire.announce("eth0", FIP).await.expect("announced");
        });
        for _ in 0..5 {
            assert_eq!(look(&mut sensor, &held(true)).last, None);
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        segment.on_neighbour(&["link", "set", "eth0", "address", "02:00:00:00:00:78"]);
        segment.neighbour_speaks(async || PacketWire.announce("eth0", FIP).await.expect("announced"));
        assert_eq!(heard(&mut sensor).await, "02:00:00:00:00:78");
    });
}

#[test]
fn without_the_fip_or_a_link_nothing_is_heard_and_a_link_that_returns_is_survived() {
    Segment::new().inside(async |segment| {
        let away = Reading::Fresh { value: AliasView { entries: Vec::new(), up: true, carrier: true }, at: clock::now() };
        segment.on_neighbour(&["address", "add", FIP_TEXT, "dev", "eth0"]);
        let mut sensor = ConflictSensor::default();
        for _ in 0..5 {
            assert_eq!(look(&mut sensor, &away).last, None);
            assert_eq!(look(&mut sensor, &held(false)).last, None);
        }
        assert!(!heard(&mut sensor).await.is_empty());
        segment.on_node(&["link", "set", "eth0", "down"]);
        segment.on_node(&["link", "set", "eth0", "up"]);
        // The socket was spoilt by that; the sense opens another one at once.
        look(&mut sensor, &held(true));
        let mut fresh = ConflictSensor::default();
        assert!(!heard(&mut fresh).await.is_empty());
    });
}
