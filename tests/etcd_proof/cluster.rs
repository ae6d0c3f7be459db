//! Real etcd members on loopback with mTLS, ended by the process id that was started.

#[path = "stopped.rs"]
mod stopped;

use std::fs::File;
use std::io::Write;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use fip_watchdog::policy::{EtcdPolicy, Policy};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose, date_time_ymd,
};
use rustix::process::{Pid, Signal, kill_process};
use stopped::until_stopped;
use tempfile::TempDir;

const ETCD: &str = "/usr/bin/etcd";

/// A certificate authority that writes what it issues into a directory.
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pub ca: PathBuf,
}

/// A certificate and its key.
pub struct Identity {
    pub cert: PathBuf,
    pub key: PathBuf,
}

impl Authority {
    pub fn new(dir: &Path, name: &str) -> Self {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
        let key = KeyPair::generate().unwrap();
        let ca = dir.join(format!("{name}.crt"));
        write(&ca, &params.self_signed(&key).unwrap().pem());
        Self { issuer: Issuer::new(params, key), ca }
    }

    pub fn issue(&self, dir: &Path, name: &str, last_year: i32) -> Identity {
        let mut params = CertificateParams::new(vec!["127.0.0.1".to_owned(), "localhost".to_owned()]).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        params.not_after = date_time_ymd(last_year, 1, 1);
        let key = KeyPair::generate().unwrap();
        let identity = Identity { cert: dir.join(format!("{name}.crt")), key: dir.join(format!("{name}.key")) };
        write(&identity.cert, &params.signed_by(&key, &self.issuer).unwrap().pem());
        write(&identity.key, &key.serialize_pem());
        identity
    }
}

pub fn write(path: &Path, text: &str) {
    File::create(path).unwrap().write_all(text.as_bytes()).unwrap();
}

/// Some members, their certificates, and a directory for all of it.
pub struct Cluster {
    pub dir: TempDir,
    pub authority: Authority,
    pub server: Identity,
    pub members: Vec<Member>,
}

pub struct Member {
    pub endpoint: String,
    pub arguments: Vec<String>,
    log: PathBuf,
    child: Option<Child>,
}

impl Cluster {
    pub fn start(size: usize) -> Self {
        assert!(Path::new(ETCD).exists(), "this test needs {ETCD}: apt-get install etcd-server, and leave its service stopped");
        let dir = TempDir::new().unwrap();
        let authority = Authority::new(dir.path(), "etcd-ca");
        let server = authority.issue(dir.path(), "server", 4000);
        let ports = free_ports(size * 2);
        let peers: Vec<String> = (0..size).map(|n| format!("m{n}=https://127.0.0.1:{}", ports[size + n])).collect();
        let members = (0..size)
            .map(|n| {
                let urls = (format!("https://127.0.0.1:{}", ports[n]), format!("https://127.0.0.1:{}", ports[size + n]));
                Member::new(dir.path(), n, urls, &peers.join(","), &authority, &server)
            })
            .collect();
        let mut cluster = Self { dir, authority, server, members };
        for member in &mut cluster.members {
            member.start();
        }
        cluster
    }

    /// The policy of a watchdog beside member `n`.
    pub fn policy(&self, n: usize) -> EtcdPolicy {
        EtcdPolicy {
            endpoint: self.members[n].endpoint.clone(),
            ca: self.authority.ca.clone(),
            cert: self.server.cert.clone(),
            key: self.server.key.clone(),
            ..Policy::with_defaults([192, 168, 111, 200].into(), "eth0").etcd
        }
    }
}

impl Member {
    fn new(dir: &Path, n: usize, (client, peer): (String, String), all: &str, authority: &Authority, server: &Identity) -> Self {
        let show = |path: &Path| path.display().to_string();
        let (ca, cert, key) = (show(&authority.ca), show(&server.cert), show(&server.key));
        let pairs = [
            ("--name", format!("m{n}")),
            ("--data-dir", show(&dir.join(format!("m{n}")))),
            ("--listen-client-urls", client.clone()),
            ("--advertise-client-urls", client.clone()),
            ("--listen-peer-urls", peer.clone()),
            ("--initial-advertise-peer-urls", peer),
            ("--initial-cluster", all.to_owned()),
            ("--trusted-ca-file", ca.clone()),
            ("--cert-file", cert.clone()),
            ("--key-file", key.clone()),
            ("--peer-trusted-ca-file", ca),
            ("--peer-cert-file", cert),
            ("--peer-key-file", key),
            ("--logger", "zap".to_owned()),
        ];
        let mut arguments: Vec<String> = pairs.into_iter().flat_map(|(flag, value)| [flag.to_owned(), value]).collect();
        arguments.extend(["--client-cert-auth", "--peer-client-cert-auth"].map(str::to_owned));
        Self { endpoint: client, arguments, log: dir.join(format!("m{n}.log")), child: None }
    }

    pub fn start(&mut self) {
        let log = File::options().create(true).append(true).open(&self.log).unwrap();
        // It ends with the thread of its test, also when that is killed or aborts.
        let child = Command::new("setpriv")
            .args(["--pdeathsig", "KILL", "--", ETCD])
            .args(&self.arguments)
            .env_clear()
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .unwrap();
        self.child = Some(child);
    }

    pub fn signal(&self, signal: Signal) {
        let child = self.child.as_ref().unwrap();
        kill_process(Pid::from_child(child), signal).unwrap();
        if signal == Signal::STOP {
            until_stopped(child.id());
        }
    }

    /// SIGKILL, and wait until it is gone.
    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Ports that nobody uses now: all are held until all are chosen.
fn free_ports(count: usize) -> Vec<u16> {
    let held: Vec<TcpListener> = (0..count).map(|_| TcpListener::bind("127.0.0.1:0").unwrap()).collect();
    held.iter().map(|listener| listener.local_addr().unwrap().port()).collect()
}

/// Ask until the answer is as wanted; the last answer is in the panic.
pub async fn eventually<T: std::fmt::Debug>(what: &str, mut ask: impl AsyncFnMut() -> T, wanted: impl Fn(&T) -> bool) -> T {
    const TRIES: u32 = 600;
    let mut last = None;
    for _ in 0..TRIES {
        let answer = ask().await;
        if wanted(&answer) {
            return answer;
        }
        last = Some(answer);
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("{what}: not within {TRIES} tries; last answer {last:?}");
}
