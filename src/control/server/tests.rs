//! Server and client against each other, and the server against peers that misbehave.

use std::os::unix::net::UnixStream as BlockingStream;

use super::*;
use crate::control::client::{self, ClientError, DEADLINE};
use crate::control::lock::tests::acquire_soon;

const WALL: Duration = Duration::from_secs(1_796_005_000);

struct Bench {
    dir: tempfile::TempDir,
    queue: mpsc::Receiver<Call>,
    serving: tokio::task::JoinHandle<()>,
}

impl Bench {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let lock = Arc::new(InstanceLock::acquire(&dir.path().join("lock"), WALL).unwrap());
        let (server, queue) = ControlServer::bind(&dir.path().join("control.sock"), lock).unwrap();
        let serving = tokio::spawn(server.serve());
        Self { dir, queue, serving }
    }

    fn path(&self) -> PathBuf {
        self.dir.path().join("control.sock")
    }

    /// The client's answer, asked from a thread as the command line would.
    fn ask(&self, request: Request) -> tokio::task::JoinHandle<Result<Response, ClientError>> {
        let path = self.path();
        tokio::task::spawn_blocking(move || client::ask(&path, &request, DEADLINE))
    }

    /// What raw bytes are answered with.
    async fn send(&self, bytes: &[u8]) -> Response {
        let mut stream = UnixStream::connect(self.path()).await.unwrap();
        stream.write_all(bytes).await.unwrap();
        stream.shutdown().await.unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await.unwrap();
        protocol::parse_response(&answer).unwrap()
    }
}

fn code(response: &Response) -> Option<RefusalCode> {
    if let Response::Refused { code, .. } = response { Some(*code) } else { None }
}

#[tokio::test]
async fn a_request_reaches_the_loop_and_its_answer_the_client() {
    let mut bench = Bench::new();
    let asked = bench.ask(Request::Pause { reason: "upgrade".to_owned(), length: Duration::from_secs(60) });
    let call = bench.queue.recv().await.unwrap();
    assert_eq!(call.request, Request::Pause { reason: "upgrade".to_owned(), length: Duration::from_secs(60) });
    call.reply.send(Response::Paused { for_ms: 60_000 }).unwrap();
    assert_eq!(asked.await.unwrap().unwrap(), Response::Paused { for_ms: 60_000 });
}

#[tokio::test]
async fn the_socket_is_for_its_owner_alone_and_goes_with_the_server() {
    let bench = Bench::new();
    let mode = std::fs::metadata(bench.path()).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let lock = bench.dir.path().join("lock");
    assert!(InstanceLock::acquire(&lock, WALL).is_err(), "the server keeps the lock");
    bench.serving.abort();
    assert!(bench.serving.await.unwrap_err().is_cancelled());
    let path = bench.dir.path().join("control.sock");
    assert!(!path.exists());
    drop(acquire_soon(&lock));
    let error = client::ask(&path, &Request::Status, DEADLINE).unwrap_err();
    assert!(matches!(error, ClientError::NotRunning(_)), "{error}");
}

#[tokio::test]
async fn a_socket_left_by_a_killed_instance_is_replaced_and_nothing_else_is() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("control.sock");
    drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
    let error = client::ask(&path, &Request::Status, DEADLINE).unwrap_err();
    assert!(matches!(error, ClientError::NotRunning(_)), "{error}");
    let lock = Arc::new(InstanceLock::acquire(&dir.path().join("lock"), WALL).unwrap());
    let bound = ControlServer::bind(&path, Arc::clone(&lock)).unwrap();
    drop(BlockingStream::connect(&path).unwrap());
    drop(bound);
    std::fs::File::create(&path).unwrap();
    assert!(matches!(ControlServer::bind(&path, Arc::clone(&lock)), Err(BindError::NotASocket(_))));
    assert!(path.exists());
}

