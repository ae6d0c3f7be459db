//! The kubelet's store of file pods, keyed by namespace/name.
//! Invariant: exactly what the last event or list says. Two files that declare the same pod share one entry, which is how a
//! backup beside a manifest takes its pod over, and how the removal of either takes the pod out.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};

use super::manifest::Pod;

/// Pods by key, and which file last declared which key.
#[derive(Debug, Default)]
pub struct Store {
    pods: BTreeMap<String, Pod>,
    keys: BTreeMap<OsString, String>,
}

impl Store {
    /// A file was created or changed: the last event wins.
    pub fn upsert(&mut self, file: &OsStr, pod: Pod) {
        self.keys.insert(file.to_owned(), pod.key());
        self.pods.insert(pod.key(), pod);
    }

    /// A file went: its pod goes, even if another file declares it too.
    pub fn remove(&mut self, file: &OsStr) {
        if let Some(key) = self.keys.get(file)
            && self.pods.remove(key).is_some()
        {
            self.keys.remove(file);
        }
    }

    /// A full list, in sort order: the last one of a key wins.
    pub fn replace(&mut self, listed: Vec<(OsString, Pod)>) {
        self.pods.clear();
        for (file, pod) in listed {
            self.upsert(&file, pod);
        }
    }

    /// All pods that should run.
    #[must_use]
    pub fn pods(&self) -> Vec<Pod> {
        self.pods.values().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::manifest;
    use super::*;

    fn pod(path: &str) -> Pod {
        let text = "kind: Pod\nmetadata: {name: p}\nspec: {containers: [{name: c, command: ['true']}]}";
        manifest::parse(text, std::path::Path::new(path), "n").expect("valid")
    }

    #[test]
    fn the_last_event_wins_and_the_removal_of_either_file_removes_the_pod() {
        let (yaml, bak) = (OsStr::new("p.yaml"), OsStr::new("p.yaml.bak"));
        let mut store = Store::default();
        store.upsert(yaml, pod("/p.yaml"));
        store.upsert(bak, pod("/p.yaml.bak"));
        assert_eq!(store.pods(), [pod("/p.yaml.bak")]);
        store.remove(yaml);
        assert!(store.pods().is_empty());
    }

    #[test]
    fn at_a_list_the_last_in_sort_order_wins() {
        let mut store = Store::default();
        store.replace(vec![("p.yaml".into(), pod("/p.yaml")), ("p.yaml.bak".into(), pod("/p.yaml.bak"))]);
        assert_eq!(store.pods(), [pod("/p.yaml.bak")]);
        store.replace(Vec::new());
        assert!(store.pods().is_empty());
    }
}
