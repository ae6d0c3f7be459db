//! The few of etcd's metrics that tell something, out of some thousand lines of Prometheus' text format.
//!
//! Invariant: a line of another form is passed over; nothing is kept but the names below, so memory is bounded by the number of members.

use std::collections::BTreeMap;

use crate::diagnose::evidence::MemberId;

/// Most members that are kept; etcd's own advice is seven.
const MEMBERS_MAX: usize = 32;

/// Sum in seconds, and count, of a histogram.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Times {
    pub(super) sum: f64,
    pub(super) count: f64,
}

/// One sample.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Sample {
    pub(super) started: Option<f64>,
    pub(super) has_leader: Option<bool>,
    pub(super) leader_changes: Option<u64>,
    pub(super) late_heartbeats: Option<u64>,
    pub(super) quota_bytes: Option<u64>,
    pub(super) db_bytes: Option<u64>,
    pub(super) fsync: Times,
    pub(super) commit: Times,
    pub(super) round_trips: BTreeMap<MemberId, Times>,
    pub(super) sent: BTreeMap<MemberId, u64>,
    pub(super) received: BTreeMap<MemberId, u64>,
}

/// Reads what etcd 3.4 and later say at `/metrics`.
pub(super) fn parse(text: &str) -> Sample {
    let mut sample = Sample::default();
    for (name, labels, value) in text.lines().filter_map(line) {
        take(&mut sample, name, labels, value);
    }
    sample
}

fn take(sample: &mut Sample, name: &str, labels: &str, value: f64) {
    match name {
        "process_start_time_seconds" => sample.started = Some(value),
        "etcd_server_has_leader" => sample.has_leader = Some(value > 0.0),
        "etcd_server_leader_changes_seen_total" => sample.leader_changes = Some(whole(value)),
        "etcd_server_heartbeat_send_failures_total" => sample.late_heartbeats = Some(whole(value)),
        "etcd_server_quota_backend_bytes" => sample.quota_bytes = Some(whole(value)),
        "etcd_mvcc_db_total_size_in_bytes" => sample.db_bytes = Some(whole(value)),
        "etcd_disk_wal_fsync_duration_seconds_sum" => sample.fsync.sum = value,
        "etcd_disk_wal_fsync_duration_seconds_count" => sample.fsync.count = value,
        "etcd_disk_backend_commit_duration_seconds_sum" => sample.commit.sum = value,
        "etcd_disk_backend_commit_duration_seconds_count" => sample.commit.count = value,
        "etcd_network_peer_round_trip_time_seconds_sum" => {
            put(&mut sample.round_trips, member(labels, "To"), |times| times.sum = value)
        }
        "etcd_network_peer_round_trip_time_seconds_count" => {
            put(&mut sample.round_trips, member(labels, "To"), |times| times.count = value)
        }
        "etcd_network_peer_sent_bytes_total" => put(&mut sample.sent, member(labels, "To"), |bytes| *bytes = whole(value)),
        "etcd_network_peer_received_bytes_total" => {
            put(&mut sample.received, member(labels, "From"), |bytes| *bytes = whole(value))
        }
        _ => {}
    }
}

fn put<T: Default>(map: &mut BTreeMap<MemberId, T>, member: Option<MemberId>, change: impl FnOnce(&mut T)) {
    if let Some(member) = member
        && (map.len() < MEMBERS_MAX || map.contains_key(&member))
    {
        change(map.entry(member).or_default());
    }
}

/// `name{labels} value`; comments and stamped lines are none.
fn line(line: &str) -> Option<(&str, &str, f64)> {
    let (left, value) = line.trim_end().rsplit_once(' ')?;
    let value: f64 = value.parse().ok()?;
    let (name, labels) = left.split_once('{').map_or((left, ""), |(name, labels)| (name, labels.trim_end_matches('}')));
    (value.is_finite() && !name.contains([' ', '#'])).then_some((name, labels, value))
}

