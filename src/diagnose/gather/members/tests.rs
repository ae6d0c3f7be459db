//! Lists from each source, and what they come to.

use super::*;

fn listed(id: u64, name: &str, peer_urls: &[&str], client_urls: &[&str]) -> ListedMember {
    let owned = |urls: &[&str]| urls.iter().map(|url| (*url).to_owned()).collect();
    ListedMember { id, name: name.to_owned(), peer_urls: owned(peer_urls), client_urls: owned(client_urls), learner: false }
}

#[test]
fn a_members_address_and_ports_are_those_of_its_urls_and_names_are_resolved() {
    let list = MemberList {
        own_id: 2,
        members: vec![
            listed(1, "cp1", &["https://192.0.2.1:12380"], &["https://192.0.2.1:12379"]),
            listed(2, "cp2", &["https://cp2.example:2380"], &[]),
            listed(
                3,
                "cp3",
                &["https://cp3.example:2380", "https://192.0.2.3:3380"],
                &["https://127.0.0.1:9", "https://192.0.2.3:3379"],
            ),
            listed(4, "", &["https://cp4.example"], &[]),
        ],
    };
    let names = Names([("cp2.example".to_owned(), Some([192, 0, 2, 2].into())), ("cp4.example".to_owned(), None)].into());
    let members = members(MemberSource::Etcd, &list, &names);
    let seen: Vec<_> = members.list.iter().map(|member| (member.address, member.peer_port, member.client_port)).collect();
    let address = |last: u8| Some(IpAddr::from([192, 0, 2, last]));
    assert_eq!(seen, [(address(1), 12380, 12379), (address(2), 2380, 2379), (address(3), 3380, 3379), (None, 2380, 2379)]);
    assert_eq!((members.own_id, members.unresolved), (Some(MemberId(2)), vec!["cp4.example".to_owned()]));
}

/// A policy whose etcd nobody listens for, and whose files are in `directory`.
fn policy(directory: &std::path::Path) -> Policy {
    let mut policy = Policy::with_defaults([192, 0, 2, 200].into(), "eth0");
    policy.watched_loop.manifest = directory.join("wcp-fip.yaml");
    policy.state_dir = directory.to_owned();
    policy.etcd.ca = directory.join("ca.crt");
    policy
}

async fn seen(policy: &Policy) -> Seen<Members> {
    look(policy, &Asker::new(&policy.etcd)).await
}

#[tokio::test]
async fn without_etcd_the_kept_list_goes_before_the_initial_cluster() {
    let directory = tempfile::tempdir().unwrap();
    let place = |name: &str, content: &[u8]| crate::runtime::small_file::replace(&directory.path().join(name), content).unwrap();
    let policy = policy(directory.path());
    place("etcd.yaml", b"spec: {containers: [{name: etcd, command: [etcd, '--initial-cluster=cp1=https://192.0.2.1:2380,cp2=https://192.0.2.2:2380']}]}");
    let Seen::Yes(members) = seen(&policy).await else { panic!("not seen") };
    assert_eq!((members.source, members.own_id), (MemberSource::InitialCluster, None));
    let names: Vec<&str> = members.list.iter().map(|member| member.name.as_str()).collect();
    assert_eq!(names, ["cp1", "cp2"]);
    assert_eq!(members.list[1].address, Some([192, 0, 2, 2].into()));

    let kept = MemberList { own_id: 7, members: vec![listed(7, "cp9", &["https://192.0.2.9:2380"], &[])] };
    place("members.json", &serde_json::to_vec(&kept).unwrap());
    let Seen::Yes(members) = seen(&policy).await else { panic!("not seen") };
    assert_eq!((members.source, members.own_id, members.list.len()), (MemberSource::Remembered, Some(MemberId(7)), 1));

    place("members.json", b"{");
    let Seen::Yes(members) = seen(&policy).await else { panic!("not seen") };
    assert_eq!(members.source, MemberSource::InitialCluster);
}

#[tokio::test]
async fn nothing_known_is_said_with_every_reason() {
    let directory = tempfile::tempdir().unwrap();
    crate::runtime::small_file::replace(
        &directory.path().join("etcd.yaml"),
        b"spec: {containers: [{name: etcd, command: [etcd, --name=x]}]}",
    )
    .unwrap();
    let Seen::No(why) = seen(&policy(directory.path())).await else { panic!("seen") };
    for reason in ["ca.crt", "the daemon kept no list", "etcd's flags name no initial cluster"] {
        assert!(why.contains(reason), "{why}");
    }
}
