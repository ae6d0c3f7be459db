//! The part of a Pod manifest that the stand-in obeys: names, the one container's command, arguments and environment, the grace period.
//! Invariant: names are checked before they become parts of paths. Images and security contexts are ignored: the node's file system is the image.

use std::path::Path;

use serde::Deserialize;
use serde_json::Value;

use super::uid;

/// What a kubelet takes when the manifest says nothing.
const GRACE_SECONDS_DEFAULT: u64 = 30;

/// Longer names than this would not fit into a file name together with a UID.
const NAME_BYTES_MAX: usize = 120;

/// Why a file in the manifest directory is no pod.
#[derive(Debug, thiserror::Error)]
pub enum ManifestError {
    /// The bytes are not YAML.
    #[error("manifest is not valid YAML")]
    Yaml(#[source] Box<serde_saphyr::Error>),
    /// The YAML is not a Pod.
    #[error("manifest is not a pod")]
    Shape(#[source] serde_json::Error),
    /// The document is of another kind.
    #[error("manifest is of kind {0:?}, not \"Pod\"")]
    Kind(String),
    /// A name is empty, too long, or holds more than lower-case letters, digits, `-` and `.`.
    #[error("manifest has an invalid name {0:?}")]
    Name(String),
    /// The stand-in runs pods of one container.
    #[error("manifest declares {0} containers, one is supported")]
    Containers(usize),
    /// The container has neither command nor arguments, and there is no image that could have them.
    #[error("container {0:?} has no command")]
    Command(String),
}

/// A static pod as the kubelet sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pod {
    /// 32 hex digits from content, node name and path.
    pub uid: String,
    /// Namespace.
    pub namespace: String,
    /// Name with `-<node>`.
    pub name: String,
    /// Name of the one container.
    pub container: String,
    /// Command and arguments.
    pub argv: Vec<String>,
    /// Environment.
    pub env: Vec<(String, String)>,
    /// Working directory.
    pub working_dir: String,
    /// Grace period at removal.
    pub grace_seconds: u64,
}

impl Pod {
    /// `namespace/name`, the key of the kubelet's store.
    #[must_use]
    pub fn key(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }
}

#[derive(Deserialize)]
struct Document {
    kind: String,
    metadata: Metadata,
    spec: Spec,
}

#[derive(Deserialize)]
struct Metadata {
    name: String,
    #[serde(default)]
    namespace: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Spec {
    containers: Vec<Container>,
    #[serde(default)]
    termination_grace_period_seconds: Option<u64>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Container {
    name: String,
    #[serde(default)]
    command: Vec<String>,
    #[serde(default)]
    args: Vec<String>,
    #[serde(default)]
    env: Vec<Variable>,
    #[serde(default)]
    working_dir: Option<String>,
}

#[derive(Deserialize)]
struct Variable {
    name: String,
    #[serde(default)]
    value: String,
}

/// Read the pod that `text`, found at `path`, declares on `node`.
///
/// # Errors
/// The content is no Pod that the stand-in can run.
pub fn parse(text: &str, path: &Path, node: &str) -> Result<Pod, ManifestError> {
    let value: Value = serde_saphyr::from_str(text).map_err(|error| ManifestError::Yaml(Box::new(error)))?;
    let uid = uid::of(&value, node, path);
    let document: Document = serde_json::from_value(value).map_err(ManifestError::Shape)?;
    if document.kind != "Pod" {
        return Err(ManifestError::Kind(document.kind));
    }
    let count = document.spec.containers.len();
    let (Some(container), 1) = (document.spec.containers.into_iter().next(), count) else {
        return Err(ManifestError::Containers(count));
    };
    let namespace = checked(document.metadata.namespace.unwrap_or_else(|| "default".to_owned()))?;
    let name = checked(document.metadata.name)?;
    let container_name = checked(container.name)?;
    let argv: Vec<String> = container.command.into_iter().chain(container.args).collect();
    if argv.is_empty() {
        return Err(ManifestError::Command(container_name));
    }
    Ok(Pod {
        uid,
        namespace,
        name: format!("{name}-{}", node.to_lowercase()),
        container: container_name,
        argv,
        env: container.env.into_iter().map(|variable| (variable.name, variable.value)).collect(),
        working_dir: container.working_dir.unwrap_or_else(|| "/".to_owned()),
        grace_seconds: document.spec.termination_grace_period_seconds.unwrap_or(GRACE_SECONDS_DEFAULT),
    })
}

fn checked(name: String) -> Result<String, ManifestError> {
    let allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-' || byte == b'.';
    if name.is_empty() || name.len() > NAME_BYTES_MAX || name.starts_with('.') || !name.bytes().all(allowed) {
        return Err(ManifestError::Name(name));
    }
    Ok(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "apiVersion: v1\nkind: Pod\nmetadata: {name: wcp-fip, namespace: kube-system}\nspec:\n  containers:\n  - name: wcp-fip\n    command: [sh, -c]\n    args: ['sleep 1']\n";

    fn pod(text: &str) -> Result<Pod, ManifestError> {
        parse(text, Path::new("/m/wcp-fip.yaml"), "NODE1")
    }

    #[test]
    fn a_pod_is_named_after_its_node_in_lower_case_and_has_the_default_grace() {
        let pod = pod(TEXT).expect("valid");
        assert_eq!(pod.key(), "kube-system/wcp-fip-node1");
        assert_eq!(pod.argv, ["sh", "-c", "sleep 1"]);
        assert_eq!(pod.grace_seconds, 30);
    }

    #[test]
    fn a_comment_does_not_change_the_uid_and_an_annotation_does() {
        let plain = pod(TEXT).expect("valid").uid;
        assert_eq!(pod(&format!("# hello\n{TEXT}")).expect("valid").uid, plain);
        let noted = TEXT.replace("namespace: kube-system", "namespace: kube-system, annotations: {a: b}");
        assert_ne!(pod(&noted).expect("valid").uid, plain);
    }

    #[test]
    fn names_that_would_leave_their_directory_are_refused() {
        for name in ["../up", "a/b", "", ".hidden", "UPPER"] {
            let text = TEXT.replace("{name: wcp-fip,", &format!("{{name: '{name}',"));
            assert!(matches!(pod(&text), Err(ManifestError::Name(_))), "{name:?}");
        }
    }

    #[test]
    fn half_a_file_that_is_a_whole_pod_is_a_pod_and_one_that_is_not_is_an_error() {
        assert!(pod(&TEXT[..TEXT.find("    args").expect("there")]).is_ok());
        assert!(pod(&TEXT[..TEXT.find("spec").expect("there")]).is_err());
        assert!(pod("a: [1").is_err());
        assert!(pod("").is_err());
    }
}
