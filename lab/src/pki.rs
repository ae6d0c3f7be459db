//! Certificates of an etcd cluster in kubeadm's layout, fresh for every instance.
//!
//! `/etc/kubernetes/pki/etcd/{ca,server,peer,healthcheck-client}.{crt,key}`; as with kubeadm the server certificate also
//! serves as a client certificate, which is what the vendor's loop presents.
//! Beside server and peer lie odd ones, for the faults that swap them: `server.crt.expired`, `peer.key.wrong-key`, ….

use std::net::Ipv4Addr;
use std::path::Path;

use anyhow::Context as _;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, date_time_ymd,
};

use crate::seed::write_file;

const SECRET: u32 = 0o600;
const PUBLIC: u32 = 0o644;

/// What can be wrong with a certificate; the name is the suffix of its file. With the last one it is the key that is wrong.
pub const ODD: [&str; 6] = ["expired", "not-yet-valid", "wrong-ca", "wrong-name", "wrong-usage", WRONG_KEY];
/// The certificate is good, the key is another one's.
pub const WRONG_KEY: &str = "wrong-key";
/// A name that no node has.
const STRANGER: [&str; 2] = ["stranger", "192.0.2.1"];

/// The certificate authority of one instance.
#[derive(Debug)]
pub struct Authority {
    certificate: String,
    key: String,
    issuer: Issuer<'static, KeyPair>,
    /// Of the same name, and trusted by nobody.
    stranger: Issuer<'static, KeyPair>,
}

impl Authority {
    /// A new one, with a new key.
    ///
    /// # Errors
    /// Key generation or signing fails.
    pub fn generate() -> anyhow::Result<Self> {
        let params = authority()?;
        let new_key = || KeyPair::generate().context("cannot generate the key of etcd's CA");
        let key = new_key()?;
        let certificate = params.self_signed(&key).context("cannot sign the certificate of etcd's CA")?.pem();
        let stranger = Issuer::new(authority()?, new_key()?);
        Ok(Self { certificate, key: key.serialize_pem(), issuer: Issuer::new(params, key), stranger })
    }

    /// Writes a node's set into `directory`.
    ///
    /// # Errors
    /// Signing or writing fails.
    pub fn write_node(&self, directory: &Path, node_name: &str, ip: Ipv4Addr) -> anyhow::Result<()> {
        let server_names = [node_name.to_owned(), "localhost".to_owned(), ip.to_string(), Ipv4Addr::LOCALHOST.to_string()];
        write_file(&directory.join("ca.crt"), self.certificate.as_bytes(), PUBLIC)?;
        write_file(&directory.join("ca.key"), self.key.as_bytes(), SECRET)?;
        for file in ["server", "peer"] {
            self.write_leaf(directory, file, node_name, &server_names)?;
            self.write_odd(directory, file, node_name, &server_names)?;
        }
        self.write_leaf(directory, "healthcheck-client", "kube-etcd-healthcheck-client", &[])
    }

    /// Beside the leaf of that name odd ones, with the same key.
    fn write_odd(&self, directory: &Path, file: &str, common_name: &str, names: &[String]) -> anyhow::Result<()> {
        let pem = std::fs::read_to_string(directory.join(format!("{file}.key")))
            .with_context(|| format!("cannot read etcd's {file} key"))?;
        let key = KeyPair::from_pem(&pem).with_context(|| format!("cannot read etcd's {file} key"))?;
        for odd in ODD {
            let mut params = leaf(common_name, names)?;
            let mut issuer = &self.issuer;
            match odd {
                "expired" => params.not_after = date_time_ymd(2021, 1, 1),
                "not-yet-valid" => params.not_before = date_time_ymd(2099, 1, 1),
                "wrong-ca" => issuer = &self.stranger,
                "wrong-name" => params = leaf(common_name, &STRANGER.map(str::to_owned))?,
                "wrong-usage" => params.extended_key_usages = vec![ExtendedKeyUsagePurpose::CodeSigning],
                _wrong_key => {
                    let other = KeyPair::generate().context("cannot generate a key")?;
                    write_file(&directory.join(format!("{file}.key.{odd}")), other.serialize_pem().as_bytes(), SECRET)?;
                    continue;
                }
            }
            let certificate =
                params.signed_by(&key, issuer).with_context(|| format!("cannot sign etcd's {odd} {file} certificate"))?;
            write_file(&directory.join(format!("{file}.crt.{odd}")), certificate.pem().as_bytes(), PUBLIC)?;
        }
        Ok(())
    }

    fn write_leaf(&self, directory: &Path, file: &str, common_name: &str, names: &[String]) -> anyhow::Result<()> {
        let params = leaf(common_name, names)?;
        let key = KeyPair::generate().with_context(|| format!("cannot generate the key of etcd's {file}"))?;
        let certificate =
            params.signed_by(&key, &self.issuer).with_context(|| format!("cannot sign etcd's {file} certificate"))?;
        write_file(&directory.join(format!("{file}.crt")), certificate.pem().as_bytes(), PUBLIC)?;
        write_file(&directory.join(format!("{file}.key")), key.serialize_pem().as_bytes(), SECRET)
    }
}

fn authority() -> anyhow::Result<CertificateParams> {
    let mut params = params("etcd-ca", &[])?;
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature, KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    Ok(params)
}

/// A client's, and a server's where it has names.
fn leaf(common_name: &str, names: &[String]) -> anyhow::Result<CertificateParams> {
    let mut params = params(common_name, names)?;
    params.use_authority_key_identifier_extension = true;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature, KeyUsagePurpose::KeyEncipherment];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    if !names.is_empty() {
        params.extended_key_usages.push(ExtendedKeyUsagePurpose::ServerAuth);
    }
    Ok(params)
}

fn params(common_name: &str, names: &[String]) -> anyhow::Result<CertificateParams> {
    let mut params =
        CertificateParams::new(names.to_vec()).with_context(|| format!("cannot name {common_name} in a certificate"))?;
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, common_name);
    // Wide, so that a host whose clock is off can run the lab; an expired certificate is a fault of its own.
    params.not_before = date_time_ymd(2020, 1, 1);
    params.not_after = date_time_ymd(2100, 1, 1);
    Ok(params)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_node_gets_the_files_that_kubeadm_would_write_and_keys_are_private() {
        let directory = tempfile::tempdir().unwrap();
        Authority::generate().unwrap().write_node(directory.path(), "4203f2b1", Ipv4Addr::new(192, 168, 111, 201)).unwrap();
        for name in ["ca", "server", "peer", "healthcheck-client"] {
            assert!(std::fs::read_to_string(directory.path().join(format!("{name}.crt"))).unwrap().contains("BEGIN CERTIFICATE"));
            let key = directory.path().join(format!("{name}.key"));
            assert!(std::fs::read_to_string(&key).unwrap().contains("PRIVATE KEY"));
            assert_eq!(key.metadata().unwrap().permissions().mode() & 0o777, SECRET);
        }
        for file in ["server", "peer"] {
            for odd in ODD {
                let suffix = if odd == WRONG_KEY { "key" } else { "crt" };
                assert!(directory.path().join(format!("{file}.{suffix}.{odd}")).exists(), "{file} {odd}");
            }
        }
    }
}
