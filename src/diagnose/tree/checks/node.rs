//! Lines about the node: its kubelet, link, certificates, clock, addresses, filters, pressure.

use super::{line, unseen};
use crate::diagnose::diagnosis::{Check, Mark};
use crate::diagnose::evidence::{CertificateFile, Seen};
use crate::diagnose::tree::reach::Reach;
use crate::diagnose::tree::sight::{Quorum, Sight};
use crate::diagnose::tree::{certificate, local, network, words};

/// A certificate that ends within this many seconds is worth a word: 30 days.
const EXPIRES_SOON_S: i64 = 30 * 86_400;

/// Most certificates with a line.
const CERTIFICATES_MAX: usize = 16;

/// A clock that is apart by this is worth a word, in milliseconds: a `Date` header has a resolution of 1 s.
const CLOCK_WARN_MS: u64 = 2_500;

/// Less free space than this where etcd keeps its data is worth a word, in bytes.
const DISK_FREE_WARN: u64 = 256 << 20;

/// The kubelet's unit.
pub(super) fn kubelet(sight: &Sight<'_>) -> Check {
    const BY_HAND: &str = "systemctl status kubelet";
    match &sight.evidence.kubelet {
        Seen::No(why) => unseen("kubelet", why, BY_HAND),
        Seen::Yes(unit) if unit.active => {
            line("kubelet", Mark::Good, words::quote(&unit.state), "it starts etcd again if it ends", BY_HAND)
        }
        Seen::Yes(unit) => line("kubelet", Mark::Bad, words::quote(&unit.state), "nobody starts etcd if it ends", BY_HAND),
    }
}

/// The interface of the members' traffic.
pub(super) fn link(sight: &Sight<'_>) -> Check {
    const BY_HAND: &str = "ip -br link; ip route";
    if let Seen::No(why) = &sight.evidence.interfaces {
        let mark = if network::link_down(sight) { Mark::Bad } else { Mark::Unseen };
        return line("own_link", mark, format!("not seen: {why}"), "", BY_HAND);
    }
    let Some(own) = network::own_interface(sight) else {
        let mark = if network::link_down(sight) { Mark::Bad } else { Mark::Unseen };
        return line("own_link", mark, "no interface with this node's member address", "", BY_HAND);
    };
    let seen = format!(
        "{} is {}, MTU {}",
        words::quote(&own.name),
        if own.running { "up" } else { "down or without a carrier" },
        own.mtu
    );
    if !own.running {
        line("own_link", Mark::Bad, seen, "this node is off the network", BY_HAND)
    } else if network::link_down(sight) {
        line("own_link", Mark::Bad, seen, "but there is no route to any peer", BY_HAND)
    } else {
        line("own_link", Mark::Good, seen, "", BY_HAND)
    }
}

/// A line a certificate.
pub(super) fn certificates(sight: &Sight<'_>) -> Vec<Check> {
    match &sight.evidence.certificates {
        Seen::No(why) => vec![unseen("certificates", why, "kubeadm certs check-expiration")],
        Seen::Yes(files) => {
            let now = certificate::now_s(sight);
            let mut checks: Vec<Check> = files.iter().take(CERTIFICATES_MAX).map(|file| of_file(sight, file, now)).collect();
            if let Some(rest) = files.get(CERTIFICATES_MAX..).filter(|rest| !rest.is_empty()) {
                let bad = |file: &CertificateFile| {
                    file.content.yes().is_some_and(|content| certificate::of_file(file, content, now).is_some())
                };
                let mark = if rest.iter().any(bad) { Mark::Bad } else { Mark::Good };
                checks.push(line("more_certificates", mark, format!("{} more certificates", rest.len()), "", ""));
            }
            checks
        }
    }
}

