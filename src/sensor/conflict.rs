//! The conflict sense: who else claims the FIP while it is here (RFC 5227 section 2.4).
//!
//! A listener and a rare question, by cost. The listener is free: a filter in the kernel keeps everything but claims of
//! the FIP from it, and a round looks without waiting. It is not enough: a second holder answers whoever asks by unicast, which
//! nobody else hears, and may say nothing by broadcast for as long as its neighbours know it. So a probe goes out
//! when the FIP or the link comes, then twice a minute: 42 bytes to the segment from the one node that holds
//! the FIP, and no cache is touched by it.
//!
//! Reads nothing and sends nothing without the FIP or without a link. Never waits.

use std::io;
use std::net::Ipv4Addr;
use std::time::Duration;

use crate::actuator::arp::ClaimListener;
use crate::decision::observation::{AliasView, Claim, ConflictView, Reading};
use crate::decision::time::Moment;

/// Time between two questions while nobody else has answered.
const ASK_EVERY: Duration = Duration::from_secs(30);

/// Questions at the beginning, one a second: a port that has just got its link may not forward yet.
const ASK_FIRST: u32 = 3;

/// Time between two questions at the beginning, and while somebody else claims the FIP.
const ASK_AGAIN: Duration = Duration::from_secs(1);

/// A claim that is older is no conflict any more, and is forgotten.
const FORGET_AFTER: Duration = Duration::from_secs(60);

#[derive(Debug)]
struct Watch {
    listener: ClaimListener,
    interface: String,
    fip: Ipv4Addr,
    asked: u32,
    ask_at: Moment,
    last: Option<Claim>,
}

/// The sense.
#[derive(Debug, Default)]
pub struct ConflictSensor {
    watch: Option<Watch>,
}

impl ConflictSensor {
    /// What was claimed since the last look. `alias` is this round's reading of the interface.
    pub fn read(&mut self, interface: &str, fip: Ipv4Addr, alias: &Reading<AliasView>, now: Moment) -> Reading<ConflictView> {
        let here = match alias {
            Reading::Fresh { value, .. } => value.is_held() && value.up && value.carrier,
            // What was watched is watched on until the interface can be read again.
            Reading::Stale { .. } | Reading::Unknown(_) => self.watch.is_some(),
        };
        if !here {
            self.watch = None;
            return Reading::Fresh { value: ConflictView::default(), at: now };
        }
        if self.watch.as_ref().is_some_and(|watch| watch.interface != interface || watch.fip != fip) {
            self.watch = None;
        }
        // An interface that went down and up since the last look spoils the socket once: opened anew, it is well.
        let looked = self.look(interface, fip, now).or_else(|_spoilt| {
            self.watch = None;
            self.look(interface, fip, now)
        });
        match looked {
            Ok(value) => Reading::Fresh { value, at: now },
            Err(reason) => {
                self.watch = None;
                Reading::Unknown(reason)
            }
        }
    }

    fn look(&mut self, interface: &str, fip: Ipv4Addr, now: Moment) -> Result<ConflictView, String> {
        let watch = match self.watch.take() {
            Some(watch) => watch,
            None => Watch {
                listener: ClaimListener::open(interface, fip).map_err(|error| format!("{error}: {}", error.source))?,
                interface: interface.to_owned(),
                fip,
                asked: 0,
                ask_at: now,
                last: None,
            },
        };
        let watch = self.watch.insert(watch);
        let view = watch.look(now).map_err(|error| format!("cannot listen for ARP on {interface}: {error}"))?;
        Ok(view)
    }
}

impl Watch {
    fn look(&mut self, now: Moment) -> io::Result<ConflictView> {
        if let Some(mac) = self.listener.last_claim()? {
            self.last = Some(Claim { mac: mac.to_string(), at: now });
        }
        self.last = self.last.take().filter(|claim| now.since(claim.at) < FORGET_AFTER);
        if now >= self.ask_at {
            self.listener.ask()?;
            self.asked = self.asked.saturating_add(1);
            let soon = self.asked < ASK_FIRST || self.last.is_some();
            self.ask_at = now + if soon { ASK_AGAIN } else { ASK_EVERY };
        } else if self.last.is_some() {
            self.ask_at = self.ask_at.min(now + ASK_AGAIN);
        }
        Ok(ConflictView { last: self.last.clone() })
    }
}
