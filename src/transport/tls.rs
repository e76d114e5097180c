//! TLS 1.3 whose certificates are bare ed25519 keys (RFC 7250), on both sides.

use std::sync::{Arc, OnceLock};

use ed25519_dalek::pkcs8::EncodePrivateKey as _;
use quinn::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{AlwaysResolvesClientRawPublicKeys, Resumption};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName, UnixTime};
use rustls::server::AlwaysResolvesServerRawPublicKeys;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::sign::CertifiedKey;
use rustls::version::TLS13;
use rustls::{
    CertificateError, DigitallySignedStruct, DistinguishedName, Error, PeerMisbehaved, SignatureScheme,
};

use crate::core::identity::{PublicKey, SecretKey, Signature};

/// The protocol and its version: ends that do not share one do not talk.
const ALPN: &[u8] = b"tanist/1";

/// What stands before the 32 key bytes in the SubjectPublicKeyInfo of an ed25519 key (RFC 8410).
const SPKI_PREFIX: [u8; 12] = [0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00];

/// A key pair in the form that handshakes need.
#[derive(Debug, Clone)]
pub(super) struct Identity {
    provider: Arc<CryptoProvider>,
    certified: Arc<CertifiedKey>,
}

impl Identity {
    pub(super) fn new(secret: &SecretKey) -> Result<Self, String> {
        // Passed explicitly: a process-wide default provider could be set by any other crate.
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let der = ed25519_dalek::SigningKey::from_bytes(&secret.seed())
            .to_pkcs8_der()
            .map_err(|error| error.to_string())?;
        let der = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(der.as_bytes().to_vec()));
        let signer = provider.key_provider.load_private_key(der).map_err(|error| error.to_string())?;
        let certificate = CertificateDer::from(spki(&secret.public()));
        let certified = Arc::new(CertifiedKey::new(vec![certificate], signer));
        Ok(Identity { provider, certified })
    }

    /// For accepting: any acceptable key passes. Whether it has a right here is not TLS's question,
    /// since the answer is a close code with a reason that people can read.
    pub(super) fn accepting(&self) -> Result<QuicServerConfig, Error> {
        let mut config = rustls::ServerConfig::builder_with_provider(self.provider.clone())
            .with_protocol_versions(&[&TLS13])?
            .with_client_cert_verifier(Arc::new(AnyKey))
            .with_cert_resolver(Arc::new(AlwaysResolvesServerRawPublicKeys::new(self.certified.clone())));
        config.alpn_protocols = vec![ALPN.to_vec()];
        // A resumed session would skip the verifier, and early data could be replayed.
        config.send_tls13_tickets = 0;
        config.session_storage = Arc::new(rustls::server::NoServerSessionStorage {});
        config.max_early_data_size = 0;
        QuicServerConfig::try_from(config).map_err(|error| Error::General(error.to_string()))
    }

    /// For one dial: exactly `expected` passes. Another key that was shown lands in `found`.
    pub(super) fn dialling(
        &self,
        expected: PublicKey,
        found: Arc<OnceLock<PublicKey>>,
    ) -> Result<QuicClientConfig, Error> {
        let mut config = rustls::ClientConfig::builder_with_provider(self.provider.clone())
            .with_protocol_versions(&[&TLS13])?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(ExactKey { expected, found }))
            .with_client_cert_resolver(Arc::new(AlwaysResolvesClientRawPublicKeys::new(
                self.certified.clone(),
            )));
        config.alpn_protocols = vec![ALPN.to_vec()];
        config.resumption = Resumption::disabled();
        config.enable_early_data = false;
        // Keys name nodes; a host name would only tell an onlooker something.
        config.enable_sni = false;
        QuicClientConfig::try_from(config).map_err(|error| Error::General(error.to_string()))
    }
}

/// The key that the other end of an established connection proved.
pub(super) fn peer_key(connection: &quinn::Connection) -> Option<PublicKey> {
    let identity = connection.peer_identity()?;
    let chain = identity.downcast::<Vec<CertificateDer<'static>>>().ok()?;
    match chain.as_slice() {
        [only] => key_in(only).ok(),
        _ => None,
    }
}