fn of_file(sight: &Sight<'_>, file: &CertificateFile, now: i64) -> Check {
    use crate::diagnose::diagnosis::Cause;
    let path = words::shell_word(&file.path);
    let name = format!("certificate {}", words::name(&file.role, None));
    let by_hand = format!("openssl x509 -in {path} -noout -dates -subject -issuer -ext subjectAltName,extendedKeyUsage");
    let content = match &file.content {
        Seen::Yes(content) => content,
        Seen::No(why) => return line(name, Mark::Unseen, format!("{path} not seen: {why}"), "", by_hand),
    };
    let days = content.not_after.saturating_sub(now) / 86_400;
    let fault = certificate::of_file(file, content, now);
    let mark = if fault.is_some_and(|cause| certificate::counts(sight, cause)) { Mark::Bad } else { Mark::Warn };
    let means = match fault {
        None if content.not_after.saturating_sub(now) < EXPIRES_SOON_S => {
            return line(name, Mark::Warn, format!("{path} ends in {days} days"), "renew it", by_hand);
        }
        None => return line(name, Mark::Good, format!("{path} is good for {days} more days"), "", by_hand),
        Some(Cause::CertificateExpired) => "it has expired",
        Some(Cause::CertificateNotYetValid) => "it is not valid yet: look at the clock first",
        Some(Cause::CertificateWrongCa) => "it is not signed by the CA beside it",
        Some(Cause::CertificateWrongName) => "it does not name this node's address",
        Some(Cause::CertificateWrongUsage) => "it may not be used for this",
        Some(Cause::CertificateKeyMismatch) => "the key beside it is not its own",
        Some(_) => "it is not good",
    };
    line(name, mark, format!("{path}, subject {}", words::quote(&content.subject)), means, by_hand)
}

/// Clocks of the peers against ours.
pub(super) fn clock(sight: &Sight<'_>) -> Check {
    const BY_HAND: &str = "timedatectl; chronyc tracking";
    let worst = sight.reaches.iter().filter_map(Reach::clock_offset_ms).max_by_key(|offset| offset.unsigned_abs());
    let Some(offset) = worst else {
        return unseen("clock", "no peer told its time", BY_HAND);
    };
    let apart = offset.unsigned_abs();
    let seen = if apart < CLOCK_WARN_MS {
        "no peer's clock is apart by more than 2.5 s".to_owned()
    } else {
        format!("a peer's clock is {} {}", words::ms(apart), if offset > 0 { "ahead" } else { "behind" })
    };
    if apart >= local::CLOCK_MS_MAX {
        line("clock", Mark::Bad, seen, "certificates may count as out of their dates, leases end at odd times", BY_HAND)
    } else if apart >= CLOCK_WARN_MS {
        line("clock", Mark::Warn, seen, "look at the time service", BY_HAND)
    } else {
        line("clock", Mark::Good, seen, "", BY_HAND)
    }
}

/// This node's own address.
pub(super) fn address(sight: &Sight<'_>) -> Check {
    const BY_HAND: &str = "ip -br address; etcdctl member list -w table";
    if local::address_changed(sight) {
        let listed = sight.address().map_or_else(|| "its listed address".to_owned(), |address| address.to_string());
        return line(
            "own_address",
            Mark::Bad,
            format!("{listed} is on no interface"),
            "the peers call an address that this node lacks",
            BY_HAND,
        );
    }
    match (sight.address(), &sight.evidence.interfaces) {
        (_, Seen::No(why)) => unseen("own_address", why, BY_HAND),
        (None, Seen::Yes(_)) => unseen("own_address", "this node is not in the member list", BY_HAND),
        (Some(address), Seen::Yes(interfaces)) if interfaces.iter().all(|interface| interface.addresses.is_empty()) => {
            unseen("own_address", &format!("no interface has an address, {address} included"), BY_HAND)
        }
        (Some(address), Seen::Yes(_)) => {
            line("own_address", Mark::Good, format!("{address} is the one in the member list"), "", BY_HAND)
        }
    }
}

/// Other stations with this node's address.
pub(super) fn duplicates(sight: &Sight<'_>) -> Check {
    const BY_HAND: &str = "ip neigh; journalctl -k -g duplicate -n 20";
    match &sight.evidence.duplicates {
        Seen::No(why) => unseen("duplicate_address", why, BY_HAND),
        Seen::Yes(found) if found.is_empty() => {
            line("duplicate_address", Mark::Good, "nobody else answers for this node's address", "", BY_HAND)
        }
        Seen::Yes(found) => {
            let found: Vec<String> =
                found.iter().map(|other| format!("{} answers for {}", words::quote(&other.mac), other.address)).collect();
            line("duplicate_address", Mark::Bad, words::list(&found), "two machines have one address: links come and go", BY_HAND)
        }
    }
}

