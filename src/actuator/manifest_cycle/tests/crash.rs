//! A crash, and an error, at each file system call.

use rustix::io::Errno;

use super::*;

/// A cycle with few looks at the pod, so that few calls are the same again.
async fn brief_cycle(node: &Node, executor: &CycleExecutor) -> StepOutcome {
    let settings = CycleSettings { settle: Duration::from_millis(300), ..node.settings.clone() };
    let (_stop, stopped) = watch::channel(false);
    executor.run(&settings, &Pod::dying_after(0), &Beats(true), stopped).await
}

/// The calls of a cycle on a sound disk.
async fn calls_of_a_cycle() -> usize {
    let node = Node::new();
    let faults = Faults::new(Plan::Never);
    let outcome = brief_cycle(&node, &node.failing(&faults)).await;
    assert!(matches!(outcome, StepOutcome::Succeeded(_)), "{outcome:?}");
    node.is_home(true).and_then(|()| node.is_clean()).unwrap();
    faults.calls()
}

#[tokio::test(start_paused = true)]
async fn a_kill_at_any_call_of_a_cycle_is_mended_by_the_next_start() {
    let calls = calls_of_a_cycle().await;
    assert!(calls > 60, "the hook sees the calls: {calls}");
    for at in 0..calls {
        let node = Node::new();
        let outcome = brief_cycle(&node, &node.failing(&Faults::new(Plan::CrashAt(at)))).await;
        assert!(!matches!(outcome, StepOutcome::Succeeded(_)), "call {at}: {outcome:?}");
        let executor = node.executor();
        executor.recover().await.unwrap_or_else(|error| panic!("call {at}: {}", chain(&error)));
        node.is_home(true).and_then(|()| node.is_clean()).unwrap_or_else(|fault| panic!("call {at}: {fault}"));
        assert_eq!(executor.view(), None, "call {at}");
        assert_eq!(executor.recover().await.unwrap(), None, "call {at}: nothing is left to finish");
        let outcome = brief_cycle(&node, &executor).await;
        assert!(matches!(outcome, StepOutcome::Succeeded(_)), "call {at}, the next cycle: {outcome:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_kill_at_any_call_of_the_recovery_is_mended_by_the_start_after_it() {
    let calls = calls_of_a_cycle().await;
    for at in 0..calls {
        for second in 0..200 {
            let node = Node::new();
            brief_cycle(&node, &node.failing(&Faults::new(Plan::CrashAt(at)))).await;
            let faults = Faults::new(Plan::CrashAt(second));
            let ended = node.failing(&faults).recover().await.is_ok() && faults.calls() <= second;
            node.executor().recover().await.unwrap_or_else(|error| panic!("calls {at}, {second}: {}", chain(&error)));
            node.is_home(true).and_then(|()| node.is_clean()).unwrap_or_else(|fault| panic!("calls {at}, {second}: {fault}"));
            if ended {
                break;
            }
            assert!(second < 199, "a recovery has an end");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn one_failing_call_anywhere_leaves_the_manifest_in_place_without_any_restart() {
    let calls = calls_of_a_cycle().await;
    for errno in [Errno::NOSPC, Errno::IO, Errno::ROFS, Errno::ACCESS, Errno::XDEV, Errno::PERM] {
        for at in 0..calls {
            let node = Node::new();
            let executor = node.failing(&Faults::new(Plan::Once(at, errno)));
            let outcome = brief_cycle(&node, &executor).await;
            // Across mounts it can only be a copy.
            let same_inode = errno != Errno::XDEV;
            node.is_home(same_inode).unwrap_or_else(|fault| panic!("call {at} {errno}: {fault}; {outcome:?}"));
            executor.recover().await.unwrap_or_else(|error| panic!("call {at} {errno}: {}", chain(&error)));
            node.is_clean().unwrap_or_else(|fault| panic!("call {at} {errno}: {fault}; {outcome:?}"));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_disk_that_fails_from_any_call_on_is_mended_once_it_works_again() {
    let calls = calls_of_a_cycle().await;
    for errno in [Errno::NOSPC, Errno::IO, Errno::ROFS, Errno::ACCESS] {
        for at in 0..calls {
            let node = Node::new();
            let outcome = brief_cycle(&node, &node.failing(&Faults::new(Plan::From(at, errno)))).await;
            assert!(!matches!(outcome, StepOutcome::Succeeded(_)), "call {at} {errno}: {outcome:?}");
            if matches!(outcome, StepOutcome::Refused(_)) {
                node.is_home(true).unwrap_or_else(|fault| panic!("call {at} {errno}: refused, and yet {fault}"));
            }
            node.executor().recover().await.unwrap_or_else(|error| panic!("call {at} {errno}: {}", chain(&error)));
            node.is_home(true).and_then(|()| node.is_clean()).unwrap_or_else(|fault| panic!("call {at} {errno}: {fault}"));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn restoring_from_the_backup_keeps_everything_and_survives_a_kill_at_any_call() {
    for at in 0..200 {
        let node = Node::new();
        let executor = node.failing(&Faults::new(Plan::Never));
        let pod = Pod::dying_after(600);
        let (_stop, stopped) = watch::channel(false);
        // Dropped while the manifest is out: the entry stays open.
        let run = executor.run(&node.settings, &pod, &Beats(true), stopped);
        assert!(tokio::time::timeout(Duration::from_secs(10), run).await.is_err());
        std::fs::remove_file(node.staged()).unwrap();
        let faults = Faults::new(Plan::CrashAt(at));
        let ended = node.failing(&faults).recover().await.is_ok();
        node.executor().recover().await.unwrap_or_else(|error| panic!("call {at}: {}", chain(&error)));
        node.is_home(false).and_then(|()| node.is_clean()).unwrap_or_else(|fault| panic!("call {at}: {fault}"));
        if ended && faults.calls() <= at {
            return;
        }
    }
    panic!("a recovery has an end");
}
