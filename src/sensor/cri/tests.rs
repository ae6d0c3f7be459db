//! The client against a stand-in of a runtime on a socket of its own: both versions of the interface, and runtimes that misbehave.

use std::collections::HashMap;
use std::convert::Infallible;
use std::future::{Future, ready};
use std::path::PathBuf;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use prost::Message;
use tokio::net::UnixListener;
use tokio::task::JoinHandle;
use tonic::Status;
use tonic::body::Body;
use tonic::codegen::Service;
use tonic::codegen::http::{Request, Response};
use tonic::server::{Grpc, NamedService, UnaryService};
use tonic::transport::Server;
use tonic_prost::ProstCodec;

use super::wire::{ContainerMetadata, ContainerStatus};
use super::*;

const LONG: Duration = Duration::from_secs(60);

/// What a runtime has.
#[derive(Debug, Clone, Default)]
struct Store {
    list: Vec<Container>,
    statuses: HashMap<String, ContainerStatusResponse>,
    hangs: bool,
}

/// A runtime of one version.
#[derive(Debug, Clone)]
struct Fake<const ALPHA: bool>(Store);

impl NamedService for Fake<false> {
    const NAME: &'static str = "runtime.v1.RuntimeService";
}

impl NamedService for Fake<true> {
    const NAME: &'static str = "runtime.v1alpha2.RuntimeService";
}

/// A method by what it answers.
struct Method<Q, A>(Box<dyn Fn(Q) -> Result<A, Status> + Send>);

impl<Q: 'static, A: Message + Send + 'static> UnaryService<Q> for Method<Q, A> {
    type Response = A;
    type Future = std::future::Ready<Result<tonic::Response<A>, Status>>;

    fn call(&mut self, request: tonic::Request<Q>) -> Self::Future {
        ready((self.0)(request.into_inner()).map(tonic::Response::new))
    }
}

impl<const ALPHA: bool> Service<Request<Body>> for Fake<ALPHA> {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let Store { list, statuses, hangs } = self.0.clone();
        Box::pin(async move {
            if hangs {
                std::future::pending::<()>().await;
            }
            let answer = if request.uri().path().ends_with("/ListContainers") {
                let method = move |_: ListContainersRequest| Ok(ListContainersResponse { containers: list.clone() });
                Grpc::new(ProstCodec::default()).unary(Method(Box::new(method)), request).await
            } else {
                let method = move |question: ContainerStatusRequest| {
                    assert!(question.verbose);
                    statuses.get(&question.container_id).cloned().ok_or_else(|| Status::not_found("no such container"))
                };
                Grpc::new(ProstCodec::default()).unary(Method(Box::new(method)), request).await
            };
            Ok(answer)
        })
    }
}

/// A runtime that runs until it is dropped.
struct Runs {
    _dir: tempfile::TempDir,
    socket: PathBuf,
    server: JoinHandle<()>,
}

impl Runs {
    fn start<S>(service: S) -> Self
    where
        S: Service<Request<Body>, Response = Response<Body>, Error = Infallible> + NamedService + Clone + Send + Sync + 'static,
        S::Future: Send + 'static,
    {
        let dir = tempfile::tempdir().unwrap();
        let socket = dir.path().join("cri.sock");
        let listener = UnixListener::bind(&socket).unwrap();
        let incoming = futures_util::stream::unfold(listener, async |listener| {
            let accepted = listener.accept().await.map(|(stream, _)| stream);
            Some((accepted, listener))
        });
        let server = Server::builder().add_service(service).serve_with_incoming(incoming);
        let server = tokio::spawn(async move { server.await.unwrap() });
        Self { _dir: dir, socket, server }
    }

    async fn runs(&self) -> Result<Vec<Run>, String> {
        tokio::time::timeout(LONG, runs(&self.socket, "kube-system", "etcd")).await.expect("the runtime hangs")
    }
}

impl Drop for Runs {
    fn drop(&mut self) {
        self.server.abort();
    }
}

fn labels(namespace: &str, name: &str) -> HashMap<String, String> {
    [(NAMESPACE, namespace), (NAME, name)].map(|(label, value)| (label.to_owned(), value.to_owned())).into()
}

fn status(attempt: u32, state: ContainerState, info: &str) -> ContainerStatusResponse {
    let status = ContainerStatus {
        metadata: Some(ContainerMetadata { name: "etcd".to_owned(), attempt }),
        state: state.into(),
        created_at: 1000 + i64::from(attempt),
        started_at: 2000,
        finished_at: if state == ContainerState::Exited { 3000 } else { 0 },
        exit_code: if state == ContainerState::Exited { 2 } else { 0 },
    };
    ContainerStatusResponse { status: Some(status), info: HashMap::from([("info".to_owned(), info.to_owned())]) }
}

