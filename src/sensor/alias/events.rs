//! Wake-ups from the kernel: an address or a link changed.
//!
//! An event only wakes; a full read decides. Events get lost (the socket's buffer overflows) and
//! each renewal of our own lease raises one, so nobody may count on their number. Pods' interfaces
//! come and go on a node all day: what names neither the FIP nor its interface does not wake.

use std::io;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use rtnetlink::packet_core::{NetlinkMessage, NetlinkPayload};
use rtnetlink::packet_route::RouteNetlinkMessage;
use rtnetlink::packet_route::link::LinkAttribute;
use rtnetlink::{MulticastGroup, new_multicast_connection};
use tokio::sync::Notify;
use tokio::task::{AbortHandle, JoinHandle};

use super::message;

/// How long to wait before the event socket is opened again after it broke.
const REOPEN_AFTER: Duration = Duration::from_secs(1);

/// A subscription to changes of the FIP and of the link of its interface. Dropping it ends its tasks.
#[derive(Debug)]
pub struct AliasEvents {
    changed: Arc<Notify>,
    task: AbortHandle,
}

impl AliasEvents {
    /// Subscribe. Must be called in a tokio runtime, from a thread in the network namespace to watch.
    ///
    /// # Errors
    /// The event socket cannot be opened.
    pub fn subscribe(interface: &str, fip: Ipv4Addr) -> io::Result<Self> {
        let changed = Arc::new(Notify::new());
        let watched = Watched { interface: interface.to_owned(), fip };
        let task = tokio::spawn(forward(open()?, watched, Arc::clone(&changed))).abort_handle();
        Ok(Self { changed, task })
    }

    /// Wait for a change; one that happened since the last call counts. Cancel-safe.
    pub async fn changed(&self) {
        self.changed.notified().await;
    }
}

impl Drop for AliasEvents {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// What is worth a wake-up.
struct Watched {
    interface: String,
    fip: Ipv4Addr,
}

impl Watched {
    fn concerns(&self, message: &NetlinkMessage<RouteNetlinkMessage>) -> bool {
        let NetlinkPayload::InnerMessage(inner) = &message.payload else {
            // An overrun: events were lost.
            return true;
        };
        if let RouteNetlinkMessage::NewAddress(address) | RouteNetlinkMessage::DelAddress(address) = inner {
            return message::local(address) == Some(self.fip);
        }
        if let RouteNetlinkMessage::NewLink(link) | RouteNetlinkMessage::DelLink(link) = inner {
            let is_ours = |attribute: &LinkAttribute| matches!(attribute, LinkAttribute::IfName(name) if *name == self.interface);
            return link.attributes.iter().any(is_ours);
        }
        true
    }
}

type Messages = std::pin::Pin<Box<dyn futures_util::Stream<Item = NetlinkMessage<RouteNetlinkMessage>> + Send>>;

/// The stream of events, and the task that drives its socket for as long as this lives.
struct EventSocket {
    messages: Messages,
    driver: JoinHandle<()>,
}

impl Drop for EventSocket {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

fn open() -> io::Result<EventSocket> {
    let (connection, _handle, messages) = new_multicast_connection(&[MulticastGroup::Link, MulticastGroup::Ipv4Ifaddr])?;
    Ok(EventSocket { messages: Box::pin(messages.map(|(message, _from)| message)), driver: tokio::spawn(connection) })
}

async fn forward(mut socket: EventSocket, watched: Watched, changed: Arc<Notify>) {
    loop {
        while let Some(message) = socket.messages.next().await {
            if watched.concerns(&message) {
                // `Notify` keeps one permit at most, so this cannot pile up.
                changed.notify_one();
            }
        }
        socket = reopen().await;
        changed.notify_one();
    }
}

async fn reopen() -> EventSocket {
    loop {
        tokio::time::sleep(REOPEN_AFTER).await;
        match open() {
            Ok(socket) => return socket,
            Err(error) => tracing::warn!(%error, "the address event socket cannot be opened; changes are seen by polling"),
        }
    }
}
