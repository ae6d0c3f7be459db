//! What a failure of TLS means: whose certificate is not taken by whom.
//!
//! With TLS 1.3 the client is done before the server has looked at the client's certificate: the refusal comes as an alert, or as a closed
//! connection, in place of the first answer.

use std::io::{Error, ErrorKind};

use tokio_rustls::rustls::{AlertDescription, CertificateError, Error as TlsError};

use crate::diagnose::evidence::Tls;

/// What an error of the stream means. `shaken` is whether our side's handshake was done.
///
/// The text of [`Tls::Untrusted`] begins with one of the words of [`distrust`] and a colon.
pub(super) fn classify(error: &Error, shaken: bool) -> Tls {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<TlsError>());
    if let Some(TlsError::InvalidCertificate(why)) = inner {
        return Tls::Untrusted(format!("{}: {why}", distrust(why)));
    }
    if let Some(TlsError::AlertReceived(alert)) = inner {
        return if is_about_us(*alert) || shaken {
            Tls::RefusedOurs(format!("alert {alert:?}"))
        } else {
            Tls::Failed(format!("alert {alert:?}"))
        };
    }
    let closed = [ErrorKind::BrokenPipe, ErrorKind::ConnectionAborted, ErrorKind::ConnectionReset, ErrorKind::UnexpectedEof]
        .contains(&error.kind());
    if closed && shaken {
        return Tls::RefusedOurs("it closed the connection after the handshake".to_owned());
    }
    if closed { Tls::Failed(format!("closed during the handshake: {error}")) } else { Tls::Failed(error.to_string()) }
}

/// Why a certificate is not trusted, in two words at most.
fn distrust(why: &CertificateError) -> &'static str {
    use CertificateError as E;
    if matches!(why, E::Expired | E::ExpiredContext { .. }) {
        "expired"
    } else if matches!(why, E::NotValidYet | E::NotValidYetContext { .. }) {
        "not yet valid"
    } else if matches!(why, E::UnknownIssuer | E::BadSignature) {
        "unknown CA"
    } else if matches!(why, E::NotValidForName | E::NotValidForNameContext { .. }) {
        "wrong name"
    } else if matches!(why, E::InvalidPurpose | E::InvalidPurposeContext { .. }) {
        "wrong usage"
    } else {
        "invalid"
    }
}

/// Alerts by which a server turns a client's certificate down (RFC 8446, section 6.2).
fn is_about_us(alert: AlertDescription) -> bool {
    use AlertDescription as A;
    [
        A::NoCertificate,
        A::BadCertificate,
        A::UnsupportedCertificate,
        A::CertificateRevoked,
        A::CertificateExpired,
        A::CertificateUnknown,
        A::UnknownCA,
        A::AccessDenied,
        // A CA of the right name with another key: some servers find the signature wrong.
        A::DecryptError,
        A::CertificateRequired,
    ]
    .contains(&alert)
}
