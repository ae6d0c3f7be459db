//! The alias sense: the FIP and the link of its interface, by rtnetlink.
//!
//! [`AddressTable`] is also the hand that the alias steps use, so that what was listed is what is
//! deleted. Invariant I6: nothing in here adds, changes or removes any address but the FIP itself.
//!
//! Requests on one netlink handle are serialised (two dumps at once answer EBUSY) and each has a
//! deadline; after a missed one the handle is replaced, because its late answers would mix with new ones.
//!
//! Cancel-safe: a dropped request may still reach the kernel; a lease ends by itself.

mod events;
mod message;
mod promote;
mod table;

use std::future::Future;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use crate::decision::observation::{AliasView, Reading};

pub use events::AliasEvents;
pub use table::AliasTable;

/// What an add found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Added {
    /// The entry is new, with our lease.
    New,
    /// The same /32 was there already, whoever put it up; its lifetime was not touched.
    AlreadyThere,
}

/// How long the kernel shall keep an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lifetime {
    /// As the loop leaves it.
    Forever,
    /// A lease on what we applied.
    Leased(Duration),
    /// A lease on what is the loop's: `preferred_lft` ends one second before `valid_lft`, which tells it from the
    /// other kind, in the kernel and so across a restart. In that last second the address counts as
    /// deprecated, which IPv4 ignores for what comes in.
    Lent(Duration),
}

/// Why the kernel's address table could not be read or changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TableError {
    /// No such interface.
    #[error("interface {0} does not exist")]
    NoInterface(String),
    /// The kernel refused.
    #[error("cannot {act}: {reason}")]
    Kernel {
        /// What was tried: `add alias 192.0.2.10/32 to eth0`.
        act: String,
        /// The kernel's words.
        reason: String,
    },
    /// No answer in time.
    #[error("cannot {act}: no answer from the kernel within {after_ms} ms")]
    TimedOut {
        /// What was tried.
        act: String,
        /// The deadline.
        after_ms: u128,
    },
    /// Removing the entry would take other addresses along.
    #[error("will not remove {fip}/{prefix_len}: the kernel would remove {other} with it (promote_secondaries is off)")]
    TakesOthersAlong {
        /// The FIP.
        fip: Ipv4Addr,
        /// The prefix of the entry.
        prefix_len: u8,
        /// An address that would go too.
        other: Ipv4Addr,
    },
    /// The FIP's /32 is not on the interface, so there is no lifetime to set.
    #[error("alias {0}/32 is not on the interface")]
    NoAlias(Ipv4Addr),
}

/// The kernel's addresses. A trait so that a simulation can take the kernel's place.
pub trait AddressTable: Send + Sync {
    /// The FIP's entries on the interface, whatever their prefix, and the link.
    fn read(&self, interface: &str, fip: Ipv4Addr) -> impl Future<Output = Reading<AliasView>> + Send;

    /// Add the FIP as /32, scope global, no label, with `valid_lft` and `preferred_lft` of `lease`
    /// (whole seconds, rounded up). Idempotent: the same entry being there is success.
    fn add(&self, interface: &str, fip: Ipv4Addr, lease: Duration) -> impl Future<Output = Result<Added, TableError>> + Send;

    /// Give the FIP's /32 a new lifetime. It must be listed. Between listing and
    /// setting lie some microseconds in which somebody else can remove it, and then this adds it again:
    /// harmless with a lease, which is why forever is given only when the loop is healthy.
    fn set_lifetime(
        &self,
        interface: &str,
        fip: Ipv4Addr,
        lifetime: Lifetime,
    ) -> impl Future<Output = Result<(), TableError>> + Send;

    /// Remove every entry of the FIP that is listed; returns how many were. Absence is success.
    fn remove(&self, interface: &str, fip: Ipv4Addr) -> impl Future<Output = Result<usize, TableError>> + Send;
}

/// The sense and the steps share one table.
impl<T: AddressTable> AddressTable for Arc<T> {
    async fn read(&self, interface: &str, fip: Ipv4Addr) -> Reading<AliasView> {
        (**self).read(interface, fip).await
    }

    async fn add(&self, interface: &str, fip: Ipv4Addr, lease: Duration) -> Result<Added, TableError> {
        (**self).add(interface, fip, lease).await
    }

    async fn set_lifetime(&self, interface: &str, fip: Ipv4Addr, lifetime: Lifetime) -> Result<(), TableError> {
        (**self).set_lifetime(interface, fip, lifetime).await
    }

    async fn remove(&self, interface: &str, fip: Ipv4Addr) -> Result<usize, TableError> {
        (**self).remove(interface, fip).await
    }
}
