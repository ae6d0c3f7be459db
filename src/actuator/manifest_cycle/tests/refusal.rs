//! What keeps a cycle from beginning, each with a reason that names its object.

use std::os::unix::fs::symlink;
use std::process::Command;

use super::*;

/// A mount that goes with the test.
pub(super) struct Mount(pub(super) PathBuf);

impl Mount {
    pub(super) fn new(kind: &[&str], at: &Path) -> Self {
        std::fs::create_dir_all(at).unwrap();
        assert!(Command::new("mount").args(kind).arg(at).status().unwrap().success(), "needs root and CAP_SYS_ADMIN");
        Self(at.to_owned())
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let gone = Command::new("umount").arg("-l").arg(&self.0).status().is_ok_and(|status| status.success());
        assert!(gone || std::thread::panicking(), "{} stays mounted", self.0.display());
    }
}

/// Runs a cycle that must be refused without a change to the manifest directory; the reason.
async fn refused(node: &Node) -> String {
    let before = contents(node.settings.wanted.dir());
    let outcome = cycle(node, &node.executor()).await;
    assert_eq!(contents(node.settings.wanted.dir()), before);
    assert!(node.log().open.is_none() && node.log().closed.is_empty(), "nothing is journalled");
    match outcome {
        StepOutcome::Refused(reason) => reason,
        other @ (StepOutcome::Succeeded(_) | StepOutcome::Failed(_) | StepOutcome::PodStuck(_)) => panic!("{other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn a_manifest_that_is_absent_a_link_or_not_the_pod_is_not_touched() {
    let node = Node::new();
    std::fs::remove_file(node.manifest()).unwrap();
    assert!(refused(&node).await.ends_with("wcp-fip.yaml is not there"));
    symlink("/etc/hostname", node.manifest()).unwrap();
    assert!(refused(&node).await.contains("wcp-fip.yaml is not a regular file"));
    std::fs::remove_file(node.manifest()).unwrap();
    put(node.manifest(), OTHER);
    assert!(refused(&node).await.contains("does not declare the pod kube-system/wcp-fip"));
    put(node.manifest(), b"");
    assert!(refused(&node).await.contains("does not declare the pod"));
}

#[tokio::test(start_paused = true)]
async fn a_shadow_is_named() {
    for name in ["wcp-fip.yaml.bak", "wcp-fip.yaml~", "old.txt"] {
        let node = Node::new();
        put(&node.settings.wanted.dir().join(name), POD);
        assert!(refused(&node).await.ends_with(&format!("{name} declares the same pod")));
    }
}

#[tokio::test(start_paused = true)]
async fn a_staging_place_that_the_kubelet_would_read_is_refused_by_name_and_through_a_link() {
    let mut node = Node::new();
    let manifests = node.settings.wanted.dir().to_owned();
    node.settings.staging_dir = manifests.join("staging");
    assert!(refused(&node).await.contains("lies in the manifest directory"));
    assert!(!node.settings.staging_dir.exists());
    let link = node.root.path().join("link");
    symlink(&manifests, &link).unwrap();
    for staging in [link.clone(), link.join("deeper")] {
        node.settings.staging_dir = staging;
        assert!(refused(&node).await.contains("lies in the manifest directory"));
    }
}

#[tokio::test(start_paused = true)]
async fn a_staging_place_on_another_mount_is_refused_and_both_are_named() {
    let node = Node::new();
    let staging = &node.settings.staging_dir;
    let elsewhere = node.root.path().join("elsewhere");
    std::fs::create_dir(&elsewhere).unwrap();
    let bind = ["--bind", elsewhere.to_str().unwrap()];
    // The second has the same st_dev as the manifest directory.
    for kind in [&["-t", "tmpfs", "tmpfs"][..], &bind[..]] {
        let _mount = Mount::new(kind, staging);
        let reason = refused(&node).await;
        assert!(reason.contains("is not on the same mount as"), "{reason}");
        assert!(reason.contains("/staging") && reason.contains("/manifests"), "{reason}");
    }
    assert!(matches!(cycle(&node, &node.executor()).await, StepOutcome::Succeeded(_)));
}

#[tokio::test(start_paused = true)]
async fn a_staging_place_that_cannot_be_used_is_named() {
    let node = Node::new();
    put(&node.settings.staging_dir, b"a file");
    assert!(refused(&node).await.contains("/staging: Not a directory"));
    std::fs::remove_file(&node.settings.staging_dir).unwrap();
    std::fs::create_dir(&node.settings.staging_dir).unwrap();
    put(&node.staged(), POD);
    assert!(refused(&node).await.contains("staging/wcp-fip.yaml exists already"));
}

#[tokio::test(start_paused = true)]
async fn a_full_or_read_only_place_for_backups_is_named() {
    let node = Node::new();
    let state = &node.settings.state_dir;
    {
        let _mount = Mount::new(&["-t", "tmpfs", "-o", "size=64k", "tmpfs"], state);
        let reason = refused(&node).await;
        assert!(reason.contains("state/backups") && reason.contains("bytes free"), "{reason}");
    }
    let _mount = Mount::new(&["-t", "tmpfs", "-o", "ro", "tmpfs"], state);
    let reason = refused(&node).await;
    assert!(reason.contains("state/backups: Read-only file system"), "{reason}");
}

#[tokio::test(start_paused = true)]
async fn a_full_file_system_of_the_manifests_is_named_and_nothing_is_moved() {
    let node = Node::new();
    let mut settings = node.settings.clone();
    let tree = node.root.path().join("tree");
    let _mount = Mount::new(&["-t", "tmpfs", "-o", "size=64k", "tmpfs"], &tree);
    std::fs::create_dir(tree.join("manifests")).unwrap();
    settings.wanted.manifest = tree.join("manifests/wcp-fip.yaml");
    settings.staging_dir = tree.join("staging");
    put(&settings.wanted.manifest, POD);
    put(&tree.join("filler"), &[0; 48 << 10]);
    let (_stop, stopped) = watch::channel(false);
    let outcome = node.executor().run(&settings, &Pod::dying_after(5), &Beats(true), stopped).await;
    assert!(
        matches!(&outcome, StepOutcome::Refused(why) if why.contains("tree/staging") && why.contains("bytes free")),
        "{outcome:?}"
    );
    assert_eq!(std::fs::read(&settings.wanted.manifest).unwrap(), POD);
    assert_eq!(names(&settings.staging_dir), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_read_only_manifest_directory_refuses_the_rename_and_nothing_is_moved() {
    let node = Node::new();
    let mut settings = node.settings.clone();
    let tree = node.root.path().join("tree");
    let _mount = Mount::new(&["-t", "tmpfs", "tmpfs"], &tree);
    for dir in ["manifests", "staging"] {
        std::fs::create_dir(tree.join(dir)).unwrap();
    }
    settings.wanted.manifest = tree.join("manifests/wcp-fip.yaml");
    settings.staging_dir = tree.join("staging");
    put(&settings.wanted.manifest, POD);
    assert!(Command::new("mount").args(["-o", "remount,ro"]).arg(&tree).status().unwrap().success());
    let (_stop, stopped) = watch::channel(false);
    let executor = node.executor();
    let outcome = executor.run(&settings, &Pod::dying_after(5), &Beats(true), stopped).await;
    assert!(matches!(&outcome, StepOutcome::Refused(why) | StepOutcome::Failed(why) if why.contains("Read-only")), "{outcome:?}");
    assert_eq!(std::fs::read(&settings.wanted.manifest).unwrap(), POD);
}
