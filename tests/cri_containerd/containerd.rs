//! A containerd of the test's own: its directories, socket and image are in a temporary directory, and all of it ends with it.

#[path = "../etcd_proof/stopped.rs"]
mod stopped;

use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use hyper_util::rt::TokioIo;
use rustix::process::{Pid, Signal, kill_process};
use stopped::until_stopped;
use tokio::net::UnixStream;
use tonic::client::Grpc;
use tonic::codegen::http::Uri;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::{Channel, Endpoint};
use tonic_prost::ProstCodec;

use super::messages::{
    ContainerConfig, ContainerLinux, ContainerMetadata, ContainerSecurity, CreateContainer, Id, Image, Namespaces, Nothing,
    RunPodSandbox, Sandbox, SandboxLinux, SandboxMetadata, SecurityContext, StopContainer,
};

const IMAGE: &str = "docker.io/library/etcd:test";

/// How long a step may take on a busy machine.
const LIMIT: Duration = Duration::from_secs(60);

pub struct Containerd {
    dir: tempfile::TempDir,
    child: Child,
    sandbox: Option<String>,
}

fn write(path: &Path, text: &str) {
    File::create(path).unwrap().write_all(text.as_bytes()).unwrap();
}

fn run(program: &str, arguments: &[&str]) -> String {
    let output =
        Command::new(program).args(arguments).output().unwrap_or_else(|error| panic!("{program}: {error}; run scripts/setup"));
    assert!(output.status.success(), "{program} {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Waits for a condition with a limit.
pub async fn eventually<T>(what: &str, mut ask: impl AsyncFnMut() -> Option<T>) -> T {
    for _ in 0..1200 {
        if let Some(value) = ask().await {
            return value;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("never: {what}")
}

impl Containerd {
    pub async fn start() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name).display().to_string();
        fs::create_dir(at("cni")).unwrap();
        // Without CNI: the pod has the node's network, as etcd's has. Lowering oom_score_adj takes CAP_SYS_RESOURCE, which a container
        // that runs these tests may lack.
        let config = format!(
            "version = 2\nroot = \"{}\"\nstate = \"{}\"\n[grpc]\naddress = \"{}\"\n[ttrpc]\naddress = \"{}\"\n\
             [plugins.\"io.containerd.grpc.v1.cri\"]\nsandbox_image = \"{IMAGE}\"\nstream_server_address = \"127.0.0.1\"\nstream_server_port = \"0\"\nrestrict_oom_score_adj = true\n\
             [plugins.\"io.containerd.grpc.v1.cri\".containerd]\nsnapshotter = \"native\"\n\
             [plugins.\"io.containerd.grpc.v1.cri\".cni]\nbin_dir = \"{}\"\nconf_dir = \"{}\"\n",
            at("root"),
            at("state"),
            at("containerd.sock"),
            at("ttrpc.sock"),
            at("cni"),
            at("cni"),
        );
        write(&dir.path().join("config.toml"), &config);
        let log = File::create(dir.path().join("containerd.log")).unwrap();
        // It ends with the thread of its test, also when that is killed or aborts.
        let tied = ["--pdeathsig", "KILL", "--", "containerd", "--config", &at("config.toml")];
        let child = Command::new("setpriv").args(tied).stdout(Stdio::null()).stderr(log).spawn();
        let child = child.unwrap_or_else(|error| panic!("setpriv: {error}; run scripts/setup"));
        let containerd = Self { dir, child, sandbox: None };
        eventually("containerd serves", async || {
            let serves = Command::new("ctr").args(["--address", &containerd.at("containerd.sock"), "version"]).output().unwrap();
            serves.status.success().then_some(())
        })
        .await;
        containerd.import_image();
        containerd
    }

    pub fn socket(&self) -> PathBuf {
        self.dir.path().join("containerd.sock")
    }

    fn at(&self, name: &str) -> String {
        self.dir.path().join(name).display().to_string()
    }

    /// An image of one static program, in docker's archive format.
    fn import_image(&self) {
        fs::create_dir_all(self.at("layer/bin")).unwrap();
        fs::copy("/usr/bin/busybox", self.at("layer/bin/busybox")).expect("busybox-static; run scripts/setup");
        run("tar", &["-C", &self.at("layer"), "-cf", &self.at("layer.tar"), "."]);
        let digest = run("sha256sum", &[&self.at("layer.tar")]);
        let digest = digest.split_whitespace().next().unwrap();
        let arch = if cfg!(target_arch = "aarch64") { "arm64" } else { "amd64" };
        let config = format!(
            r#"{{"architecture":"{arch}","os":"linux","config":{{"Cmd":["/bin/busybox","sleep","100000"]}},"rootfs":{{"type":"layers","diff_ids":["sha256:{digest}"]}}}}"#
        );
        write(&self.dir.path().join("config.json"), &config);
        let manifest = format!(r#"[{{"Config":"config.json","RepoTags":["{IMAGE}"],"Layers":["layer.tar"]}}]"#);
        write(&self.dir.path().join("manifest.json"), &manifest);
        let dir = self.dir.path().to_str().unwrap();
        run("tar", &["-C", dir, "-cf", &self.at("image.tar"), "manifest.json", "config.json", "layer.tar"]);
        let (socket, image) = (self.at("containerd.sock"), self.at("image.tar"));
        run("ctr", &["--address", &socket, "--namespace", "k8s.io", "images", "import", "--snapshotter", "native", &image]);
    }

    async fn call<Q, A>(&self, method: &str, question: Q) -> A
    where
        Q: prost::Message + Default + 'static,
        A: prost::Message + Default + 'static,
    {
        let socket = self.socket();
        let connector = tower::service_fn(move |_: Uri| {
            let socket = socket.clone();
            async move { Ok::<_, std::io::Error>(TokioIo::new(UnixStream::connect(socket).await?)) }
        });
        let channel: Channel = Endpoint::from_static("http://localhost").connect_with_connector(connector).await.unwrap();
        let path = PathAndQuery::try_from(format!("/runtime.v1.RuntimeService/{method}")).unwrap();
        let mut grpc = Grpc::new(channel);
        let call = async {
            grpc.ready().await.unwrap();
            grpc.unary(tonic::Request::new(question), path, ProstCodec::<Q, A>::default()).await
        };
        let answer = tokio::time::timeout(LIMIT, call).await.unwrap_or_else(|_| panic!("{method} hangs"));
        answer.unwrap_or_else(|error| panic!("{method}: {error}; {}", self.log())).into_inner()
    }

    fn log(&self) -> String {
        fs::read_to_string(self.at("containerd.log")).unwrap_or_default()
    }

    fn sandbox(&self) -> Sandbox {
        let namespaces = Namespaces { network: 2, ipc: 2 };
        let security_context = SecurityContext { namespaces: Some(namespaces) };
        Sandbox {
            metadata: Some(SandboxMetadata { name: "etcd-cp1".into(), uid: "0123".into(), namespace: "kube-system".into() }),
            log_directory: self.at("logs"),
            linux: Some(SandboxLinux { security_context: Some(security_context) }),
        }
    }

    pub async fn run_sandbox(&mut self) {
        let Id { id } = self.call("RunPodSandbox", RunPodSandbox { config: Some(self.sandbox()) }).await;
        self.sandbox = Some(id);
    }

    /// A run of a container of etcd's pod, started; its id.
    pub async fn run_container(&self, name: &str, attempt: u32, script: &str) -> String {
        let labels = [("io.kubernetes.container.name", name), ("io.kubernetes.pod.namespace", "kube-system")];
        let namespaces = Some(Namespaces { network: 2, ipc: 2 });
        let config = ContainerConfig {
            metadata: Some(ContainerMetadata { name: name.into(), attempt }),
            image: Some(Image { image: IMAGE.into() }),
            command: ["/bin/busybox", "sh", "-c", script].map(str::to_owned).to_vec(),
            labels: labels.map(|(label, value)| (label.to_owned(), value.to_owned())).into(),
            log_path: format!("{name}/{attempt}.log"),
            linux: Some(ContainerLinux { security_context: Some(ContainerSecurity { namespaces }) }),
        };
        fs::create_dir_all(self.dir.path().join("logs").join(name)).unwrap();
        let pod_sandbox_id = self.sandbox.clone().unwrap();
        let question = CreateContainer { pod_sandbox_id, config: Some(config), sandbox_config: Some(self.sandbox()) };
        let Id { id } = self.call("CreateContainer", question).await;
        let _: Nothing = self.call("StartContainer", Id { id: id.clone() }).await;
        id
    }

    pub async fn stop_container(&self, id: &str) {
        let _: Nothing = self.call("StopContainer", StopContainer { container_id: id.to_owned(), timeout: 0 }).await;
    }

    /// The pod and its containers are gone.
    pub async fn remove_sandbox(&mut self) {
        if let Some(id) = self.sandbox.take() {
            let _: Nothing = self.call("StopPodSandbox", Id { id: id.clone() }).await;
            let _: Nothing = self.call("RemovePodSandbox", Id { id }).await;
        }
    }

    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
        if signal == Signal::STOP {
            until_stopped(self.child.id());
        }
    }
}

impl Drop for Containerd {
    fn drop(&mut self) {
        kill_process(Pid::from_child(&self.child), Signal::CONT).ok();
        kill_process(Pid::from_child(&self.child), Signal::TERM).ok();
        self.child.wait().ok();
        // Of a test that failed midway: the shims of this containerd name its socket, and end with their pods.
        let socket = self.at("containerd.sock");
        for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
            let Some(pid) = entry.file_name().to_str().and_then(|pid| pid.parse().ok()).and_then(Pid::from_raw) else { continue };
            let command = fs::read(entry.path().join("cmdline")).unwrap_or_default();
            let command = String::from_utf8_lossy(&command);
            if command.contains("containerd-shim") && command.contains(&socket) {
                let children =
                    fs::read_to_string(entry.path().join(format!("task/{}/children", pid.as_raw_pid()))).unwrap_or_default();
                for child in children.split_whitespace().filter_map(|pid| pid.parse().ok()).filter_map(Pid::from_raw) {
                    kill_process(child, Signal::KILL).ok();
                }
                kill_process(pid, Signal::KILL).ok();
            }
        }
        let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
        let ours =
            mounts.lines().filter_map(|line| line.split(' ').nth(1)).filter(|at| Path::new(at).starts_with(self.dir.path()));
        for mount in ours {
            rustix::mount::unmount(mount, rustix::mount::UnmountFlags::DETACH).ok();
        }
    }
}
