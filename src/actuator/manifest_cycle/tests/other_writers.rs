//! Somebody else's hand in the directory while ours is out: theirs wins, ours is kept, the outcome says so.

use std::os::unix::fs::symlink;
use std::process::Command;

use super::refusal::Mount;
use super::story::{Told, last, tell, with_hand};
use super::*;
use crate::actuator::journal::Outcome;

/// A cycle during which `hand` does something as soon as the manifest is out.
async fn meanwhile(node: &Node, hand: impl Fn() + Send + Sync + 'static) -> Told {
    tell(node, with_hand(hand, node.manifest().to_owned()), true, None).await
}

/// Ours is kept as a backup, which the outcome names, and is nowhere else but there.
fn ours_is_kept(node: &Node, told: &Told) {
    let kept = contents(&node.settings.backup_dir());
    assert_eq!(kept.values().collect::<Vec<_>>(), [POD]);
    let path = node.settings.backup_dir().join(kept.keys().next().unwrap());
    let says_so = format!("it stays; ours is kept as {}", path.display());
    assert!(matches!(&told.outcome, StepOutcome::Failed(why) if why.contains(&says_so)), "{:?}", told.outcome);
    assert_eq!(last(node), Outcome::Replaced);
    assert_eq!(names(&node.settings.staging_dir), [""; 0]);
    assert_eq!(node.log().open, None);
}

fn mount(arguments: &[&str], at: &Path) {
    assert!(Command::new("mount").args(arguments).arg(at).status().unwrap().success(), "needs root and CAP_SYS_ADMIN");
}

#[tokio::test(start_paused = true)]
async fn a_link_that_somebody_puts_there_meanwhile_stays_and_what_it_points_to_is_not_touched() {
    for target in ["newer.yaml", "nowhere"] {
        let node = Node::new();
        let newer = node.root.path().join("newer.yaml");
        put(&newer, NEWER);
        let (path, to) = (node.manifest().to_owned(), node.root.path().join(target));
        let told = meanwhile(&node, move || symlink(&to, &path).unwrap()).await;
        ours_is_kept(&node, &told);
        assert_eq!(std::fs::read_link(node.manifest()).unwrap(), node.root.path().join(target));
        assert_eq!(std::fs::read(&newer).unwrap(), NEWER);
    }
}

#[tokio::test(start_paused = true)]
async fn a_directory_of_the_manifests_name_that_somebody_makes_meanwhile_stays() {
    let node = Node::new();
    let path = node.manifest().to_owned();
    let told = meanwhile(&node, move || std::fs::create_dir(&path).unwrap()).await;
    ours_is_kept(&node, &told);
    assert!(node.manifest().is_dir());
}

#[tokio::test(start_paused = true)]
async fn a_manifest_directory_that_is_replaced_by_one_with_a_newer_manifest_stays_as_it_is() {
    let node = Node::new();
    let (dir, newer) = (node.settings.wanted.dir().to_owned(), node.root.path().join("new"));
    std::fs::create_dir(&newer).unwrap();
    put(&newer.join(FILE), NEWER);
    let hand = move || {
        std::fs::remove_dir_all(&dir).unwrap();
        assert!(Command::new("mv").args([&newer, &dir]).status().unwrap().success());
    };
    let told = meanwhile(&node, hand).await;
    ours_is_kept(&node, &told);
    assert_eq!(contents(node.settings.wanted.dir()), BTreeMap::from([(FILE.to_owned(), NEWER.to_vec())]));
}

#[tokio::test(start_paused = true)]
async fn a_manifest_directory_that_becomes_a_link_gets_the_manifest_where_the_link_leads() {
    let node = Node::new();
    let (dir, elsewhere) = (node.settings.wanted.dir().to_owned(), node.root.path().join("elsewhere"));
    let to = elsewhere.clone();
    let hand = move || {
        assert!(Command::new("mv").args([&dir, &to]).status().unwrap().success());
        symlink(&to, &dir).unwrap();
    };
    let told = meanwhile(&node, hand).await;
    assert!(matches!(told.outcome, StepOutcome::PodStuck(_)), "{:?}", told.outcome);
    node.is_home(true).and_then(|()| node.is_clean()).unwrap();
    assert_eq!(names(&elsewhere), ["etcd.yaml", FILE]);
}

#[tokio::test(start_paused = true)]
async fn a_manifest_directory_that_another_mount_covers_gets_a_copy_and_staging_is_empty() {
    let node = Node::new();
    let dir = node.settings.wanted.dir().to_owned();
    let hand = move || mount(&["-t", "tmpfs", "tmpfs"], &dir);
    let told = meanwhile(&node, hand).await;
    let _mounted = Mount(node.settings.wanted.dir().to_owned());
    assert!(matches!(told.outcome, StepOutcome::PodStuck(_)), "{:?}", told.outcome);
    node.is_home(false).unwrap();
    assert_eq!((names(node.settings.wanted.dir()), names(&node.settings.staging_dir)), (vec![FILE.to_owned()], vec![]));
}

