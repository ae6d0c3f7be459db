//! An unwell etcd is looked at by the daemon itself: said once, shown with its age, and in nobody's way.

use fip_watchdog::decision::verdict::Verdict;
use rustix::process::Signal;

use crate::bench::Daemon;
use crate::etcd_stand_ins::node_beside;

#[test]
fn an_etcd_that_refuses_is_diagnosed_said_once_and_shown_and_no_step_is_begun() {
    // Nothing listens on port 1.
    let node = node_beside(1);
    let mut command = node.command_in_its_own_network();
    command.env("FIP_WATCHDOG_LOG", "info");
    let mut daemon = Daemon::of(command, &node.socket());
    let status = daemon.until_status("a diagnosis", |status| status.diagnosis.is_some());
    assert_eq!(status.verdict, Verdict::EtcdUnreachable, "{status:#?}");
    assert!(status.recent_steps.is_empty() && status.starting.is_empty(), "{status:#?}");
    let diagnosis = status.diagnosis.unwrap();
    assert!(diagnosis.recovered_age_ms.is_none() && diagnosis.took_ms < 6_000 && !diagnosis.sentence.is_empty());
    let screen = String::from_utf8(node.ask(&["explain"]).stdout).unwrap();
    assert!(screen.contains("\nWhat is wrong with etcd\ndiagnosis ") && screen.contains(&diagnosis.sentence), "{screen}");
    daemon.signal(Signal::TERM);
    assert!(daemon.exited().success());
    assert_eq!(daemon.said().matches("\ndiagnosed: ").count(), 1, "{}", daemon.said());
}
