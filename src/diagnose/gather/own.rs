//! Which of the members is this node.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

use crate::diagnose::evidence::{Member, Members};

/// The local member: by its id, else by its address, else by the node's name.
pub(super) fn find<'m>(members: &'m Members, node: &str) -> Option<&'m Member> {
    let list = &members.list;
    let by_id = members.own_id.and_then(|id| list.iter().find(|member| member.id == id));
    let by_address = || list.iter().find(|member| member.address.is_some_and(is_local));
    let by_name = || list.iter().find(|member| !member.name.is_empty() && member.name == node);
    by_id.or_else(by_address).or_else(by_name)
}

/// The kernel talks to its own addresses from these addresses. Nothing is sent by connecting a datagram socket; binding would not do,
/// because `ip_nonlocal_bind` allows that for any address.
fn is_local(address: IpAddr) -> bool {
    let any: IpAddr = if address.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let from = UdpSocket::bind((any, 0)).and_then(|socket| {
        socket.connect(SocketAddr::new(address, 9))?;
        socket.local_addr()
    });
    from.is_ok_and(|from| from.ip() == address)
}

/// The host's name; empty when it is not UTF-8.
pub(super) fn host_name() -> String {
    rustix::system::uname().nodename().to_str().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnose::evidence::MemberId;

    fn member(id: u64, name: &str, address: [u8; 4]) -> Member {
        Member { id: MemberId(id), name: name.to_owned(), address: Some(address.into()), ..Member::default() }
    }

    #[test]
    fn the_local_member_is_known_by_its_id_then_by_its_address_then_by_its_name() {
        // 192.0.2.0/24 is for documentation (RFC 5737).
        let list = vec![member(1, "cp1", [192, 0, 2, 1]), member(2, "cp2", [127, 0, 0, 1]), member(3, "cp3", [192, 0, 2, 3])];
        let mut members = Members { list, own_id: Some(MemberId(3)), ..Members::default() };
        assert_eq!(find(&members, "cp1"), members.list.get(2));
        members.own_id = Some(MemberId(4));
        assert_eq!(find(&members, "cp1"), members.list.get(1));
        members.list[1].address = None;
        assert_eq!(find(&members, "cp1"), members.list.first());
        members.list[0].name = String::new();
        assert_eq!(find(&members, ""), None);
    }
}
