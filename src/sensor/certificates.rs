//! The certificate sense: when a query failed over TLS, which certificate's time is over.
//!
//! Invariants: the files are read only while a failure names TLS, at most once a minute, aside, and by the same bounded look as a diagnosis
//! makes; nobody waits for it. What cannot be read tells nothing: the failure itself is said anyway.

use std::time::Duration;

use tokio::sync::oneshot;

use crate::decision::certificate::Expired;
use crate::decision::time::Moment;
use crate::diagnose::certificate_files;
use crate::diagnose::evidence::{CertificateFile, Seen};
use crate::policy::Policy;
use crate::runtime::clock;

/// Between two looks: a renewed file is noticed when its user asks again.
const LOOK_EVERY: Duration = Duration::from_secs(60);

/// The roles that a local query rests on: who asks, who answers, and whom both trust.
const ROLES: [&str; 3] = ["client", "server", "ca"];

/// The sense.
#[derive(Debug, Default)]
pub struct CertificateSensor {
    found: Option<Expired>,
    look_at: Moment,
    looking: Option<oneshot::Receiver<Option<Expired>>>,
}

impl CertificateSensor {
    /// What was found by now; looks again if that is due. `suspected`: a query has failed over TLS.
    pub fn read(&mut self, policy: &Policy, suspected: bool, now: Moment) -> Option<Expired> {
        if !suspected {
            *self = Self::default();
            return None;
        }
        match self.looking.as_mut().map(oneshot::Receiver::try_recv) {
            Some(Err(oneshot::error::TryRecvError::Empty)) => return self.found.clone(),
            Some(Ok(found)) => (self.found, self.looking) = (found, None),
            Some(Err(oneshot::error::TryRecvError::Closed)) | None => self.looking = None,
        }
        if now >= self.look_at {
            self.look_at = now + LOOK_EVERY;
            let (tell, looking) = oneshot::channel();
            let policy = policy.clone();
            tokio::spawn(async move {
                let seen = certificate_files(&policy).await;
                // Nobody may be left to hear it.
                tell.send(seen.yes().and_then(|files| over(files, clock::wall()))).unwrap_or_default();
            });
            self.looking = Some(looking);
        }
        self.found.clone()
    }
}

/// The first of those that matter here whose time is over.
fn over(files: &[CertificateFile], wall: Duration) -> Option<Expired> {
    let now = i64::try_from(wall.as_secs()).ok()?;
    files.iter().filter(|file| ROLES.contains(&file.role.as_str())).find_map(|file| {
        let Seen::Yes(certificate) = &file.content else { return None };
        let on = jiff::Timestamp::from_second(certificate.not_after).ok()?.to_string();
        (certificate.not_after < now).then(|| Expired { path: file.path.clone(), on })
    })
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use rcgen::{CertificateParams, KeyPair, date_time_ymd};

    use super::*;
    use crate::diagnose::evidence::Certificate;
    use crate::runtime::small_file;

    fn file(role: &str, path: &str, not_after: i64) -> CertificateFile {
        let certificate = Certificate { not_after, ..Certificate::default() };
        CertificateFile { path: path.into(), role: role.to_owned(), content: Seen::Yes(certificate) }
    }

    #[test]
    fn the_first_that_is_over_is_named_and_those_that_no_query_rests_on_are_not() {
        let wall = Duration::from_secs(1_800_000_000);
        let files =
            [file("peer", "/peer.crt", 1), file("client", "/a.crt", 1_800_000_000), file("server", "/b.crt", 1_609_459_200)];
        let expired = over(&files, wall).unwrap();
        assert_eq!(expired, Expired { path: "/b.crt".into(), on: "2021-01-01T00:00:00Z".to_owned() });
        assert_eq!(expired.clause(), "; the certificate expired on 2021-01-01T00:00:00Z (/b.crt)");
        assert_eq!(over(&files[..2], wall), None, "a certificate is good in its last second");
        let unread = CertificateFile { content: Seen::No("permission denied".to_owned()), ..files[2].clone() };
        assert_eq!(over(&[unread], wall), None);
    }

    fn write(directory: &Path, name: &str, year: i32) {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        (params.not_before, params.not_after) = (date_time_ymd(2020, 1, 1), date_time_ymd(year, 1, 1));
        let pem = params.self_signed(&KeyPair::generate().unwrap()).unwrap().pem();
        small_file::replace(&directory.join(name), pem.as_bytes()).unwrap();
    }

    /// Looks until the files have been read.
    async fn found(sensor: &mut CertificateSensor, policy: &Policy, second: u64) -> Option<Expired> {
        loop {
            let found = sensor.read(policy, true, Moment::from_origin(Duration::from_secs(second)));
            if sensor.looking.is_none() {
                return found;
            }
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test]
    async fn the_files_are_read_once_a_minute_and_only_while_a_query_fails_over_tls() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        let mut policy = Policy::with_defaults([192, 168, 111, 200].into(), "eth0");
        (policy.etcd.ca, policy.etcd.cert, policy.etcd.key) = (path("ca.crt"), path("server.crt"), path("server.key"));
        policy.watched_loop.manifest = path("wcp-fip.yaml");
        write(directory.path(), "ca.crt", 2100);
        write(directory.path(), "server.crt", 2021);
        let mut sensor = CertificateSensor::default();
        assert_eq!(sensor.read(&policy, false, Moment::default()), None);
        assert!(sensor.looking.is_none(), "nothing has failed");
        assert_eq!(sensor.read(&policy, true, Moment::default()), None, "nobody waits for a disk");
        let expired = Expired { path: path("server.crt"), on: "2021-01-01T00:00:00Z".to_owned() };
        assert_eq!(found(&mut sensor, &policy, 1).await, Some(expired.clone()));
        write(directory.path(), "server.crt", 2100);
        assert_eq!(found(&mut sensor, &policy, 59).await, Some(expired));
        assert_eq!(found(&mut sensor, &policy, 60).await, None, "it was renewed");
    }
}
