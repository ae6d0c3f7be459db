//! The alias sense, the address table, the ARP wire and the steps on a real kernel.

#![expect(clippy::unwrap_used, reason = "a failed set-up is a failed test")]

mod conflict;
mod segment;
mod steps;

use std::net::Ipv4Addr;
use std::time::Duration;

use fip_watchdog::actuator::arp::{ArpWire, PacketWire, ProbeOutcome};
use fip_watchdog::decision::observation::{AliasEntry, AliasView, Reading};
use fip_watchdog::sensor::alias::{Added, AddressTable, AliasEvents, AliasTable, Lifetime, TableError};
use segment::{NODE, Segment, eventually, run};

const FIP: Ipv4Addr = Ipv4Addr::new(192, 168, 111, 200);
const FIP_TEXT: &str = "192.168.111.200";
const LEASE: Duration = Duration::from_secs(30);

async fn view(table: &AliasTable) -> AliasView {
    match table.read("eth0", FIP).await {
        Reading::Fresh { value, .. } => value,
        other @ (Reading::Stale { .. } | Reading::Unknown(_)) => panic!("{other:?}"),
    }
}

fn mac(line: &str) -> &str {
    line.split_whitespace().skip_while(|word| *word != "link/ether").nth(1).expect("no MAC")
}

#[test]
fn a_missing_interface_is_unknown_and_named() {
    Segment::new().inside(async |_| {
        let table = AliasTable::open().unwrap();
        let reading = table.read("eth9", FIP).await;
        assert_eq!(reading, Reading::Unknown("interface eth9 does not exist".to_owned()));
        assert_eq!(table.add("eth9", FIP, LEASE).await, Err(TableError::NoInterface("eth9".to_owned())));
    });
}

#[test]
fn the_link_is_read_with_the_addresses() {
    Segment::new().inside(async |segment| {
        let table = AliasTable::open().unwrap();
        let up = eventually("carrier", async || view(&table).await, |view| view.carrier).await;
        assert!(up.up && !up.is_held());
        segment.on_neighbour(&["link", "set", "eth0", "down"]);
        let cut = eventually("no carrier", async || view(&table).await, |view| !view.carrier).await;
        assert!(cut.up);
        segment.on_node(&["link", "set", "eth0", "down"]);
        assert!(!view(&table).await.up);
    });
}

#[test]
fn an_alias_is_added_once_leased_renewed_handed_over_and_removed() {
    Segment::new().inside(async |_| {
        let table = AliasTable::open().unwrap();
        assert_eq!(table.set_lifetime("eth0", FIP, Lifetime::Forever).await, Err(TableError::NoAlias(FIP)));
        assert_eq!(table.add("eth0", FIP, LEASE).await, Ok(Added::New));
        assert_eq!(table.add("eth0", FIP, LEASE).await, Ok(Added::AlreadyThere));
        assert!(view(&table).await.lease().is_some_and(|left| left <= LEASE));

        table.set_lifetime("eth0", FIP, Lifetime::Leased(Duration::from_secs(1000))).await.unwrap();
        assert!(view(&table).await.lease().is_some_and(|left| left > Duration::from_secs(900)));
        table.set_lifetime("eth0", FIP, Lifetime::Forever).await.unwrap();
        assert_eq!(view(&table).await.entries, [AliasEntry { prefix_len: 32, valid_for: None, lent: false }]);

        assert_eq!(table.remove("eth0", FIP).await, Ok(1));
        assert_eq!(table.remove("eth0", FIP).await, Ok(0));
        assert!(!view(&table).await.is_held());
    });
}

#[test]
fn the_kernel_ends_a_lease_by_itself() {
    Segment::new().inside(async |_| {
        let table = AliasTable::open().unwrap();
        table.add("eth0", FIP, Duration::from_secs(1)).await.unwrap();
        assert!(view(&table).await.is_held());
        eventually("the end of the lease", async || view(&table).await, |view| !view.is_held()).await;
    });
}

