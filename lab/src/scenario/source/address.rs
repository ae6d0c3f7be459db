//! Who holds the FIP, and over which link: `ip monitor` in the node's network namespace.
//!
//! The monitor is started first and the state is listed after it, so that no change falls between the two. A change
//! is stamped when its line is read, some milliseconds after the kernel made it.

use std::time::Duration;

use tokio::process::{Child, Command};

use super::{Lines, Out};
use crate::scenario::event::{Lifetime, What};
use crate::scenario::lab_api::{FIP, INTERFACE};

/// Changes, one a line.
pub const MONITOR: [&str; 5] = ["ip", "-oneline", "monitor", "address", "link"];
/// The state, in the same format.
pub const LISTS: [[&str; 6]; 2] =
    [["ip", "-oneline", "address", "show", "dev", INTERFACE], ["ip", "-oneline", "link", "show", "dev", INTERFACE]];
/// Time for the monitor to subscribe before the state is listed.
const SUBSCRIBED_AFTER: Duration = Duration::from_millis(200);

/// What a line says about the interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Line {
    /// The FIP is there.
    Held(Lifetime),
    /// The FIP was deleted.
    Gone,
    /// The link carries traffic, or not.
    Link {
        /// Up, with a carrier.
        up: bool,
    },
}

/// Follows the monitor until it ends.
pub async fn follow(child: Child, lists: [Command; 2], to: Out) {
    let Some(mut lines) = Lines::of(child) else { return to.lost("the address monitor has no output".to_owned()).await };
    tokio::time::sleep(SUBSCRIBED_AFTER).await;
    let mut known = Known::default();
    for mut list in lists {
        let Ok(output) = list.output().await else { return to.lost("the addresses cannot be listed".to_owned()).await };
        for line in String::from_utf8_lossy(&output.stdout).lines() {
            if let Some(news) = parse(line).and_then(|line| known.news(line)) {
                to.send_now(news).await;
            }
        }
    }
    while let Some(line) = lines.next().await {
        if let Some(news) = parse(line).and_then(|line| known.news(line))
            && !to.send_now(news).await
        {
            return;
        }
    }
    to.lost(format!("the addresses can no longer be watched: {}", lines.complaint().await)).await;
}

/// What is known already: a renewed lease, or a link event about something else, is no news.
#[derive(Default)]
struct Known {
    fip: Option<Lifetime>,
    link_up: Option<bool>,
}

impl Known {
    fn news(&mut self, line: Line) -> Option<What> {
        match line {
            Line::Held(lifetime) => (self.fip.replace(lifetime) != Some(lifetime)).then_some(What::FipHeld(lifetime)),
            Line::Gone => self.fip.take().map(|_| What::FipGone),
            Line::Link { up } => (self.link_up.replace(up) != Some(up)).then_some(What::Link { up }),
        }
    }
}

/// One line of `ip -oneline monitor address link`, or of the lists.
///
/// ```text
/// 3: eth0    inet 192.168.111.200/32 scope global dynamic eth0\       valid_lft 10sec preferred_lft 10sec
/// Deleted 3: eth0    inet 192.168.111.200/32 scope global eth0\       valid_lft forever preferred_lft forever
/// 3: eth0@if4: <NO-CARRIER,BROADCAST,MULTICAST,UP> mtu 1500 qdisc noqueue state DOWN group default \    link/ether …
/// ```
#[must_use]
pub fn parse(line: &str) -> Option<Line> {
    let line = line.strip_prefix("[ADDR]").or_else(|| line.strip_prefix("[LINK]")).unwrap_or(line);
    let (deleted, line) = line.strip_prefix("Deleted ").map_or((false, line), |rest| (true, rest));
    let words: Vec<&str> = line.split(|c: char| c.is_whitespace() || c == '\\').filter(|word| !word.is_empty()).collect();
    let interface = |word: &str| word.trim_end_matches(':').split('@').next() == Some(INTERFACE);
    match words.as_slice() {
        [_index, name, "inet", address, rest @ ..] if interface(name) => {
            if address.split('/').next() != Some(FIP) {
                return None;
            }
            if deleted {
                return Some(Line::Gone);
            }
            let lifetime = rest.windows(2).find_map(|pair| (pair[0] == "valid_lft").then_some(pair[1]));
            Some(Line::Held(if lifetime == Some("forever") { Lifetime::Forever } else { Lifetime::Lease }))
        }
        [_index, name, flags, ..] if interface(name) && name.ends_with(':') => {
            let flags: Vec<&str> = flags.strip_prefix('<')?.strip_suffix('>')?.split(',').collect();
            let has = |flag: &str| flags.contains(&flag);
            Some(Line::Link { up: !deleted && has("UP") && has("LOWER_UP") && !has("NO-CARRIER") })
        }
        _other => None,
    }
}

#[cfg(test)]
#[path = "address_tests.rs"]
mod tests;
