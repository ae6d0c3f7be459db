//! A server that speaks TLS and as much HTTP as etcd's mux does, in as many wrong ways as a test wants.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use fip_watchdog::policy::{EtcdPolicy, Policy};
use rcgen::{
    BasicConstraints, CertificateParams, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose, date_time_ymd,
};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::version::{TLS12, TLS13};
use tokio_rustls::rustls::{RootCertStore, ServerConfig, SupportedProtocolVersion};

/// A CA.
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pub pem: String,
}

/// A certificate with its key, both PEM.
pub struct Identity {
    pub cert: String,
    pub key: String,
}

impl Authority {
    pub fn new() -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
        let key = KeyPair::generate().unwrap();
        let pem = params.self_signed(&key).unwrap().pem();
        Self { issuer: Issuer::new(params, key), pem }
    }

    /// For 127.0.0.1 and the addresses of a test's segment, valid and good for everything, but for what `change` changes.
    pub fn issue(&self, change: impl FnOnce(&mut CertificateParams)) -> Identity {
        let names = ["127.0.0.1", "192.168.111.201", "192.168.111.202", "192.168.112.2"].map(str::to_owned);
        let mut params = CertificateParams::new(names).unwrap();
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        params.not_after = date_time_ymd(4000, 1, 1);
        change(&mut params);
        let key = KeyPair::generate().unwrap();
        Identity { cert: params.signed_by(&key, &self.issuer).unwrap().pem(), key: key.serialize_pem() }
    }
}

/// The files of a watchdog's etcd client.
pub struct Files {
    dir: TempDir,
}

impl Files {
    pub fn new(ca: &Authority, client: &Identity) -> Self {
        let files = Self { dir: TempDir::new().unwrap() };
        for (name, text) in [("ca", &ca.pem), ("cert", &client.cert), ("key", &client.key)] {
            write(&files.path(name), text);
        }
        files
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub fn policy(&self) -> EtcdPolicy {
        EtcdPolicy {
            ca: self.path("ca"),
            cert: self.path("cert"),
            key: self.path("key"),
            ..Policy::with_defaults([192, 168, 111, 200].into(), "eth0").etcd
        }
    }
}

fn write(path: &Path, text: &str) {
    #[expect(clippy::disallowed_methods, reason = "a file of the test's own")]
    fs::write(path, text).unwrap();
}

/// How a stand-in serves.
pub struct Server {
    acceptor: TlsAcceptor,
    /// The `Date` of its answers.
    pub date: String,
}

impl Server {
    /// Demands a client's certificate of `ca`, as etcd does.
    pub fn new(ca: &Authority, identity: &Identity, version: &'static SupportedProtocolVersion) -> Self {
        let provider = Arc::new(ring::default_provider());
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(ca.pem.as_bytes()).unwrap()).unwrap();
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider)).build().unwrap();
        let config = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&[version])
            .unwrap()
            .with_client_cert_verifier(verifier)
            .with_single_cert(
                vec![CertificateDer::from_pem_slice(identity.cert.as_bytes()).unwrap()],
                PrivateKeyDer::from_pem_slice(identity.key.as_bytes()).unwrap(),
            )
            .unwrap();
        Self { acceptor: TlsAcceptor::from(Arc::new(config)), date: "Thu, 01 Jan 2026 00:00:00 GMT".to_owned() }
    }

    /// Serves on the runtime of the caller until that ends.
    pub fn serve(self, listener: TcpListener) {
        let server = Arc::new(self);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let server = Arc::clone(&server);
                // A client that hangs up, or one that is refused, ends its own task.
                tokio::spawn(async move { server.answer(stream).await.ok() });
            }
        });
    }

    async fn answer(&self, stream: TcpStream) -> std::io::Result<()> {
        let mut stream = self.acceptor.accept(stream).await?;
        loop {
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                let byte = stream.read_u8().await?;
                head.push(byte);
                assert!(head.len() < 64 << 10, "a head without an end");
            }
            let head = String::from_utf8(head).unwrap();
            let path = head.split(' ').nth(1).unwrap();
            let (status, body) = if path == "/version" {
                ("200 OK", r#"{"etcdserver":"3.4.23"}"#.to_owned())
            } else {
                ("301 Moved Permanently", path.replacen("/.", "", 1))
            };
            let answer = format!(
                "HTTP/1.1 {status}\r\nDate: {}\r\nLocation: {body}\r\nContent-Length: {}\r\n\r\n{body}",
                self.date,
                body.len()
            );
            stream.write_all(answer.as_bytes()).await?;
            stream.flush().await?;
            if head.contains("HTTP/1.0") {
                return stream.shutdown().await;
            }
        }
    }
}

/// The two versions that etcd speaks.
pub const VERSIONS: [&SupportedProtocolVersion; 2] = [&TLS13, &TLS12];
