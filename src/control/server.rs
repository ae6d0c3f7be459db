//! The listening end of the control socket.
//!
//! Tasks: [`ControlServer::serve`] accepts; each connection is a task of its own that ends by its
//! deadlines. Dropping the future of `serve` is safe at any point: it aborts the connections, whose
//! requests are either in the queue already, where the decision loop meets a closed reply channel, or
//! were never made. The decision loop is the only one to carry requests out.
//!
//! Invariants: at most [`CONNECTIONS_MAX`] connections and [`QUEUE_MAX`] requests at once, none without a
//! deadline; the socket is root's alone; a socket file is replaced only by the holder of the instance lock.

use std::fs::Permissions;
use std::io;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::lock::InstanceLock;
use super::protocol::{self, REQUEST_BYTES_MAX, RefusalCode, Request, Response};

/// Most connections at once. One person and one monitoring agent are two; further ones wait in the
/// kernel's queue until a deadline ends one of these.
pub const CONNECTIONS_MAX: usize = 8;

/// Most requests that wait for the decision loop: one a connection.
pub const QUEUE_MAX: usize = CONNECTIONS_MAX;

/// How long a peer may take to send its line, and to take its answer.
const PEER_DEADLINE: Duration = Duration::from_secs(2);

/// How long the decision loop may take to answer: its longest round, and less than the client's patience.
const ANSWER_DEADLINE: Duration = Duration::from_millis(2500);

/// Pause after a failed accept (no file descriptors left), so that it is no busy loop.
const ACCEPT_RETRY: Duration = Duration::from_millis(200);

/// A request for the decision loop, and where its answer goes. A closed channel means that nobody waits.
#[derive(Debug)]
pub struct Call {
    /// What is asked; within its bounds.
    pub request: Request,
    /// Where the answer goes.
    pub reply: oneshot::Sender<Response>,
}

/// Why the socket could not be bound.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    /// Something else lies where the socket belongs.
    #[error("{} is not a socket, so it is left alone", .0.display())]
    NotASocket(PathBuf),
    /// The socket cannot be made.
    #[error("cannot bind control socket {}", path.display())]
    Io {
        /// Where.
        path: PathBuf,
        /// What the kernel said.
        #[source]
        source: io::Error,
    },
}

/// The bound socket. It is unlinked when this is dropped.
#[derive(Debug)]
pub struct ControlServer {
    listener: UnixListener,
    path: PathBuf,
    calls: mpsc::Sender<Call>,
    /// Held for as long as the socket file is ours to unlink.
    _lock: Arc<InstanceLock>,
}

impl ControlServer {
    /// Binds the socket and gives the queue that the decision loop reads. Needs a tokio runtime.
    ///
    /// A socket that a killed predecessor left is replaced; `lock` proves that there is no other
    /// instance that it could belong to.
    ///
    /// # Errors
    /// When something else lies at `path`, or the kernel refuses.
    pub fn bind(path: &Path, lock: Arc<InstanceLock>) -> Result<(Self, mpsc::Receiver<Call>), BindError> {
        let failed = |source: io::Error| BindError::Io { path: path.to_owned(), source };
        match std::fs::symlink_metadata(path) {
            Ok(there) if !there.file_type().is_socket() => return Err(BindError::NotASocket(path.to_owned())),
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(failed(error)),
        }
        // Bound under another name, closed to others, and only then put in place: there is no moment
        // at which the socket has the mode that the umask gave it, and none without a socket.
        let fresh = path.with_extension("new");
        match std::fs::remove_file(&fresh) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(error)),
            Ok(()) | Err(_) => {}
        }
        let listener = UnixListener::bind(&fresh).map_err(failed)?;
        std::fs::set_permissions(&fresh, Permissions::from_mode(0o600)).map_err(failed)?;
        rustix::fs::rename(&fresh, path).map_err(|errno| failed(errno.into()))?;
        let (calls, queue) = mpsc::channel(QUEUE_MAX);
        Ok((Self { listener, path: path.to_owned(), calls, _lock: lock }, queue))
    }

    /// Serves for ever.
    pub async fn serve(self) {
        let slots = Arc::new(Semaphore::new(CONNECTIONS_MAX));
        let mut connections = JoinSet::new();
        loop {
            while connections.try_join_next().is_some() {}
            let Ok(slot) = Arc::clone(&slots).acquire_owned().await else { return };
            match self.listener.accept().await {
                Ok((stream, _)) => {
                    let calls = self.calls.clone();
                    connections.spawn(async move {
                        let _slot = slot;
                        if let Err(error) = converse(stream, &calls).await {
                            tracing::debug!(%error, "a control connection broke off");
                        }
                    });
                }
                Err(error) => {
                    tracing::warn!(%error, "cannot accept a control connection");
                    tokio::time::sleep(ACCEPT_RETRY).await;
                }
            }
        }
    }
}

impl Drop for ControlServer {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_file(&self.path) {
            tracing::debug!(%error, path = %self.path.display(), "the control socket was not unlinked");
        }
    }
}

/// One connection, from its line to its answer.
async fn converse(mut stream: UnixStream, calls: &mpsc::Sender<Call>) -> io::Result<()> {
    let response = match permitted(&stream)? {
        Ok(()) => match timeout(PEER_DEADLINE, read_line(&mut stream)).await {
            Ok(line) => match protocol::parse(&line?) {
                Ok(request) => ask(request, calls).await,
                Err(refusal) => refusal,
            },
            Err(_) => refused(RefusalCode::BadRequest, "no whole line arrived within 2s"),
        },
        Err(refusal) => refusal,
    };
    let line = protocol::encode_response(&response)?;
    timeout(PEER_DEADLINE, async {
        stream.write_all(line.as_bytes()).await?;
        stream.shutdown().await
    })
    .await?
}

/// The mode of the socket keeps others out already; this also stands when a descriptor was passed on.
fn permitted(stream: &UnixStream) -> io::Result<Result<(), Response>> {
    let peer = stream.peer_cred()?.uid();
    let own = rustix::process::geteuid().as_raw();
    Ok(if peer == 0 || peer == own { Ok(()) } else { Err(refused(RefusalCode::NotPermitted, "only root may ask")) })
}

/// The first line, or all there is; one byte more than allowed is read, so that the parser can tell.
async fn read_line(stream: &mut UnixStream) -> io::Result<Vec<u8>> {
    let mut line = Vec::new();
    BufReader::new(stream.take(REQUEST_BYTES_MAX as u64 + 1)).read_until(b'\n', &mut line).await?;
    Ok(line)
}

async fn ask(request: Request, calls: &mpsc::Sender<Call>) -> Response {
    let (reply, answer) = oneshot::channel();
    if calls.try_send(Call { request, reply }).is_err() {
        return refused(RefusalCode::Busy, "the decision loop takes no requests");
    }
    match timeout(ANSWER_DEADLINE, answer).await {
        Ok(Ok(response)) => response,
        Ok(Err(_)) => refused(RefusalCode::Busy, "the decision loop is ending"),
        Err(_) => refused(RefusalCode::Busy, "the decision loop did not answer within 2.5s"),
    }
}

fn refused(code: RefusalCode, reason: &str) -> Response {
    Response::Refused { code, reason: reason.to_owned() }
}

#[cfg(test)]
mod tests;