/// The member id in a label: `To="5db00d58c1f0d3c5"`. etcd counts what it cannot place under 0.
fn member(labels: &str, key: &str) -> Option<MemberId> {
    let value = labels.split(',').find_map(|label| label.split_once('=').filter(|(name, _)| *name == key))?.1;
    u64::from_str_radix(value.trim_matches('"'), 16).ok().filter(|id| *id != 0).map(MemberId)
}

/// Counters are printed as floats: `5.410608e+06`.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "finite and not negative; beyond u64 it saturates")]
const fn whole(value: f64) -> u64 {
    value.max(0.0) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lines of etcd 3.4.23.
    const TEXT: &str = "\
# HELP etcd_server_has_leader Whether or not a leader exists. 1 is existence, 0 is not.
# TYPE etcd_server_has_leader gauge
etcd_server_has_leader 1
etcd_disk_backend_commit_duration_seconds_bucket{le=\"0.001\"} 3
etcd_disk_backend_commit_duration_seconds_sum 0.007143228999999999
etcd_disk_backend_commit_duration_seconds_count 7
etcd_disk_wal_fsync_duration_seconds_sum 0.08436037199999999
etcd_disk_wal_fsync_duration_seconds_count 77
etcd_mvcc_db_total_size_in_bytes 2.0971520e+07
etcd_network_active_peers{Local=\"d0c0382b84ee5f01\",Remote=\"5db00d58c1f0d3c5\"} 1
etcd_network_peer_received_bytes_total{From=\"0\"} 81
etcd_network_peer_received_bytes_total{From=\"5db00d58c1f0d3c5\"} 5.410608e+06
etcd_network_peer_sent_bytes_total{To=\"5db00d58c1f0d3c5\"} 1.2e+06
etcd_network_peer_round_trip_time_seconds_sum{To=\"5db00d58c1f0d3c5\"} 8.696792604
etcd_network_peer_round_trip_time_seconds_count{To=\"5db00d58c1f0d3c5\"} 30
etcd_network_peer_round_trip_time_seconds_sum{To=\"a8c8702f425a7fcb\"} 6.225050290999999
etcd_network_peer_round_trip_time_seconds_count{To=\"a8c8702f425a7fcb\"} 26
etcd_server_heartbeat_send_failures_total 6
etcd_server_leader_changes_seen_total 50
etcd_server_quota_backend_bytes 2.147483648e+09
process_start_time_seconds 1.79600292013e+09
";

    #[test]
    fn what_matters_is_read_of_a_real_answer() {
        let peer = MemberId(0x5db0_0d58_c1f0_d3c5);
        let sample = parse(TEXT);
        let expected = Sample {
            started: Some(1_796_002_920.13),
            has_leader: Some(true),
            leader_changes: Some(50),
            late_heartbeats: Some(6),
            quota_bytes: Some(2_147_483_648),
            db_bytes: Some(20_971_520),
            fsync: Times { sum: 0.084_360_371_999_999_99, count: 77.0 },
            commit: Times { sum: 0.007_143_228_999_999_999, count: 7.0 },
            round_trips: sample.round_trips.clone(),
            sent: [(peer, 1_200_000)].into(),
            received: [(peer, 5_410_608)].into(),
        };
        assert_eq!(sample, expected);
        assert_eq!(sample.round_trips.len(), 2);
        assert_eq!(sample.round_trips[&peer], Times { sum: 8.696_792_604, count: 30.0 });
    }

    #[test]
    fn lines_of_another_form_are_passed_over() {
        let odd = "etcd_server_has_leader\netcd_server_has_leader x\netcd_server_has_leader NaN\n\n{} 1\n# etcd_server_has_leader 1\n\
                   etcd_network_peer_sent_bytes_total{To=\"x\"} 1\netcd_network_peer_sent_bytes_total 1\netcd_server_quota_backend_bytes -1\n";
        assert_eq!(parse(odd), Sample { quota_bytes: Some(0), ..Sample::default() });
        let many: String = (1..100).map(|id| format!("etcd_network_peer_sent_bytes_total{{To=\"{id:x}\"}} 1\n")).collect();
        assert_eq!(parse(&many).sent.len(), MEMBERS_MAX);
    }
}