/// A node whose manifest and staging directories are on a mount of their own.
fn on_its_own_mount() -> (Node, Mount) {
    let mut node = Node::new();
    let tree = node.root.path().join("tree");
    let mounted = Mount::new(&["-t", "tmpfs", "tmpfs"], &tree);
    assert!(Command::new("cp").arg("-a").args([node.settings.wanted.dir(), &tree]).status().unwrap().success());
    node.settings.wanted.manifest = tree.join("manifests").join(FILE);
    node.settings.staging_dir = tree.join("staging");
    (node, mounted)
}

#[tokio::test(start_paused = true)]
async fn a_mount_that_is_read_only_for_some_seconds_gets_its_manifest_as_soon_as_it_is_writable() {
    let (node, mounted) = on_its_own_mount();
    let tree = mounted.0.clone();
    let told = tokio::join!(meanwhile(&node, move || mount(&["-o", "remount,ro"], &tree)), async {
        // The pod is waited for 20 s, and then there are 20 s of attempts.
        tokio::time::sleep(Duration::from_secs(25)).await;
        mount(&["-o", "remount,rw"], &mounted.0);
    });
    assert!(
        matches!(&told.0.outcome, StepOutcome::PodStuck(why) if why.contains("the manifest is back")),
        "{:?}",
        told.0.outcome
    );
    node.is_home(false).and_then(|()| node.is_clean()).unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_mount_that_stays_read_only_leaves_the_entry_open_and_says_where_everything_is() {
    let (node, mounted) = on_its_own_mount();
    let executor = node.executor();
    let tree = mounted.0.clone();
    let pod = with_hand(move || mount(&["-o", "remount,ro"], &tree), node.manifest().to_owned());
    let (_stop, stopped) = watch::channel(false);
    let outcome = executor.run(&node.settings, &pod, &Beats(true), stopped).await;
    let says_where = |why: &str| why.contains("is not back; it waits in") && why.contains("Read-only file system");
    assert!(matches!(&outcome, StepOutcome::Failed(why) if says_where(why)), "{outcome:?}");
    assert_eq!(executor.view().map(|view| view.phase), Some(CyclePhase::Out), "so that the next attempt follows");
    assert!(executor.recover().await.is_err());
    mount(&["-o", "remount,rw"], &mounted.0);
    assert_eq!(executor.recover().await.unwrap().unwrap().outcome, Outcome::RecoveredPutBack);
    node.is_home(false).and_then(|()| node.is_clean()).unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_backup_file_that_somebody_leaves_beside_it_stays_and_ours_goes_back() {
    let node = Node::new();
    let bak = node.settings.wanted.dir().join("wcp-fip.yaml.bak");
    let path = bak.clone();
    let told = meanwhile(&node, move || put(&path, POD)).await;
    assert!(matches!(told.outcome, StepOutcome::PodStuck(_)), "{:?}", told.outcome);
    node.is_home(true).unwrap();
    assert_eq!(std::fs::read(&bak).unwrap(), POD);
    let next = cycle(&node, &node.executor()).await;
    assert!(matches!(&next, StepOutcome::Refused(why) if why.ends_with("wcp-fip.yaml.bak declares the same pod")), "{next:?}");
}

/// Takes the manifest away right before we do.
struct TakenAway(PathBuf);

impl FaultHook for TakenAway {
    fn before(&self, call: &'static str, _: &Path) -> Result<(), Fault> {
        if call == "move a file to" {
            std::fs::remove_file(&self.0).ok();
        }
        Ok(())
    }
}

#[tokio::test(start_paused = true)]
async fn a_manifest_that_somebody_removes_right_before_the_rename_stays_removed() {
    let node = Node::new();
    let hook = Arc::new(TakenAway(node.manifest().to_owned()));
    let executor = CycleExecutor::with_fs(Fs::with_hook(hook), &node.settings.state_dir);
    let outcome = cycle(&node, &executor).await;
    assert!(matches!(&outcome, StepOutcome::Refused(why) if why.ends_with("somebody else removed it")), "{outcome:?}");
    assert_eq!((names(node.settings.wanted.dir()), node.log().open), (vec!["etcd.yaml".to_owned()], None));
    assert_eq!(contents(&node.settings.backup_dir()).into_values().collect::<Vec<_>>(), [POD.to_vec()]);
}