#[test]
fn a_handed_over_alias_looks_exactly_like_the_loops_own() {
    Segment::new().inside(async |segment| {
        let show = || segment.on_node(&["-o", "address", "show", "dev", "eth0"]);
        segment.on_node(&["address", "add", FIP_TEXT, "dev", "eth0"]);
        let loops_own = show();
        segment.on_node(&["address", "delete", FIP_TEXT, "dev", "eth0"]);
        let table = AliasTable::open().unwrap();
        table.add("eth0", FIP, LEASE).await.unwrap();
        assert_ne!(show(), loops_own);
        table.set_lifetime("eth0", FIP, Lifetime::Forever).await.unwrap();
        assert_eq!(show(), loops_own);
    });
}

#[test]
fn the_fip_is_found_and_removed_with_any_prefix_and_nothing_else_is() {
    Segment::new().inside(async |segment| {
        let table = AliasTable::open().unwrap();
        segment.on_node(&["address", "add", "192.168.111.20/32", "dev", "eth0"]);
        segment.on_node(&["address", "add", "192.168.111.200/24", "dev", "eth0", "label", "eth0:fip"]);
        table.add("eth0", FIP, LEASE).await.unwrap();
        let mixed = view(&table).await;
        assert_eq!(mixed.entries.len(), 2);
        assert_eq!(mixed.lease(), None, "one of them is not ours");
        assert_eq!(table.remove("eth0", FIP).await, Ok(2));
        let left = segment.on_node(&["-4", "-o", "address", "show", "dev", "eth0"]);
        assert!(left.contains(NODE) && left.contains("192.168.111.20/32") && left.lines().count() == 2, "{left}");
    });
}

#[test]
fn an_entry_whose_removal_would_take_the_nodes_address_along_is_left_unless_the_kernel_promotes() {
    Segment::new().inside(async |segment| {
        let table = AliasTable::open().unwrap();
        let promote = |on: &str| {
            for name in ["all", "eth0"] {
                let set = format!("echo {on} > /proc/sys/net/ipv4/conf/{name}/promote_secondaries");
                run("ip", &["netns", "exec", &segment.node, "sh", "-c", &set]);
            }
        };
        // The FIP first: so it is the primary of the subnet, and the node's address its secondary.
        segment.on_node(&["address", "delete", "192.168.111.201/24", "dev", "eth0"]);
        segment.on_node(&["address", "add", "192.168.111.200/24", "dev", "eth0"]);
        segment.on_node(&["address", "add", "192.168.111.201/24", "dev", "eth0"]);
        promote("0");
        let refused = table.remove("eth0", FIP).await;
        assert!(matches!(&refused, Err(TableError::TakesOthersAlong { other, .. }) if other.to_string() == NODE), "{refused:?}");
        promote("1");
        assert_eq!(table.remove("eth0", FIP).await, Ok(1));
        assert!(segment.on_node(&["-o", "address", "show", "dev", "eth0"]).contains(NODE));
    });
}

#[test]
fn address_and_link_changes_wake_and_renewals_do_too() {
    Segment::new().inside(async |segment| {
        let table = AliasTable::open().unwrap();
        let events = AliasEvents::subscribe("eth0", FIP).unwrap();
        let wakes = async |what: &str| {
            tokio::time::timeout(Duration::from_secs(20), events.changed())
                .await
                .unwrap_or_else(|_| panic!("{what} did not wake"));
            // One change raises several messages; swallow the rest.
            while tokio::time::timeout(Duration::from_millis(100), events.changed()).await.is_ok() {}
        };
        table.add("eth0", FIP, LEASE).await.unwrap();
        wakes("an add").await;
        table.set_lifetime("eth0", FIP, Lifetime::Leased(LEASE)).await.unwrap();
        wakes("a renewal").await;
        table.remove("eth0", FIP).await.unwrap();
        wakes("a removal").await;
        segment.on_node(&["link", "set", "eth0", "down"]);
        wakes("a link change").await;
    });
}

