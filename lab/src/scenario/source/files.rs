//! What can only be seen by looking again: the loop's manifest, and the kubelet's record of its container.

use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;

use super::Out;
use crate::scenario::event::{Container, What};
use crate::scenario::manifest::{LOOP_MANIFEST, MANIFESTS};

/// A manifest is out for seconds; this is often enough to see it and cheap enough for three nodes.
const PERIOD: Duration = Duration::from_millis(100);
/// The name of the loop's container.
const CONTAINER: &str = "wcp-fip";

#[derive(Deserialize)]
struct KubeletState {
    containers: Vec<Record>,
}

#[derive(Deserialize)]
struct Record {
    container: String,
    id: String,
    attempt: u64,
    state: String,
}

/// Looks at both until nobody listens.
pub async fn follow(root: PathBuf, kubelet: PathBuf, to: Out) {
    let manifest = root.join(MANIFESTS).join(LOOP_MANIFEST);
    let mut known_present = None;
    let mut known_container = None;
    let mut ticks = tokio::time::interval(PERIOD);
    loop {
        ticks.tick().await;
        let present = manifest.symlink_metadata().is_ok();
        if known_present.replace(present) != Some(present) && !to.send_now(What::Manifest { present }).await {
            return;
        }
        let Some(newest) = std::fs::read_to_string(&kubelet).ok().and_then(|text| parse(&text)) else { continue };
        let news = change(known_container.as_ref(), newest);
        if let Some(container) = news {
            known_container = Some(container.clone());
            if !to.send_now(What::Container(container)).await {
                return;
            }
        }
    }
}

/// What is new about the container. A record that went is a container that runs no more.
fn change(known: Option<&Container>, newest: Option<Container>) -> Option<Container> {
    match newest {
        Some(newest) => (known != Some(&newest)).then_some(newest),
        None => known.filter(|known| known.running).map(|known| Container { running: false, ..known.clone() }),
    }
}

/// The newest container of the loop, if there is one; none at all if this is no state of a kubelet.
fn parse(text: &str) -> Option<Option<Container>> {
    let state: KubeletState = serde_json::from_str(text).ok()?;
    Some(state.containers.into_iter().rfind(|record| record.container == CONTAINER).map(|newest| {
        let running = matches!(newest.state.as_str(), "running" | "terminating");
        Container { id: newest.id, attempt: newest.attempt, running }
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_container_of_the_loop_counts() {
        let text = r#"{"containers":[
            {"container":"wcp-fip","id":"a","attempt":0,"state":"exited","pid":7},
            {"container":"wcp-fip","id":"b","attempt":1,"state":"running","pid":8},
            {"container":"other","id":"c","attempt":0,"state":"running"}]}"#;
        assert_eq!(parse(text), Some(Some(Container { id: "b".to_owned(), attempt: 1, running: true })));
    }

    #[test]
    fn half_a_file_is_nothing_yet() {
        assert_eq!(parse(r#"{"containers":[{"container":"wcp-f"#), None);
        assert_eq!(parse(r#"{"containers":[]}"#), Some(None));
    }

    #[test]
    fn a_record_that_went_is_a_container_that_runs_no_more() {
        let running = Container { id: "a".to_owned(), attempt: 0, running: true };
        let gone = Container { running: false, ..running.clone() };
        assert_eq!(change(None, Some(running.clone())), Some(running.clone()));
        assert_eq!(change(Some(&running), Some(running.clone())), None);
        assert_eq!(change(Some(&running), None), Some(gone.clone()));
        assert_eq!(change(Some(&gone), None), None);
    }
}
