//! Where a member is called: host and port of its URLs. Pure.

use std::net::IpAddr;

/// Host and port of `https://192.0.2.1:2380`, `https://[2001:db8::1]:2380` or `https://cp1.example:2380/`.
pub(super) fn host_and_port(url: &str) -> Option<(&str, Option<u16>)> {
    let (_, rest) = url.split_once("://")?;
    let authority = rest.split(['/', '?', '#']).next()?;
    let (host, port) = match authority.strip_prefix('[') {
        Some(bracketed) => {
            let (host, rest) = bracketed.split_once(']')?;
            (host, rest.strip_prefix(':'))
        }
        None => authority.rsplit_once(':').map_or((authority, None), |(host, port)| (host, Some(port))),
    };
    let port = port.map(str::parse).transpose().ok()?;
    (!host.is_empty()).then_some((host, port))
}

/// `name=url,name=url`, as `--initial-cluster` has it; a name with several URLs comes several times, and once in what is returned.
pub(super) fn initial_cluster(text: &str) -> Vec<(String, Vec<String>)> {
    let mut members: Vec<(String, Vec<String>)> = Vec::new();
    for (name, url) in text.split(',').filter_map(|pair| pair.trim().split_once('=')) {
        match members.iter_mut().find(|(known, _)| known == name) {
            Some((_, urls)) => urls.push(url.to_owned()),
            None => members.push((name.to_owned(), vec![url.to_owned()])),
        }
    }
    members
}

/// The addresses of a name in the text of `/etc/hosts`, the first one alone: hosts(5).
pub(super) fn in_hosts(text: &str, name: &str) -> Option<IpAddr> {
    text.lines().find_map(|line| {
        let mut words = line.split('#').next()?.split_whitespace();
        let address = words.next()?.parse().ok()?;
        words.any(|alias| alias.eq_ignore_ascii_case(name)).then_some(address)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_and_port_are_found_whatever_follows_them() {
        for (url, expected) in [
            ("https://192.0.2.1:2380", ("192.0.2.1", Some(2380))),
            ("https://192.0.2.1", ("192.0.2.1", None)),
            ("http://[2001:db8::1]:2380/", ("2001:db8::1", Some(2380))),
            ("https://[2001:db8::1]", ("2001:db8::1", None)),
            ("https://cp1.example:2379/health?x#y", ("cp1.example", Some(2379))),
        ] {
            assert_eq!(host_and_port(url), Some(expected), "{url}");
        }
        for url in ["", "192.0.2.1:2380", "https://", "https://:2380", "https://h:port", "https://h:70000", "https://[::1"] {
            assert_eq!(host_and_port(url), None, "{url}");
        }
    }

    #[test]
    fn an_initial_cluster_has_a_member_for_each_name() {
        let members = initial_cluster("cp1=https://192.0.2.1:2380, cp2=https://192.0.2.2:2380,cp1=https://[::1]:2380,odd");
        let urls = |list: &[&str]| list.iter().map(|url| (*url).to_owned()).collect::<Vec<_>>();
        let expected = [
            ("cp1".to_owned(), urls(&["https://192.0.2.1:2380", "https://[::1]:2380"])),
            ("cp2".to_owned(), urls(&["https://192.0.2.2:2380"])),
        ];
        assert_eq!(members, expected);
    }

    #[test]
    fn a_name_is_found_in_hosts_but_not_in_comments() {
        let text = "127.0.0.1 localhost\n192.0.2.1\tcp1.example cp1 # cp9\n# 192.0.2.2 cp2\n192.0.2.3 CP3\nodd cp4\n";
        assert_eq!(in_hosts(text, "cp1"), Some([192, 0, 2, 1].into()));
        assert_eq!(in_hosts(text, "cp3"), Some([192, 0, 2, 3].into()));
        for name in ["cp2", "cp4", "cp9", "192.0.2.1", ""] {
            assert_eq!(in_hosts(text, name), None, "{name}");
        }
    }
}
