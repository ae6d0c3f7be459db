//! Faults of etcd's certificates: `pki` has written odd ones beside the good ones, and they change places.

use super::Target;
use super::etcd::restart_soon;
use crate::pki::{ODD, WRONG_KEY};

const ROLES: [&str; 2] = ["peer", "server"];

/// etcd reads a certificate again for each new connection; a restart makes all of them new ones, and fails over a key that
/// does not match.
pub(super) async fn swap(target: &Target<'_>) -> anyhow::Result<()> {
    let (which, what) = (target.choice("which", &ROLES)?, target.choice("what", &ODD)?);
    put(target, which, what).await?;
    restart_soon(target).await
}

pub(super) async fn swap_back(target: &Target<'_>) -> anyhow::Result<()> {
    put_back(target, target.choice("which", &ROLES)?).await?;
    restart_soon(target).await
}

pub(super) async fn expire(target: &Target<'_>) -> anyhow::Result<()> {
    put(target, "server", "expired").await
}

pub(super) async fn renew(target: &Target<'_>) -> anyhow::Result<()> {
    put_back(target, "server").await
}

async fn put(target: &Target<'_>, which: &str, what: &str) -> anyhow::Result<()> {
    let file = format!("{which}.{}", if what == WRONG_KEY { "key" } else { "crt" });
    let script = "cd /etc/kubernetes/pki/etcd; [ -e \"$1.good\" ] || cp -p \"$1\" \"$1.good\"; \
                  cp -p \"$1.$2\" .fip-lab; mv -f .fip-lab \"$1\"";
    target.shell(script, &[&file, what]).await?;
    Ok(())
}

async fn put_back(target: &Target<'_>, which: &str) -> anyhow::Result<()> {
    let script = "cd /etc/kubernetes/pki/etcd; for file in \"$1.crt\" \"$1.key\"; do \
                  [ ! -e \"$file.good\" ] || mv -f \"$file.good\" \"$file\"; done";
    target.shell(script, &[which]).await?;
    Ok(())
}
