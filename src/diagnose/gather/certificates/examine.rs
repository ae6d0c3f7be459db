//! What is in a certificate file: from the bytes of three PEM files to a [`Certificate`]. Pure.
//!
//! Invariant: any bytes give an answer and never a panic, and whatever cannot be checked is `None`. Sizes are bounded by whoever
//! reads the files; the numbers of certificates and names are bounded here. Time is not judged: the tree has the clock.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use rustls::crypto::ring::sign::any_supported_type;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use x509_parser::error::X509Error;
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::{FromDer as _, X509Certificate};
use x509_parser::x509::SubjectPublicKeyInfo;

use crate::audit::text::clip;
use crate::diagnose::evidence::Certificate;

/// Certificates of a file that are looked at: a leaf and its chain, or a bundle of CAs while one is being replaced.
const CERTIFICATES_MAX: usize = 16;
/// Links between a leaf and its CA that are followed.
const CHAIN_MAX: usize = 4;
/// Names that are kept; kubeadm's certificates have four.
const NAMES_MAX: usize = 64;
/// Bytes of a name or subject that are kept: a DNS name has at most 253.
const NAME_BYTES_MAX: usize = 253;

/// The first certificate of `pem`, held against the CA and the key beside it where those could be read.
///
/// # Errors
/// There is no certificate in it, or it is not understood.
pub(super) fn examine(pem: &[u8], ca: Option<&[u8]>, key: Option<&[u8]>) -> Result<Certificate, String> {
    let ders = ders(pem)?;
    let chain: Vec<X509Certificate<'_>> = ders.iter().filter_map(parse).collect();
    let first = ders.first().ok_or("there is no certificate in it")?;
    let leaf = parse(first).ok_or("its first certificate is not understood")?;
    let (server_use, client_use) = uses(&leaf)?;
    Ok(Certificate {
        subject: clip(&leaf.subject().to_string(), NAME_BYTES_MAX),
        not_before: leaf.validity().not_before.timestamp(),
        not_after: leaf.validity().not_after.timestamp(),
        names: names(&leaf)?,
        server_use,
        client_use,
        signed_by_ca: ca.and_then(|ca| is_signed_by(&leaf, &chain, ca)),
        key_matches: key.and_then(|key| belongs_to(key, &leaf)),
        names_own_address: None,
    })
}

fn ders(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, String> {
    let sections = CertificateDer::pem_slice_iter(pem).take(CERTIFICATES_MAX);
    sections.collect::<Result<_, _>>().map_err(|error| format!("it is no PEM file of certificates: {error}"))
}

fn parse<'a>(der: &'a CertificateDer<'_>) -> Option<X509Certificate<'a>> {
    X509Certificate::from_der(der).ok().filter(|(rest, _)| rest.is_empty()).map(|(_, certificate)| certificate)
}

/// Good for a server, and for a client. Without an extended key usage it is good for both (RFC 5280 section 4.2.1.12).
fn uses(certificate: &X509Certificate<'_>) -> Result<(bool, bool), String> {
    let extension =
        certificate.extended_key_usage().map_err(|error| format!("its extended key usage is not understood: {error}"))?;
    Ok(extension
        .map_or((true, true), |usage| (usage.value.any || usage.value.server_auth, usage.value.any || usage.value.client_auth)))
}

fn names(certificate: &X509Certificate<'_>) -> Result<Vec<String>, String> {
    let extension = certificate.subject_alternative_name().map_err(|error| format!("its names are not understood: {error}"))?;
    let Some(extension) = extension else { return Ok(Vec::new()) };
    Ok(extension.value.general_names.iter().filter_map(name).take(NAMES_MAX).collect())
}

/// Names by which a TLS server is checked; the others do not matter to etcd.
fn name(name: &GeneralName<'_>) -> Option<String> {
    if let GeneralName::DNSName(name) = name {
        Some(clip(name, NAME_BYTES_MAX))
    } else if let GeneralName::IPAddress(bytes) = name {
        address(bytes).map(|address| address.to_string())
    } else {
        None
    }
}

fn address(bytes: &[u8]) -> Option<IpAddr> {
    let v4 = <[u8; 4]>::try_from(bytes).map(|octets| IpAddr::V4(Ipv4Addr::from(octets))).ok();
    v4.or_else(|| <[u8; 16]>::try_from(bytes).map(|octets| IpAddr::V6(Ipv6Addr::from(octets))).ok())
}

/// Whether the leaf leads to one of the CAs, by certificates of its own file where there are any. `None` if the CA file is not
/// understood, or a signature is of a kind that is not known here.
fn is_signed_by(leaf: &X509Certificate<'_>, chain: &[X509Certificate<'_>], ca: &[u8]) -> Option<bool> {
    let ders = ders(ca).ok()?;
    let cas: Vec<X509Certificate<'_>> = ders.iter().filter_map(parse).collect();
    if cas.is_empty() {
        return None;
    }
    let mut subject = leaf;
    let mut told = Some(false);
    for _ in 0..CHAIN_MAX {
        match signed_by_any(subject, &cas) {
            Some(true) => return Some(true),
            Some(false) => {}
            None => told = None,
        }
        match chain.iter().find(|issuer| signed_by_any(subject, std::slice::from_ref(*issuer)) == Some(true)) {
            Some(issuer) if issuer.is_ca() => subject = issuer,
            Some(_) | None => return told,
        }
    }
    told
}

fn signed_by_any(subject: &X509Certificate<'_>, issuers: &[X509Certificate<'_>]) -> Option<bool> {
    let mut told = Some(false);
    // A CA that was made anew under the old name is another CA: the name alone proves nothing.
    for issuer in issuers.iter().filter(|issuer| issuer.subject() == subject.issuer()) {
        match subject.verify_signature(Some(issuer.public_key())) {
            Ok(()) => return Some(true),
            Err(X509Error::SignatureUnsupportedAlgorithm) => told = None,
            Err(_) => {}
        }
    }
    told
}

/// Whether the private key's public half is the certificate's. `None` if the key is of no known kind.
fn belongs_to(key: &[u8], certificate: &X509Certificate<'_>) -> Option<bool> {
    let key = PrivateKeyDer::from_pem_slice(key).ok()?;
    let key = any_supported_type(&key).ok()?;
    let spki = key.public_key()?;
    let (_, public) = SubjectPublicKeyInfo::from_der(&spki).ok()?;
    Some(public.subject_public_key.data == certificate.public_key().subject_public_key.data)
}
