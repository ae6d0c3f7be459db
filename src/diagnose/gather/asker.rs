//! How members are asked over TLS: with the policy's CA, client certificate and key, read once for all looks of a diagnosis.
//!
//! Invariant: the files are read at most once a diagnosis, aside; whoever asks first reads, the others wait for that. May be dropped at
//! any await: another one that waits reads then.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::OnceCell;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

use super::aside::{Aside, late};
use super::{connect, http};
use crate::diagnose::evidence::Tls;
use crate::policy::EtcdPolicy;
use crate::runtime::small_file;

/// For the three files together; a healthy disk takes some microseconds.
const FILES_TIME: Duration = Duration::from_millis(700);
/// The largest of those files that is read; real ones have 1 to 4 KiB.
const PEM_BYTES_MAX: usize = 1 << 20;
/// Most certificates of a file that are taken.
const CERTIFICATES_MAX: usize = 64;

static FILES: Aside = Aside::new("the etcd client's certificate files");

/// Asks members; cheap to make, reads nothing before it is used.
#[derive(Debug)]
pub(super) struct Asker {
    policy: EtcdPolicy,
    client: OnceCell<Result<Client, String>>,
}

/// What the policy's files make.
#[derive(Clone)]
pub(super) struct Client {
    connector: TlsConnector,
    /// Why no client certificate is shown; every member of etcd's refuses us then.
    pub(super) anonymous: Option<String>,
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Client").field("anonymous", &self.anonymous).finish_non_exhaustive()
    }
}

impl Asker {
    pub(super) fn new(policy: &EtcdPolicy) -> Self {
        Self { policy: policy.clone(), client: OnceCell::new() }
    }

    /// The TLS client, or why there is none. Without a usable certificate or key it is an anonymous one: a handshake tells much still.
    pub(super) async fn client(&self) -> Result<&Client, String> {
        let read = async || {
            let policy = self.policy.clone();
            FILES.read(FILES_TIME, move || load(&policy)).await.and_then(std::convert::identity)
        };
        self.client.get_or_init(read).await.as_ref().map_err(Clone::clone)
    }

    /// The body of the answer to `GET path`, asked as `host` (an address or a name in its certificate), within `deadline` in all.
    /// `body_max` bounds it. Anything but status 200 is an error. Errors are parts of a sentence.
    pub(super) async fn get(
        &self,
        (host, address): (&str, SocketAddr),
        path: &str,
        body_max: usize,
        deadline: Duration,
    ) -> Result<Vec<u8>, String> {
        let ask = async {
            let client = self.client().await?;
            let (how, stream) = connect::open(address, None, deadline).await;
            let stream = stream.ok_or_else(|| connect::say(&how.connect))?;
            let mut stream = client.shake_hands(server_name(host)?, stream).await.map_err(|tls| say(&tls))?;
            let answer = http::ask(&mut stream, http::closing(host, path).as_bytes(), body_max).await;
            match answer {
                Ok(answer) if answer.status == 200 => Ok(answer.body),
                Ok(answer) => Err(format!("GET {path} was answered with status {}", answer.status)),
                Err(error) => Err(say(&super::tls::classify(&error, true))),
            }
        };
        timeout(deadline, ask).await.unwrap_or_else(|_| Err(late(&format!("GET {path} from {address}"), deadline)))
    }
}

impl Client {
    /// TLS over an open connection. Has no deadline.
    pub(super) async fn shake_hands<S>(&self, name: ServerName<'static>, stream: S) -> Result<TlsStream<S>, Tls>
    where
        S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin,
    {
        self.connector.connect(name, stream).await.map_err(|error| super::tls::classify(&error, false))
    }
}

/// The name that a certificate is checked for.
pub(super) fn server_name(host: &str) -> Result<ServerName<'static>, String> {
    if let Ok(address) = host.parse::<IpAddr>() {
        return Ok(ServerName::IpAddress(address.into()));
    }
    ServerName::try_from(host.to_owned()).map_err(|_| format!("{host} is no name for a certificate"))
}

fn say(tls: &Tls) -> String {
    match tls {
        Tls::Answered => "TLS succeeded".to_owned(),
        Tls::TimedOut => "TLS timed out".to_owned(),
        Tls::Untrusted(text) => format!("its certificate is not trusted: {text}"),
        Tls::RefusedOurs(text) => format!("it refuses our certificate: {text}"),
        Tls::Failed(text) => format!("TLS failed: {text}"),
    }
}

fn load(policy: &EtcdPolicy) -> Result<Client, String> {
    let read = |path: &std::path::Path| {
        small_file::read(path, PEM_BYTES_MAX).map_err(|error| format!("cannot read {}: {error}", path.display()))
    };
    let mut roots = RootCertStore::empty();
    let ca = certificates(&read(&policy.ca)?).map_err(|error| format!("{}: {error}", policy.ca.display()))?;
    roots.add_parsable_certificates(ca);
    if roots.is_empty() {
        return Err(format!("{} holds no usable CA certificate", policy.ca.display()));
    }
    let builder = || {
        ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map(|builder| builder.with_root_certificates(roots.clone()))
            .map_err(|error| format!("no TLS versions: {error}"))
    };
    let identified = read(&policy.cert).and_then(|cert| {
        let chain = certificates(&cert).map_err(|error| format!("{}: {error}", policy.cert.display()))?;
        let key =
            PrivateKeyDer::from_pem_slice(&read(&policy.key)?).map_err(|error| format!("{}: {error}", policy.key.display()))?;
        builder()?
            .with_client_auth_cert(chain, key)
            .map_err(|error| format!("{} with {}: {error}", policy.cert.display(), policy.key.display()))
    });
    let (config, anonymous) = match identified {
        Ok(config) => (config, None),
        Err(why) => (builder()?.with_no_client_auth(), Some(why)),
    };
    Ok(Client { connector: TlsConnector::from(Arc::new(config)), anonymous })
}

fn certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, String> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).take(CERTIFICATES_MAX).collect();
    found.map_err(|error| error.to_string())
}