fn store() -> Store {
    let container = |id: &str, created_at, labels| Container { id: id.to_owned(), created_at, labels };
    let list = vec![
        container("old", 1001, labels("kube-system", "etcd")),
        container("new", 1002, labels("kube-system", "etcd")),
        container("gone", 1000, labels("kube-system", "etcd")),
        container("stranger", 1009, labels("default", "etcd")),
        container("other", 1009, labels("kube-system", "kube-apiserver")),
    ];
    let statuses = [
        ("old", status(1, ContainerState::Exited, "{}")),
        ("new", status(2, ContainerState::Running, r#"{"sandboxID":"x","pid":4711}"#)),
    ];
    Store { list, statuses: statuses.map(|(id, status)| (id.to_owned(), status)).into(), hangs: false }
}

fn is_as_stored(runs: &[Run]) -> bool {
    let ended = Run {
        state: RunState::Exited,
        attempt: 1,
        created_at: 1001,
        started_at: 2000,
        finished_at: 3000,
        exit_code: 2,
        pid: None,
    };
    let running =
        Run { state: RunState::Running, attempt: 2, created_at: 1002, started_at: 2000, pid: Some(4711), ..Run::default() };
    runs == [running, ended]
}

#[tokio::test]
async fn both_versions_tell_the_runs_of_the_container_newest_first_and_of_no_other() {
    let new = Runs::start(Fake::<false>(store())).runs().await.unwrap();
    assert!(is_as_stored(&new), "{new:?}");
    let old = Runs::start(Fake::<true>(store())).runs().await.unwrap();
    assert!(is_as_stored(&old), "{old:?}");
    assert_eq!(Runs::start(Fake::<true>(Store::default())).runs().await, Ok(Vec::new()));
}

#[tokio::test]
async fn a_container_without_a_status_is_said() {
    let runtime = Runs::start(Fake::<false>(Store { statuses: HashMap::new(), ..store() }));
    let reason = runtime.runs().await.unwrap_err();
    assert!(
        reason.starts_with("the container runtime answers ContainerStatus with ") && reason.contains("no such container"),
        "{reason}"
    );
}

#[tokio::test]
async fn an_answer_without_measure_is_refused() {
    let long = Container { id: "x".repeat(2 << 20), ..Container::default() };
    let reason = Runs::start(Fake::<false>(Store { list: vec![long], ..store() })).runs().await.unwrap_err();
    assert!(reason.contains("ListContainers"), "{reason}");
}

#[tokio::test]
async fn a_socket_that_nobody_serves_or_that_is_not_there_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("cri.sock");
    let absent = runs(&socket, "kube-system", "etcd").await.unwrap_err();
    assert!(absent.contains("cri.sock cannot be reached: No such file"), "{absent}");
    drop(UnixListener::bind(&socket).unwrap());
    let dead = runs(&socket, "kube-system", "etcd").await.unwrap_err();
    assert!(dead.contains("cri.sock cannot be reached: Connection refused"), "{dead}");
}

/// Connections to that socket whose server has taken them (state 03); they go when the client hangs up.
fn clients(socket: &Path) -> usize {
    let table = std::fs::read_to_string("/proc/self/net/unix").unwrap();
    let name = socket.to_str().unwrap();
    table.lines().filter(|line| line.ends_with(name) && line.split_whitespace().nth(5) == Some("03")).count()
}

async fn until_clients(socket: &Path, wanted: usize) {
    for _ in 0..6000 {
        if clients(socket) == wanted {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("{} connections, not {wanted}", clients(socket));
}

#[tokio::test]
async fn a_question_that_is_given_up_leaves_no_connection_to_a_runtime_that_hangs() {
    let hung = Runs::start(Fake::<false>(Store { hangs: true, ..store() }));
    let ask = || {
        let socket = hung.socket.clone();
        tokio::spawn(async move { runs(&socket, "kube-system", "etcd").await })
    };
    let questions: Vec<_> = (0..5).map(|_| ask()).collect();
    until_clients(&hung.socket, questions.len()).await;
    for question in questions {
        question.abort();
    }
    until_clients(&hung.socket, 0).await;
}

#[tokio::test]
async fn a_runtime_that_is_stopped_is_waited_for_only_as_long_as_the_caller_likes() {
    // The kernel accepts for it.
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("cri.sock");
    let _listener = UnixListener::bind(&socket).unwrap();
    let asked = tokio::time::timeout(Duration::from_millis(50), runs(&socket, "kube-system", "etcd")).await;
    assert!(asked.is_err(), "{asked:?}");
}

#[test]
fn a_pid_is_read_only_where_it_is_one() {
    assert_eq!(pid_in(r#"{"pid":7,"sandboxID":"x"}"#), Some(7));
    for none in [r#"{"pid":0}"#, r#"{"pid":-1}"#, r#"{"pid":"7"}"#, r#"{"pid":4294967296}"#, "{}", "[", ""] {
        assert_eq!(pid_in(none), None, "{none}");
    }
}