#[tokio::test]
async fn nonsense_is_answered_and_never_reaches_the_loop() {
    let mut bench = Bench::new();
    for bytes in [&b""[..], b"\n", b"\xff\xfe\n", b"{\"command\":\"reboot\"}\n", b"{\"command\":\"pause\"}\n", b"[[[[[["] {
        assert_eq!(code(&bench.send(bytes).await), Some(RefusalCode::BadRequest), "{bytes:?}");
    }
    assert_eq!(code(&bench.send(b"{\"version\":9,\"command\":\"status\"}\n").await), Some(RefusalCode::BadVersion));
    assert!(bench.queue.try_recv().is_err());
}

#[tokio::test]
async fn a_line_longer_than_allowed_is_refused_at_the_bound() {
    let bench = Bench::new();
    // Exactly one byte too many, all of which the server reads: with more left unread, the close of a
    // Unix socket resets the connection and the answer may be lost.
    let response = bench.send(&vec![b' '; REQUEST_BYTES_MAX + 1]).await;
    let Response::Refused { code: RefusalCode::BadRequest, reason } = response else { panic!("{response:?}") };
    assert_eq!(reason, "request is longer than 65536 bytes");
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_sends_no_line_is_cut_off_at_its_deadline() {
    let bench = Bench::new();
    let mut stream = UnixStream::connect(bench.path()).await.unwrap();
    stream.write_all(b"{\"command\":").await.unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.unwrap();
    let response = protocol::parse_response(&answer).unwrap();
    assert_eq!(code(&response), Some(RefusalCode::BadRequest));
}

#[tokio::test(start_paused = true)]
async fn a_loop_that_does_not_answer_is_named_busy() {
    let mut bench = Bench::new();
    let answer = bench.send(b"{\"command\":\"status\"}\n").await;
    assert_eq!(code(&answer), Some(RefusalCode::Busy));
    assert!(bench.queue.recv().await.unwrap().reply.is_closed());
}

#[tokio::test]
async fn a_ninth_connection_waits_for_one_of_the_eight_to_end() {
    let mut bench = Bench::new();
    let mut held = Vec::new();
    let mut peers = Vec::new();
    for _ in 0..CONNECTIONS_MAX {
        let mut peer = UnixStream::connect(bench.path()).await.unwrap();
        peer.write_all(b"{\"command\":\"status\"}\n").await.unwrap();
        held.push(bench.queue.recv().await.unwrap());
        peers.push(peer);
    }
    let mut ninth = UnixStream::connect(bench.path()).await.unwrap();
    ninth.write_all(b"{\"command\":\"resume\"}\n").await.unwrap();
    // Far more turns than the server needs to read the ninth request, if it had a slot for it.
    for _ in 0..1000 {
        tokio::task::yield_now().await;
    }
    let early = bench.queue.try_recv();
    assert!(early.is_err() || held.iter().any(|call| call.reply.is_closed()), "a ninth connection was served beside eight");
    held.remove(0).reply.send(Response::Resumed { was_paused: true }).ok();
    let call = if let Ok(call) = early { call } else { bench.queue.recv().await.unwrap() };
    assert_eq!(call.request, Request::Resume);
}

#[tokio::test]
async fn a_daemon_that_hangs_is_a_time_out_and_one_that_talks_nonsense_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("control.sock");
    let listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
    let error = client::ask(&path, &Request::Status, Duration::from_millis(50)).unwrap_err();
    assert!(matches!(error, ClientError::TimedOut { .. }), "{error}");
    // The first connection is still in the queue of the listener.
    drop(listener.accept().unwrap());
    let answering = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        io::Write::write_all(&mut stream, b"ssh-2.0\n").unwrap();
    });
    let error = client::ask(&path, &Request::Status, DEADLINE).unwrap_err();
    answering.join().unwrap();
    assert!(matches!(error, ClientError::NotUnderstood { .. } | ClientError::Io { .. }), "{error}");
}
