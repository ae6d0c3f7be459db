//! The messages of the Container Runtime Interface that are asked for here, with the fields that are used; the others are skipped.
//!
//! Numbers are those of `runtime.v1`, which `runtime.v1alpha2` (containerd up to 1.6, Kubernetes up to 1.25) shares.

use std::collections::HashMap;

/// `ListContainersRequest`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ListContainersRequest {
    /// Which.
    #[prost(message, optional, tag = "1")]
    pub filter: Option<ContainerFilter>,
}

/// `ContainerFilter`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ContainerFilter {
    /// Labels that the container must have.
    #[prost(map = "string, string", tag = "4")]
    pub label_selector: HashMap<String, String>,
}

/// `ListContainersResponse`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ListContainersResponse {
    /// Those that are there, whatever their state.
    #[prost(message, repeated, tag = "1")]
    pub containers: Vec<Container>,
}

/// `Container`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Container {
    /// Its id.
    #[prost(string, tag = "1")]
    pub id: String,
    /// Nanoseconds since the Unix epoch.
    #[prost(int64, tag = "7")]
    pub created_at: i64,
    /// Its labels.
    #[prost(map = "string, string", tag = "8")]
    pub labels: HashMap<String, String>,
}

/// `ContainerStatusRequest`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ContainerStatusRequest {
    /// Which.
    #[prost(string, tag = "1")]
    pub container_id: String,
    /// With what the runtime itself has to say.
    #[prost(bool, tag = "2")]
    pub verbose: bool,
}

/// `ContainerStatusResponse`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ContainerStatusResponse {
    /// The status.
    #[prost(message, optional, tag = "1")]
    pub status: Option<ContainerStatus>,
    /// What the runtime itself has to say: containerd and CRI-O put JSON with a `pid` under `info`.
    #[prost(map = "string, string", tag = "2")]
    pub info: HashMap<String, String>,
}

/// `ContainerStatus`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ContainerStatus {
    /// Its name and attempt.
    #[prost(message, optional, tag = "2")]
    pub metadata: Option<ContainerMetadata>,
    /// How it is.
    #[prost(enumeration = "ContainerState", tag = "3")]
    pub state: i32,
    /// Nanoseconds since the Unix epoch.
    #[prost(int64, tag = "4")]
    pub created_at: i64,
    /// The same; zero before it was started.
    #[prost(int64, tag = "5")]
    pub started_at: i64,
    /// The same; zero before it ended.
    #[prost(int64, tag = "6")]
    pub finished_at: i64,
    /// Its exit code, once it ended.
    #[prost(int32, tag = "7")]
    pub exit_code: i32,
}

/// `ContainerMetadata`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ContainerMetadata {
    /// The name in the pod.
    #[prost(string, tag = "1")]
    pub name: String,
    /// How often the kubelet has created it anew.
    #[prost(uint32, tag = "2")]
    pub attempt: u32,
}

/// `ContainerState`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, prost::Enumeration)]
#[repr(i32)]
pub enum ContainerState {
    /// Not started yet.
    Created = 0,
    /// Its process is there.
    Running = 1,
    /// It ended.
    Exited = 2,
    /// The runtime does not know.
    Unknown = 3,
}