/// Two interfaces in the peers' subnet.
pub(super) fn two_interfaces(sight: &Sight<'_>) -> Check {
    const BY_HAND: &str = "ip -br address; ip route";
    if let Seen::No(why) = &sight.evidence.interfaces {
        return unseen("two_interfaces", why, BY_HAND);
    }
    match network::two_interfaces(sight) {
        None => line("two_interfaces", Mark::Good, "one interface is in the peers' subnet at most", "", BY_HAND),
        Some((one, two)) => {
            let mark = if network::any_unreachable(sight) { Mark::Bad } else { Mark::Warn };
            let seen = format!("{} and {} are both in the peers' subnet", words::quote(&one.name), words::quote(&two.name));
            line("two_interfaces", mark, seen, "packets may leave by the wrong one and be dropped on the way back", BY_HAND)
        }
    }
}

/// This node's packet filters.
pub(super) fn filters(sight: &Sight<'_>) -> Check {
    const BY_HAND: &str = "nft list ruleset; iptables-save -c";
    match &sight.evidence.filters {
        Seen::No(why) => unseen("host_firewall", why, BY_HAND),
        Seen::Yes(rules) if rules.is_empty() => {
            line("host_firewall", Mark::Good, "no rule of this node drops or rejects etcd's packets", "", BY_HAND)
        }
        Seen::Yes(rules) => {
            let guilty = network::filter(sight);
            let shown = guilty.or_else(|| rules.first());
            let seen =
                shown.map(|rule| format!("{}: {}", words::quote(&rule.place), words::quote(&rule.rule))).unwrap_or_default();
            let (mark, means) = if guilty.is_some() {
                (Mark::Bad, "it explains what does not pass")
            } else {
                (Mark::Warn, "it drops, and nothing that fails here comes from it")
            };
            line("host_firewall", mark, seen, means, BY_HAND)
        }
    }
}

/// Pressure, space and pauses.
pub(super) fn host(sight: &Sight<'_>) -> Check {
    const BY_HAND: &str = "cat /proc/pressure/*; uptime; df -h /var/lib/etcd";
    let host = match &sight.evidence.host {
        Seen::Yes(host) => host,
        Seen::No(why) => return unseen("host", why, BY_HAND),
    };
    let figure = |value: Option<u32>, what: &str| value.map(|value| format!("{what} {value} %"));
    let mut figures: Vec<String> =
        [figure(host.cpu_pressure, "CPU"), figure(host.io_pressure, "I/O"), figure(host.memory_pressure, "memory")]
            .into_iter()
            .flatten()
            .collect();
    figures.extend(host.etcd_disk_free.map(|free| format!("{} MiB free for etcd", free >> 20)));
    if let Some(pause) = local::paused(sight) {
        let seen = format!("the node stood still for {} until {} ago", words::ms(pause.length_ms), words::ms(pause.age_ms));
        let mark = if sight.quorum == Quorum::No { Mark::Bad } else { Mark::Warn };
        return line("host", mark, seen, "its peers took it for dead meanwhile", BY_HAND);
    }
    if figures.is_empty() {
        return unseen("host", "the kernel tells no pressure", BY_HAND);
    }
    let seen = format!("waiting for {}", words::list(&figures));
    if local::starved(sight) {
        let mark = if local::starves(sight) { Mark::Bad } else { Mark::Warn };
        line("host", mark, seen, "so hard-pressed that silence means little", BY_HAND)
    } else if host.etcd_disk_free.is_some_and(|free| free < DISK_FREE_WARN) {
        line("host", Mark::Warn, seen, "etcd ends when its disk is full", BY_HAND)
    } else {
        line("host", Mark::Good, seen, "", BY_HAND)
    }
}
