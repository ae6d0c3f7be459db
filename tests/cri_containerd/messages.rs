//! The messages of the Container Runtime Interface by which a kubelet makes a static pod: as much of them as these tests need.

use std::collections::HashMap;

#[derive(Clone, PartialEq, prost::Message)]
pub struct RunPodSandbox {
    #[prost(message, optional, tag = "1")]
    pub config: Option<Sandbox>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct Sandbox {
    #[prost(message, optional, tag = "1")]
    pub metadata: Option<SandboxMetadata>,
    #[prost(string, tag = "3")]
    pub log_directory: String,
    #[prost(message, optional, tag = "8")]
    pub linux: Option<SandboxLinux>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct SandboxMetadata {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(string, tag = "2")]
    pub uid: String,
    #[prost(string, tag = "3")]
    pub namespace: String,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct SandboxLinux {
    #[prost(message, optional, tag = "2")]
    pub security_context: Option<SecurityContext>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct SecurityContext {
    #[prost(message, optional, tag = "1")]
    pub namespaces: Option<Namespaces>,
}

/// 2 is the node's own namespace.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Namespaces {
    #[prost(int32, tag = "1")]
    pub network: i32,
    #[prost(int32, tag = "3")]
    pub ipc: i32,
}

/// Answers to `RunPodSandbox` and `CreateContainer`, and questions of `StartContainer`, `RemovePodSandbox` and `StopPodSandbox`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Id {
    #[prost(string, tag = "1")]
    pub id: String,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct CreateContainer {
    #[prost(string, tag = "1")]
    pub pod_sandbox_id: String,
    #[prost(message, optional, tag = "2")]
    pub config: Option<ContainerConfig>,
    #[prost(message, optional, tag = "3")]
    pub sandbox_config: Option<Sandbox>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct ContainerConfig {
    #[prost(message, optional, tag = "1")]
    pub metadata: Option<ContainerMetadata>,
    #[prost(message, optional, tag = "2")]
    pub image: Option<Image>,
    #[prost(string, repeated, tag = "3")]
    pub command: Vec<String>,
    #[prost(map = "string, string", tag = "9")]
    pub labels: HashMap<String, String>,
    #[prost(string, tag = "11")]
    pub log_path: String,
    #[prost(message, optional, tag = "15")]
    pub linux: Option<ContainerLinux>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct ContainerMetadata {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(uint32, tag = "2")]
    pub attempt: u32,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct Image {
    #[prost(string, tag = "1")]
    pub image: String,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct ContainerLinux {
    #[prost(message, optional, tag = "2")]
    pub security_context: Option<ContainerSecurity>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct ContainerSecurity {
    #[prost(message, optional, tag = "3")]
    pub namespaces: Option<Namespaces>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct StopContainer {
    #[prost(string, tag = "1")]
    pub container_id: String,
    #[prost(int64, tag = "2")]
    pub timeout: i64,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct Nothing {}
