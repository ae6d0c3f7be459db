//! Which pod a file declares: the few fields of a manifest that matter here. Pure.
//!
//! The kubelet decodes the first YAML document of a file, or JSON, and takes what decodes as a `Pod`. A
//! manifest is operator's input: nodes, depth, aliases and length are bounded.

use serde::Deserialize;
use serde_saphyr::options::DuplicateKeyPolicy;

/// The grace period of a pod that names none (Kubernetes API, `PodSpec`).
const GRACE_DEFAULT_S: u64 = 30;

/// A declared pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodFile {
    /// `metadata.namespace`; `default` if it is not given.
    pub namespace: String,
    /// `metadata.name`, without the node's suffix.
    pub name: String,
    /// `spec.terminationGracePeriodSeconds`; 30 if it is not given.
    pub grace_s: u64,
}

impl PodFile {
    /// The pod that a file's content declares; `None` if the kubelet would not take it for one.
    #[must_use]
    pub fn parse(content: &[u8]) -> Option<Self> {
        let raw = first_document(content).or_else(|| serde_json::from_slice(content).ok())?;
        if raw.kind.as_deref() != Some("Pod") {
            return None;
        }
        let namespace = raw.metadata.namespace.filter(|namespace| !namespace.is_empty());
        Some(Self {
            namespace: namespace.unwrap_or_else(|| "default".to_owned()),
            name: raw.metadata.name?,
            // A negative grace period counts as 1 s (kubelet, killContainer).
            grace_s: raw.spec.grace.map_or(GRACE_DEFAULT_S, |grace| u64::try_from(grace).unwrap_or(1)),
        })
    }

    /// Whether it is the pod `namespace/name`.
    #[must_use]
    pub fn is(&self, namespace: &str, name: &str) -> bool {
        self.namespace == namespace && self.name == name
    }
}

#[derive(Deserialize)]
struct Raw {
    kind: Option<String>,
    #[serde(default)]
    metadata: RawMetadata,
    #[serde(default)]
    spec: RawSpec,
}

#[derive(Deserialize, Default)]
struct RawMetadata {
    name: Option<String>,
    namespace: Option<String>,
}

#[derive(Deserialize, Default)]
struct RawSpec {
    #[serde(rename = "terminationGracePeriodSeconds")]
    grace: Option<i64>,
}

fn first_document(mut content: &[u8]) -> Option<Raw> {
    let options = serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_nodes: 50_000,
            max_events: 200_000,
            max_depth: 64,
            max_aliases: 64,
            max_anchors: 64,
            max_documents: 8,
        },
        emit_comments: false,
        // The kubelet's decoder takes the last of two equal keys; refusing them would hide a shadow.
        duplicate_keys: DuplicateKeyPolicy::LastWins,
    };
    serde_saphyr::read_with_options(&mut content, options).next()?.ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_namespace_and_grace_come_from_yaml_and_from_json() {
        let yaml = b"apiVersion: v1\nkind: Pod\nmetadata:\n  name: wcp-fip\n  namespace: kube-system\n  labels: {a: b}\nspec:\n  terminationGracePeriodSeconds: 7\n  containers: []\n";
        let json = br#"{	"kind":"Pod","metadata":{"name":"wcp-fip","namespace":"kube-system"},"spec":{"terminationGracePeriodSeconds":7}}"#;
        for content in [&yaml[..], &json[..]] {
            let pod = PodFile::parse(content).unwrap();
            assert!(pod.is("kube-system", "wcp-fip"));
            assert_eq!(pod.grace_s, 7);
        }
    }

    #[test]
    fn what_is_not_given_has_the_kubelets_default() {
        let pod = PodFile::parse(b"kind: Pod\nmetadata: {name: x}\n").unwrap();
        assert_eq!(pod, PodFile { namespace: "default".into(), name: "x".into(), grace_s: 30 });
    }

    #[test]
    fn only_the_first_document_counts_and_the_last_of_two_equal_keys() {
        let pod = PodFile::parse(b"kind: Pod\nmetadata: {name: x, name: y}\n---\nkind: [\n").unwrap();
        assert_eq!(pod.name, "y");
    }

    #[test]
    fn what_is_no_pod_is_none() {
        let deep = "[".repeat(100_000);
        let bomb = "a: &a [x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a]\nc: [*b,*b,*b,*b,*b,*b,*b,*b,*b]\nkind: Pod\nmetadata: {name: [*b]}\n";
        for content in ["", "\0\0\0", "kind: Service\nmetadata: {name: x}", "kind: Pod", "just text", "a: [", &deep, bomb] {
            assert_eq!(PodFile::parse(content.as_bytes()), None, "{content:.40}");
        }
    }
}
