//! The one kept connection to the local member.
//!
//! Connects when first used. After an error the client is thrown away, and the next one reads the
//! certificates anew, because kubeadm renews them in place. After mere timeouts it is kept for a while:
//! a client whose TLS handshake hangs (etcd stopped, its backlog still accepts) cannot be torn down,
//! and building one a second would pile up descriptors for as long as etcd hangs.
//!
//! Cancel-safe: the slot is changed between awaits only.

use std::io::Read;
use std::net::Ipv4Addr;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use etcd_client::{Certificate, Client, ConnectOptions, Identity, TlsOptions};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::fault;
use super::members::Members;
use crate::decision::observation::EtcdFault;
use crate::decision::time::Moment;
use crate::policy::EtcdPolicy;
use crate::runtime::clock;

/// How long timeouts go on before the client is replaced for the first time; doubled each time.
const REPLACE_AFTER: Duration = Duration::from_secs(10);
/// The longest that `REPLACE_AFTER` grows to: at most one hung descriptor an hour.
const REPLACE_AFTER_MAX: Duration = Duration::from_secs(3600);
/// A TCP connect on loopback takes microseconds; this only makes a dropped SYN retry.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);
/// How long the handshake of a link that is used once may hang: longer than any question waits, so that it is the question that times out.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(6);
/// The largest certificate or key file that is read; real ones have 1 to 4 KiB.
const PEM_BYTES_MAX: u64 = 1 << 20;

/// Why there is no client.
#[derive(Debug)]
pub(super) enum NoClient {
    /// Our own side is not ready to ask; a reason for `Reading::Unknown`.
    CannotAsk(String),
    /// The client cannot be set up.
    Fault(EtcdFault),
}

/// A client, and what is known about its connection.
#[derive(Clone)]
pub(super) struct Kept {
    pub(super) client: Client,
    generation: u64,
    has_answered: Arc<AtomicBool>,
}

/// Where the kept client lives, shared by the sensor and its provers.
pub(super) struct EtcdLink {
    policy: EtcdPolicy,
    slot: Mutex<Slot>,
    /// One reader of certificate files at a time: on a hung disk it never comes back, and the others
    /// run into their deadlines instead of piling up threads.
    files: Arc<Semaphore>,
    /// How long a TLS handshake may hang before it is torn down; `None` for as long as the member does.
    handshake: Option<Duration>,
    pub(super) members: Members,
}

#[derive(Default)]
struct Slot {
    kept: Option<Kept>,
    generation: u64,
    silent_since: Option<Moment>,
    replacements: u32,
}

impl std::fmt::Debug for EtcdLink {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EtcdLink").field("endpoint", &self.policy.endpoint).finish_non_exhaustive()
    }
}

impl EtcdLink {
    pub(super) fn new(policy: EtcdPolicy, fip: Option<Ipv4Addr>) -> Self {
        Self { policy, slot: Mutex::default(), files: Arc::new(Semaphore::new(1)), handshake: None, members: Members::new(fip) }
    }

    /// A link for a single round: what hangs in it ends by itself, and all such links have one reader of files.
    pub(super) fn for_once(policy: EtcdPolicy) -> Self {
        static FILES: LazyLock<Arc<Semaphore>> = LazyLock::new(|| Arc::new(Semaphore::new(1)));
        Self { files: Arc::clone(&FILES), handshake: Some(HANDSHAKE_TIMEOUT), ..Self::new(policy, None) }
    }

    /// The deadline of one round of questions.
    pub(super) const fn deadline(&self) -> Duration {
        self.policy.deadline
    }