fn spki(key: &PublicKey) -> Vec<u8> {
    [SPKI_PREFIX.as_slice(), key.as_bytes()].concat()
}

fn key_in(certificate: &CertificateDer<'_>) -> Result<PublicKey, Error> {
    let bad = || Error::InvalidCertificate(CertificateError::BadEncoding);
    let key = certificate.as_ref().strip_prefix(SPKI_PREFIX.as_slice()).ok_or_else(bad)?;
    let key = <[u8; 32]>::try_from(key).map_err(|_| bad())?;
    PublicKey::try_from(key).map_err(|_| bad())
}

/// Strict verification, as for every other signature of the protocol.
fn signed(
    message: &[u8],
    certificate: &CertificateDer<'_>,
    signed: &DigitallySignedStruct,
) -> Result<HandshakeSignatureValid, Error> {
    if signed.scheme != SignatureScheme::ED25519 {
        return Err(PeerMisbehaved::SignedHandshakeWithUnadvertisedSigScheme.into());
    }
    let bad = || Error::InvalidCertificate(CertificateError::BadSignature);
    let signature = Signature(<[u8; 64]>::try_from(signed.signature()).map_err(|_| bad())?);
    if key_in(certificate)?.verifies(message, &signature) {
        Ok(HandshakeSignatureValid::assertion())
    } else {
        Err(bad())
    }
}

fn only_tls13() -> Error {
    Error::General("only TLS 1.3 is spoken here".into())
}

fn sole_key(end: &CertificateDer<'_>, rest: &[CertificateDer<'_>]) -> Result<PublicKey, Error> {
    if !rest.is_empty() {
        return Err(Error::InvalidCertificate(CertificateError::BadEncoding));
    }
    key_in(end)
}

#[derive(Debug)]
struct ExactKey {
    expected: PublicKey,
    found: Arc<OnceLock<PublicKey>>,
}

impl ServerCertVerifier for ExactKey {
    fn verify_server_cert(
        &self,
        end: &CertificateDer<'_>,
        rest: &[CertificateDer<'_>],
        _name: &ServerName<'_>,
        _ocsp: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let key = sole_key(end, rest)?;
        if key == self.expected {
            return Ok(ServerCertVerified::assertion());
        }
        // Shown only, not yet proved; it serves an error message and nothing else.
        let _ = self.found.set(key);
        Err(Error::InvalidCertificate(CertificateError::ApplicationVerificationFailure))
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _certificate: &CertificateDer<'_>,
        _signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(only_tls13())
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        by: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        signed(message, certificate, by)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![SignatureScheme::ED25519]
    }

    fn requires_raw_public_keys(&self) -> bool {
        true
    }
}

#[derive(Debug)]
struct AnyKey;

impl ClientCertVerifier for AnyKey {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        end: &CertificateDer<'_>,
        rest: &[CertificateDer<'_>],
        _now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        sole_key(end, rest).map(|_| ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _certificate: &CertificateDer<'_>,
        _signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(only_tls13())
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        by: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        signed(message, certificate, by)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![SignatureScheme::ED25519]
    }

    fn requires_raw_public_keys(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_spki_of_an_acceptable_ed25519_key_is_a_certificate() {
        let key = SecretKey::from_seed(&[3; 32]).public();
        let good = spki(&key);
        assert_eq!(good.len(), 44);
        assert_eq!(key_in(&CertificateDer::from(good.clone())), Ok(key));

        let mut long = good.clone();
        long.push(0);
        let mut other_algorithm = good.clone();
        other_algorithm[8] = 0x6e; // X25519
        let mut small_order = good;
        small_order[12..].fill(0);
        small_order[12] = 1;
        for bad in [long, other_algorithm, small_order, Vec::new()] {
            assert!(key_in(&CertificateDer::from(bad)).is_err());
        }
    }
}
