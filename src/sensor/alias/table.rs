//! The kernel's address table over one kept rtnetlink socket.

use std::io;
use std::net::Ipv4Addr;
use std::pin::pin;
use std::time::Duration;

use futures_util::{StreamExt, TryStreamExt};
use rtnetlink::packet_route::AddressFamily;
use rtnetlink::packet_route::address::AddressMessage;
use rtnetlink::packet_route::link::LinkFlags;
use rtnetlink::{Handle, new_connection};
use tokio::sync::Mutex;
use tokio::task::JoinHandle;

use super::{Added, AddressTable, Lifetime, TableError, message, promote};
use crate::decision::observation::{AliasView, Reading};
use crate::runtime::clock;

/// How long one operation may take, waiting for its turn included. The kernel answers in
/// microseconds; a second means that something holds the RTNL lock.
const DEADLINE: Duration = Duration::from_secs(1);

/// The most entries of one interface that are looked at. A node of a cluster has a handful.
const ENTRIES_MAX: usize = 4096;

const EEXIST: i32 = -17;
const ENODEV: i32 = -19;
const EADDRNOTAVAIL: i32 = -99;

/// The address table of the network namespace in which it was opened.
#[derive(Debug)]
pub struct AliasTable {
    /// `None` after a deadline was missed or the socket broke: opened again on the next use.
    socket: Mutex<Option<Socket>>,
}

#[derive(Debug)]
struct Socket {
    handle: Handle,
    driver: JoinHandle<()>,
}

impl Drop for Socket {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

impl Socket {
    fn open() -> io::Result<Self> {
        let (connection, handle, _messages) = new_connection()?;
        Ok(Self { handle, driver: tokio::spawn(connection) })
    }
}

struct Link {
    index: u32,
    up: bool,
    carrier: bool,
}

impl AliasTable {
    /// Open the socket and start the task that drives it. Must be called in a tokio runtime.
    ///
    /// # Errors
    /// The netlink socket cannot be opened.
    pub fn open() -> io::Result<Self> {
        Ok(Self { socket: Mutex::new(Some(Socket::open()?)) })
    }

    /// Run one operation alone on the socket, within the deadline.
    async fn alone<T, F>(&self, act: String, operation: F) -> Result<T, TableError>
    where
        F: AsyncFnOnce(&Handle) -> Result<T, Failure> + Send,
        T: Send,
    {
        let mut slot = match tokio::time::timeout(DEADLINE, self.socket.lock()).await {
            Ok(slot) => slot,
            Err(_elapsed) => return Err(TableError::TimedOut { act, after_ms: DEADLINE.as_millis() }),
        };
        // Taken out while in use, so that a dropped or late operation leaves no half-read answer behind.
        let socket = match slot.take() {
            Some(socket) => socket,
            None => Socket::open().map_err(|error| TableError::Kernel { act: act.clone(), reason: error.to_string() })?,
        };
        match tokio::time::timeout(DEADLINE, operation(&socket.handle)).await {
            Err(_elapsed) => Err(TableError::TimedOut { act, after_ms: DEADLINE.as_millis() }),
            Ok(Err(Failure::Broken(reason))) => Err(TableError::Kernel { act, reason }),
            Ok(Err(Failure::Told(error))) => {
                *slot = Some(socket);
                Err(error)
            }
            Ok(Err(Failure::Refused(reason))) => {
                *slot = Some(socket);
                Err(TableError::Kernel { act, reason })
            }
            Ok(Ok(value)) => {
                *slot = Some(socket);
                Ok(value)
            }
        }
    }
}

/// How an operation on the socket failed.
enum Failure {
    /// The socket is of no more use.
    Broken(String),
    /// The kernel's refusal, to be completed with what was tried.
    Refused(String),
    /// Complete already.
    Told(TableError),
}

impl From<rtnetlink::Error> for Failure {
    fn from(error: rtnetlink::Error) -> Self {
        match raw_code(&error) {
            Some(code) => Self::Refused(io::Error::from_raw_os_error(-code).to_string().to_lowercase()),
            None => Self::Broken(error.to_string()),
        }
    }
}

impl AddressTable for AliasTable {
    async fn read(&self, interface: &str, fip: Ipv4Addr) -> Reading<AliasView> {
        let read = self
            .alone(format!("list the addresses of {interface}"), async |handle: &Handle| {
                let link = link(handle, interface).await?;
                let all = addresses(handle, link.index).await?;
                let entries = of_fip(&all, fip).map(message::entry).collect();
                Ok(AliasView { entries, up: link.up, carrier: link.carrier })
            })
            .await;
        match read {
            Ok(value) => Reading::Fresh { value, at: clock::now() },
            Err(error) => Reading::Unknown(error.to_string()),
        }
    }

