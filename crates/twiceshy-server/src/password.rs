//! [`Password`]: authentication of clients.

use std::fmt;
use std::net::SocketAddr;

use subtle::ConstantTimeEq as _;
use twiceshy::KeyHasher;

/// A password, kept as a keyed digest, so that the time of a comparison reveals nothing about
/// it, not even its length.
pub struct Password {
    hasher: KeyHasher,
    digest: [u64; 2],
}

impl Password {
    /// A password.
    #[must_use]
    pub fn new(password: impl AsRef<[u8]>) -> Self {
        let hasher = KeyHasher::random();
        let digest = hasher.digest(password).words();
        Password { hasher, digest }
    }

    /// Whether this is the password.
    #[must_use]
    pub fn is(&self, guess: impl AsRef<[u8]>) -> bool {
        let digest = self.hasher.digest(guess).words();
        (digest[0].ct_eq(&self.digest[0]) & digest[1].ct_eq(&self.digest[1])).into()
    }
}

impl fmt::Debug for Password {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Password(..)")
    }
}

/// Whether a server may listen on an address: without a password, only where no other machine
/// can reach it.
///
/// # Errors
/// Why not, and what to do.
pub fn may_listen(address: SocketAddr, password: Option<&Password>) -> Result<(), String> {
    if address.ip().is_loopback() || password.is_some() {
        return Ok(());
    }
    Err(format!(
        "{address} can be reached from other machines, and there is no password; set one, or \
         listen on 127.0.0.1:{}",
        address.port()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_password_is_the_password() {
        let password = Password::new("open sesame");
        assert!(password.is("open sesame"));
        for guess in ["", "open", "open sesame ", "Open sesame"] {
            assert!(!password.is(guess), "{guess:?}");
        }
        assert_eq!(format!("{password:?}"), "Password(..)");
    }

    #[test]
    fn beyond_loopback_only_with_a_password() {
        let password = Password::new("x");
        for address in ["127.0.0.1:1", "127.9.9.9:1", "[::1]:1"] {
            let address = address.parse().expect("an address");
            assert_eq!(may_listen(address, None), Ok(()));
        }
        for address in ["0.0.0.0:1", "192.168.0.7:1", "[::]:1", "[::ffff:127.0.0.1]:1"] {
            let address = address.parse().expect("an address");
            assert!(may_listen(address, None).is_err_and(|why| why.contains("127.0.0.1:1")));
            assert_eq!(may_listen(address, Some(&password)), Ok(()));
        }
    }
}
