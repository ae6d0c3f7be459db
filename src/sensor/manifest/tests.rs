//! The manifest sense and its watch, on a real directory.

use std::io::Write as _;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use super::*;
use crate::policy::Policy;

const POD: &str = "apiVersion: v1\nkind: Pod\nmetadata: {name: wcp-fip, namespace: kube-system}\nspec: {containers: []}\n";

struct Place {
    root: tempfile::TempDir,
    sensor: ManifestSensor,
}

impl Place {
    fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        let dir = root.path().join("manifests");
        std::fs::create_dir(&dir).unwrap();
        let mut policy = Policy::with_defaults([192, 168, 111, 200].into(), "eth0").watched_loop;
        policy.manifest = dir.join("wcp-fip.yaml");
        Self { root, sensor: ManifestSensor::new(&policy) }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.root.path().join("manifests").join(name)
    }

    fn put(&self, name: &str, content: &str) {
        put(&self.path(name), content.as_bytes());
    }

    fn view(&mut self, second: u64) -> ManifestView {
        match self.sensor.read(Moment::from_origin(Duration::from_secs(second))) {
            Reading::Fresh { value, .. } => value,
            Reading::Stale { .. } => panic!("stale"),
            Reading::Unknown(reason) => panic!("{reason}"),
        }
    }
}

fn put(path: &Path, content: &[u8]) {
    std::fs::File::create(path).unwrap().write_all(content).unwrap();
}

#[test]
fn the_manifest_is_seen_with_its_hash_and_its_absence_is_no_fault() {
    let mut place = Place::new();
    assert_eq!(place.view(0), ManifestView { sha256: None, shadows: vec![], immovable: None });
    place.put("wcp-fip.yaml", POD);
    let view = place.view(1);
    assert_eq!(view, ManifestView { sha256: Some(sha256_hex(POD.as_bytes())), shadows: vec![], immovable: None });
    place.put("wcp-fip.yaml", &format!("{POD}# newer\n"));
    assert_ne!(place.view(2).sha256, view.sha256);
}

#[test]
fn a_second_file_with_the_same_pod_is_a_shadow_whatever_its_name_but_for_a_dotfile() {
    let mut place = Place::new();
    place.put("wcp-fip.yaml", POD);
    for name in ["wcp-fip.yaml.bak", "wcp-fip.yaml~", "notes.txt", "#x#"] {
        place.put(name, POD);
    }
    place.put(".wcp-fip.yaml.swp", POD);
    place.put("etcd.yaml", "kind: Pod\nmetadata: {name: etcd, namespace: kube-system}\n");
    place.put("half.yaml", "kind: Pod\nmetadata: {name: [");
    std::fs::create_dir(place.path("old")).unwrap();
    put(&place.path("old").join("wcp-fip.yaml"), POD.as_bytes());
    symlink(place.path("old").join("wcp-fip.yaml"), place.path("zz-link")).unwrap();
    symlink("/nowhere", place.path("dangling")).unwrap();
    let names = ["#x#", "notes.txt", "wcp-fip.yaml.bak", "wcp-fip.yaml~", "zz-link"];
    assert_eq!(place.view(0).shadows, names.map(|name| place.path(name)));
    for name in names {
        std::fs::remove_file(place.path(name)).unwrap();
    }
    assert_eq!(place.view(1), ManifestView { sha256: Some(sha256_hex(POD.as_bytes())), shadows: vec![], immovable: None });
}

#[test]
fn what_must_not_be_moved_has_a_reason_that_names_it() {
    let mut place = Place::new();
    let manifest = place.path("wcp-fip.yaml");
    let reasons: [(&str, Make); 5] = [
        ("is a symbolic link", Box::new(|| symlink("/etc/hostname", &manifest).unwrap())),
        ("is not a regular file", Box::new(|| std::fs::create_dir(&manifest).unwrap())),
        ("is larger than", Box::new(|| std::fs::File::create(&manifest).unwrap().set_len(FILE_MAX + 1).unwrap())),
        ("does not declare the pod kube-system/wcp-fip", Box::new(|| put(&manifest, b"kind: Pod\nmetadata: {name: other}\n"))),
        ("does not declare the pod kube-system/wcp-fip", Box::new(|| put(&manifest, b""))),
    ];
    for (second, (reason, make)) in reasons.iter().enumerate() {
        make();
        let immovable = place.view(u64::try_from(second).unwrap()).immovable.unwrap();
        assert!(immovable.contains(reason) && immovable.contains("wcp-fip.yaml"), "{immovable}");
        std::fs::remove_file(&manifest).or_else(|_| std::fs::remove_dir(&manifest)).unwrap();
    }
}