    async fn add(&self, interface: &str, fip: Ipv4Addr, lease: Duration) -> Result<Added, TableError> {
        self.alone(format!("add alias {fip}/32 to {interface}"), async |handle: &Handle| {
            let index = link(handle, interface).await?.index;
            let mut request = handle.address().add(index, fip.into(), 32);
            *request.message_mut() = message::host_route_entry(index, fip, Lifetime::Leased(lease));
            match request.execute().await {
                Ok(()) => Ok(Added::New),
                Err(error) if raw_code(&error) == Some(EEXIST) => {
                    let all = addresses(handle, index).await?;
                    let there = of_fip(&all, fip).any(|listed| listed.header.prefix_len == 32);
                    if there { Ok(Added::AlreadyThere) } else { Err(error.into()) }
                }
                Err(error) => Err(error.into()),
            }
        })
        .await
    }

    async fn set_lifetime(&self, interface: &str, fip: Ipv4Addr, lifetime: Lifetime) -> Result<(), TableError> {
        self.alone(format!("set the lifetime of alias {fip}/32 on {interface}"), async |handle: &Handle| {
            let index = link(handle, interface).await?.index;
            let all = addresses(handle, index).await?;
            if !of_fip(&all, fip).any(|listed| listed.header.prefix_len == 32) {
                return Err(Failure::Told(TableError::NoAlias(fip)));
            }
            let mut request = handle.address().add(index, fip.into(), 32).replace();
            *request.message_mut() = message::host_route_entry(index, fip, lifetime);
            Ok(request.execute().await?)
        })
        .await
    }

    async fn remove(&self, interface: &str, fip: Ipv4Addr) -> Result<usize, TableError> {
        self.alone(format!("remove alias {fip} from {interface}"), async |handle: &Handle| {
            let index = link(handle, interface).await?.index;
            let all = addresses(handle, index).await?;
            let mut removed = 0;
            let mut refused = None;
            for listed in of_fip(&all, fip) {
                if let Err(error) = promote::guard(interface, fip, listed, &all) {
                    refused = Some(error);
                    continue;
                }
                match handle.address().del(message::deletion(listed)).execute().await {
                    Ok(()) => removed += 1,
                    // Somebody else was faster, or its lease ended.
                    Err(error) if raw_code(&error) == Some(EADDRNOTAVAIL) => {}
                    Err(error) => return Err(error.into()),
                }
            }
            refused.map_or(Ok(removed), |error| Err(Failure::Told(error)))
        })
        .await
    }
}

async fn link(handle: &Handle, interface: &str) -> Result<Link, Failure> {
    let mut links = pin!(handle.link().get().match_name(interface.to_owned()).execute());
    let answer = links.try_next().await;
    match answer {
        Ok(Some(message)) => Ok(Link {
            index: message.header.index,
            up: message.header.flags.contains(LinkFlags::Up),
            carrier: message.header.flags.contains(LinkFlags::LowerUp),
        }),
        Ok(None) => Err(Failure::Told(TableError::NoInterface(interface.to_owned()))),
        Err(error) if raw_code(&error) == Some(ENODEV) => Err(Failure::Told(TableError::NoInterface(interface.to_owned()))),
        Err(error) => Err(error.into()),
    }
}

/// Every IPv4 entry of the interface.
async fn addresses(handle: &Handle, index: u32) -> Result<Vec<AddressMessage>, Failure> {
    let mut request = handle.address().get().set_link_index_filter(index);
    request.message_mut().header.family = AddressFamily::Inet;
    Ok(request.execute().take(ENTRIES_MAX).try_collect().await?)
}

fn of_fip(all: &[AddressMessage], fip: Ipv4Addr) -> impl Iterator<Item = &AddressMessage> {
    all.iter().filter(move |listed| message::local(listed) == Some(fip))
}

/// The negative errno of the kernel's answer; `None` if it did not answer at all.
fn raw_code(error: &rtnetlink::Error) -> Option<i32> {
    if let rtnetlink::Error::NetlinkError(message) = error { Some(message.raw_code()) } else { None }
}