#[test]
fn other_addresses_and_other_links_do_not_wake() {
    Segment::new().inside(async |segment| {
        let table = AliasTable::open().unwrap();
        eventually("carrier", async || view(&table).await, |view| view.carrier).await;
        let events = AliasEvents::subscribe("eth0", FIP).unwrap();
        segment.on_node(&["address", "add", "192.168.111.20/32", "dev", "eth0"]);
        segment.on_node(&["link", "add", "other0", "type", "veth", "peer", "name", "other1"]);
        segment.on_node(&["address", "add", "10.0.0.1/24", "dev", "other0"]);
        // Events come in order: were the others let through, they would have woken before this one.
        let quiet = tokio::time::timeout(Duration::from_millis(200), events.changed()).await;
        assert!(quiet.is_err(), "woken for nothing");
        table.add("eth0", FIP, LEASE).await.unwrap();
        tokio::time::timeout(Duration::from_secs(20), events.changed()).await.expect("an add did not wake");
    });
}

#[test]
fn concurrent_requests_take_turns_on_one_socket() {
    Segment::new().inside(async |_| {
        let table = AliasTable::open().unwrap();
        table.add("eth0", FIP, LEASE).await.unwrap();
        let reads = futures_util::future::join_all((0..50).map(|_| table.read("eth0", FIP))).await;
        assert!(reads.iter().all(|reading| reading.fresh().is_some_and(AliasView::is_held)), "{reads:?}");
        // A request that is dropped half way spoils nothing.
        for _ in 0..20 {
            let mut read = Box::pin(table.read("eth0", FIP));
            assert!(futures_util::poll!(&mut read).is_pending());
            drop(read);
            assert!(view(&table).await.is_held());
        }
    });
}

#[test]
fn a_probe_hears_a_holder_and_is_silent_without_one() {
    Segment::new().inside(async |segment| {
        let wait = Duration::from_millis(150);
        assert_eq!(PacketWire.probe("eth0", FIP, wait).await.unwrap(), ProbeOutcome::Silent);

        segment.on_neighbour(&["address", "add", FIP_TEXT, "dev", "eth0"]);
        // Long, because the neighbour's kernel may be busy; it returns at the first answer.
        let answered = PacketWire.probe("eth0", FIP, Duration::from_secs(5)).await.unwrap();
        let ProbeOutcome::Answered { mac: heard } = answered else { panic!("{answered:?}") };
        assert_eq!(heard.to_string(), mac(&segment.on_neighbour(&["-o", "link", "show", "eth0"])));
        let cache = segment.on_neighbour(&["neighbour", "show"]);
        assert!(!cache.contains("0.0.0.0"), "a probe leaves no trace: {cache}");

        segment.on_neighbour(&["address", "delete", FIP_TEXT, "dev", "eth0"]);
        segment.on_node(&["address", "add", FIP_TEXT, "dev", "eth0"]);
        assert_eq!(PacketWire.probe("eth0", FIP, wait).await.unwrap(), ProbeOutcome::Silent, "we do not hear ourselves");
    });
}

#[test]
fn a_missing_or_non_ethernet_interface_is_an_error_that_names_it() {
    Segment::new().inside(async |_| {
        for interface in ["eth9", "lo"] {
            let error = PacketWire.announce(interface, FIP).await.unwrap_err();
            assert!(error.to_string().contains(interface), "{error}");
        }
    });
}

#[test]
fn an_announcement_moves_the_neighbours_cache_entry_here() {
    Segment::new().inside(async |segment| {
        let own = mac(&segment.on_node(&["-o", "link", "show", "eth0"])).to_owned();
        let stale = ["neighbour", "replace", FIP_TEXT, "lladdr", "02:00:00:00:00:99", "dev", "eth0", "nud", "stale"];
        segment.on_neighbour(&stale);
        eventually(
            "the cache entry",
            async || {
                PacketWire.announce("eth0", FIP).await.unwrap();
                segment.on_neighbour(&["neighbour", "show", FIP_TEXT, "dev", "eth0"])
            },
            |entry| entry.contains(&own),
        )
        .await;
    });
}