#[test]
fn a_file_too_large_to_read_leaves_it_open_whether_the_manifest_is_the_only_one() {
    let mut place = Place::new();
    place.put("wcp-fip.yaml", POD);
    std::fs::File::create(place.path("huge")).unwrap().set_len(FILE_MAX + 1).unwrap();
    assert!(place.view(0).immovable.unwrap().contains("huge is larger"));
}

#[test]
fn a_directory_that_is_missing_or_overfull_is_unknown() {
    let mut place = Place::new();
    for index in 0..=FILES_MAX {
        place.put(&format!("f{index}"), "");
    }
    let now = Moment::default();
    assert!(matches!(place.sensor.read(now), Reading::Unknown(reason) if reason.contains("more than 512")));
    std::fs::remove_dir_all(place.path("")).unwrap();
    assert!(matches!(place.sensor.read(now), Reading::Unknown(reason) if reason.contains("manifests")));
}

#[test]
fn a_change_that_no_time_stamp_betrays_is_found_by_the_full_read() {
    let mut place = Place::new();
    place.put("wcp-fip.yaml", POD);
    place.view(0);
    // As if size, times and inode were those of another content.
    place.sensor.manifest.as_mut().unwrap().1.sha256 = "old".to_owned();
    assert_eq!(place.view(19).sha256.as_deref(), Some("old"));
    assert_eq!(place.view(20).sha256, Some(sha256_hex(POD.as_bytes())));
}

type Make<'a> = Box<dyn Fn() + 'a>;

async fn wakes(watch: &ManifestWatch) -> bool {
    tokio::time::timeout(Duration::from_secs(10), watch.changed()).await.is_ok()
}

/// Takes the wake-ups that are pending or on their way, until none comes for a while.
async fn drain(watch: &ManifestWatch) {
    for _ in 0..100 {
        if tokio::time::timeout(Duration::from_millis(200), watch.changed()).await.is_err() {
            return;
        }
    }
    panic!("the watch wakes for ever");
}

#[tokio::test]
async fn the_watch_wakes_for_a_change_and_not_for_our_own_reads() {
    let mut place = Place::new();
    place.put("wcp-fip.yaml", POD);
    let mut watch = ManifestWatch::new(&place.path(""));
    assert_eq!(watch.trouble(), None);
    place.view(0);
    watch.check();
    drain(&watch).await;
    std::fs::remove_file(place.path("wcp-fip.yaml")).unwrap();
    assert!(wakes(&watch).await);
}

#[tokio::test]
async fn the_watch_follows_a_directory_that_was_removed_renamed_and_made_again() {
    let place = Place::new();
    let dir = place.root.path().join("manifests");
    let mut watch = ManifestWatch::new(&dir);
    for step in 0..2 {
        if step == 0 {
            std::fs::remove_dir(&dir).unwrap();
        } else {
            let away = std::process::Command::new("mv").arg(&dir).arg(place.root.path().join("away")).status();
            assert!(away.unwrap().success());
        }
        assert!(wakes(&watch).await, "the parent's watch tells of step {step}");
        watch.check();
        assert!(watch.trouble().is_some());
        std::fs::create_dir(&dir).unwrap();
        assert!(wakes(&watch).await);
        watch.check();
        assert_eq!(watch.trouble(), None);
        drain(&watch).await;
        place.put("x.yaml", POD);
        assert!(wakes(&watch).await, "the new directory is watched after step {step}");
        std::fs::remove_file(place.path("x.yaml")).unwrap();
        drain(&watch).await;
    }
}

#[test]
fn a_watch_that_cannot_be_had_is_said_and_nothing_fails() {
    let mut watch = ManifestWatch::new(Path::new("/nowhere/manifests"));
    assert!(watch.trouble().unwrap().contains("/nowhere"));
    watch.check();
    assert!(watch.trouble().is_some());
}