    /// The kept client, or a new one with the certificates as they are now.
    pub(super) async fn client(&self) -> Result<Kept, NoClient> {
        if let Some(kept) = self.slot().kept.clone() {
            return Ok(kept);
        }
        let turn = Arc::clone(&self.files).acquire_owned().await.map_err(|error| NoClient::CannotAsk(error.to_string()))?;
        // Whoever waited for the turn finds the client that the one before made.
        if let Some(kept) = self.slot().kept.clone() {
            return Ok(kept);
        }
        let (options, _turn) = self.options(turn).await.map_err(NoClient::CannotAsk)?;
        let client = Client::connect([&self.policy.endpoint], Some(options))
            .await
            .map_err(|error| NoClient::Fault(fault::classify_setup(&error)))?;
        let mut slot = self.slot();
        slot.generation += 1;
        let kept = Kept { client, generation: slot.generation, has_answered: Arc::default() };
        slot.kept = Some(kept.clone());
        Ok(kept)
    }

    /// A request was answered.
    pub(super) fn answered(&self, kept: &Kept) {
        kept.has_answered.store(true, Ordering::Relaxed);
        let mut slot = self.slot();
        slot.silent_since = None;
        slot.replacements = 0;
    }

    /// A request failed: classify, and let go of the client.
    pub(super) fn failed(&self, kept: &Kept, error: &etcd_client::Error) -> EtcdFault {
        self.drop_client(kept.generation);
        fault::classify(error, kept.has_answered.load(Ordering::Relaxed))
    }

    /// A request ran into the deadline: let go of the client only when that goes on.
    pub(super) fn timed_out(&self, kept: &Kept) {
        let now = clock::now();
        let mut slot = self.slot();
        let since = *slot.silent_since.get_or_insert(now);
        let patience = REPLACE_AFTER.saturating_mul(1 << slot.replacements.min(16)).min(REPLACE_AFTER_MAX);
        if now.since(since) >= patience {
            slot.silent_since = None;
            slot.replacements += 1;
            drop(slot);
            self.drop_client(kept.generation);
        }
    }

    fn drop_client(&self, generation: u64) {
        let mut slot = self.slot();
        if slot.kept.as_ref().is_some_and(|kept| kept.generation == generation) {
            slot.kept = None;
        }
    }

    fn slot(&self) -> MutexGuard<'_, Slot> {
        self.slot.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Read the files on a thread of their own, which keeps the turn for as long as it takes.
    async fn options(&self, turn: OwnedSemaphorePermit) -> Result<(ConnectOptions, OwnedSemaphorePermit), String> {
        let (policy, handshake) = (self.policy.clone(), self.handshake);
        let read = tokio::task::spawn_blocking(move || read_options(&policy, handshake).map(|options| (options, turn)));
        read.await.map_err(|error| format!("reading the etcd certificates failed: {error}"))?
    }
}

fn read_options(policy: &EtcdPolicy, handshake: Option<Duration>) -> Result<ConnectOptions, String> {
    let ca = read_pem("CA certificate", &policy.ca)?;
    let cert = read_pem("client certificate", &policy.cert)?;
    let key = read_pem("client key", &policy.key)?;
    let tls = TlsOptions::new().ca_certificate(Certificate::from_pem(ca)).identity(Identity::from_pem(cert, key));
    let tls = if let Some(timeout) = handshake { tls.timeout(timeout) } else { tls };
    Ok(ConnectOptions::new().with_tls(tls).with_connect_timeout(CONNECT_TIMEOUT))
}

fn read_pem(what: &str, path: &Path) -> Result<Vec<u8>, String> {
    let fail = |error: std::io::Error| format!("cannot read etcd {what} {}: {error}", path.display());
    // Without O_NONBLOCK, opening a pipe waits for its writer, and no later look would come past that one.
    let nonblock = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
    let file = std::fs::OpenOptions::new().read(true).custom_flags(nonblock).open(path).map_err(fail)?;
    if !file.metadata().map_err(fail)?.is_file() {
        return Err(format!("etcd {what} {} is no regular file", path.display()));
    }
    let mut bytes = Vec::new();
    file.take(PEM_BYTES_MAX).read_to_end(&mut bytes).map_err(fail)?;
    if bytes.is_empty() {
        return Err(format!("etcd {what} {} is empty", path.display()));
    }
    Ok(bytes)
}
