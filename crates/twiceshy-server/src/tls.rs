//! TLS to the stores: which certificates are trusted, and what errors mean.
//!
//! A certificate is always verified, chain and name. Encryption alone does not stop an
//! attacker on the network, who can pretend to be the store.

use std::fs;
use std::path::Path;

use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::{ClientConfig, RootCertStore};
use tracing::warn;

use crate::backend::Failure;

/// Certificate authorities of your own, instead of the system's.
#[derive(Clone, Debug)]
pub struct Authorities {
    pem: Vec<u8>,
    roots: RootCertStore,
}

impl Authorities {
    /// The authorities in a PEM file.
    ///
    /// # Errors
    /// [`Failure::Refused`] if it cannot be read or has no certificate.
    pub fn read(path: &Path) -> Result<Self, Failure> {
        let unusable = |reason: String| {
            Failure::Refused(format!(
                "--store-ca {}: {reason}; expected certificates in PEM, each from \
                 \"-----BEGIN CERTIFICATE-----\" on",
                path.display()
            ))
        };
        let pem = fs::read(path).map_err(|error| unusable(error.to_string()))?;
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(&pem) {
            let certificate = certificate.map_err(|error| unusable(error.to_string()))?;
            roots.add(certificate).map_err(|error| unusable(error.to_string()))?;
        }
        if roots.is_empty() {
            return Err(unusable("there is no certificate in it".into()));
        }
        Ok(Authorities { pem, roots })
    }

    pub(crate) fn pem(&self) -> Vec<u8> {
        self.pem.clone()
    }
}

/// These authorities, or those of the system.
pub(crate) fn roots(authorities: Option<&Authorities>) -> RootCertStore {
    authorities.map_or_else(of_the_system, |own| own.roots.clone())
}

/// Verifies by authorities.
pub(crate) fn config(roots: RootCertStore) -> ClientConfig {
    choose_cryptography();
    ClientConfig::builder().with_root_certificates(roots).with_no_client_auth()
}

fn of_the_system() -> RootCertStore {
    let found = rustls_native_certs::load_native_certs();
    for error in found.errors {
        warn!(%error, "a certificate authority of the system is not used");
    }
    let mut roots = RootCertStore::empty();
    // Some systems have unusable ones; if one of them is needed, the handshake says so.
    roots.add_parsable_certificates(found.certs);
    roots
}

/// rustls asks for one choice in a process where crates bring several, and the
/// client of Redis has no other way to be told.
pub(crate) fn choose_cryptography() {
    if CryptoProvider::get_default().is_none() {
        // If other code has already chosen, that is fine.
        let _ = ring::default_provider().install_default();
    }
}

/// Why a connection failed, and what to do if TLS is the cause.
///
/// By the words, since the client of Redis does not hand out the error itself.
pub(crate) fn explained(reason: String) -> String {
    let advice = if reason.contains("invalid peer certificate") {
        "the server's certificate is always verified, whatever sslmode says; if an authority of \
         your own signed it, give that one with --store-ca FILE; if it is for another name, use \
         that name in the address"
    } else if reason.contains("server does not support TLS") {
        "turn TLS on there (ssl = on), or, if you trust the network in between, ask for none with \
         sslmode=disable"
    } else {
        return reason;
    };
    format!("{reason}; {advice}")
}
