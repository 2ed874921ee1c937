//! The address of a database, and whether the way to it is encrypted.
//!
//! | `sslmode` | here |
//! | --- | --- |
//! | `disable` | no TLS |
//! | `prefer` | TLS if the server has it, and then verified; with an authority of one's own as `require` |
//! | `require`, `verify-ca`, `verify-full` | TLS, verified, chain and name |
//! | none | with an authority of one's own as `require`; to this machine as `disable`; else as `prefer` |
//!
//! libpq verifies nothing for `require` and `prefer`, and no name for `verify-ca`.
//! Nor does it ask whether a server is on the same machine; there, a distribution's
//! server has a certificate that nobody can verify, and nobody listens in.

use std::net::IpAddr;

use tokio_postgres::config::{Config, Host, SslMode};

use super::inspect::refused;
use super::session::told;
use crate::backend::Failure;

/// What an address says; `own` if there is an authority of one's own.
pub(super) fn parsed(address: &str, own: bool) -> Result<Config, Failure> {
    let (base, parameters) = divided(address);
    let is_mode = |parameter: &str| parameter.starts_with("sslmode=");
    let known = |parameter| match parameter {
        // All that is verified at all is verified in full.
        "sslmode=verify-ca" | "sslmode=verify-full" => "sslmode=require",
        other => other,
    };
    let rest: Vec<&str> = parameters.split('&').map(known).collect();
    let mut config: Config = format!("{base}{}", rest.join("&")).parse().map_err(|error| {
        refused(format!(
            "the store's address is not one of PostgreSQL: {}; expected \
             postgres://user:password@host:port/database, perhaps with \
             ?sslmode=disable, prefer, require or verify-full (for sslrootcert there is \
             --store-ca)",
            told(&error)
        ))
    })?;
    // Nothing but a parameter, however it is written, makes it `Require` or `Disable`.
    let asked = rest.iter().copied().any(is_mode) || config.get_ssl_mode() != SslMode::Prefer;
    if !asked && !own && is_here(&config) {
        config.ssl_mode(SslMode::Disable);
    }
    if own && config.get_ssl_mode() == SslMode::Prefer {
        config.ssl_mode(SslMode::Require);
    }
    if own && config.get_ssl_mode() == SslMode::Disable {
        return Err(refused(
            "--store-ca is for TLS, and the store's address asks for none: leave one of \
             --store-ca and sslmode=disable out",
        ));
    }
    Ok(config)
}

/// Up to the question mark, and the parameters, where `tokio-postgres` sees them: a
/// password may have a question mark too.
fn divided(address: &str) -> (&str, &str) {
    let host = address.find('@').map_or(0, |at| at + 1);
    let end = address[host..].find('?').map_or(address.len(), |mark| host + mark + 1);
    address.split_at(end)
}

/// Whether it is on this machine.
fn is_here(config: &Config) -> bool {
    let host_is_here = |host: &Host| match host {
        Host::Tcp(name) if name == "localhost" => true,
        Host::Tcp(name) => name.parse::<IpAddr>().is_ok_and(|address| address.is_loopback()),
        Host::Unix(_) => true,
    };
    // If there are addresses, hosts are only names.
    match config.get_hostaddrs() {
        [] => config.get_hosts().iter().all(host_is_here),
        addresses => addresses.iter().all(IpAddr::is_loopback),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(address: &str, own: bool) -> Result<SslMode, String> {
        parsed(address, own).map(|config| config.get_ssl_mode()).map_err(|error| error.to_string())
    }

    #[test]
    fn what_is_asked_for_is_done_or_more() {
        let far = "postgres://me:a?sslmode=disable@db.example:5433/shop";
        for (parameters, expected) in [
            ("?sslmode=disable", SslMode::Disable),
            ("?sslmode=prefer", SslMode::Prefer),
            ("?sslmode=require", SslMode::Require),
            ("?sslmode=verify-ca", SslMode::Require),
            ("?application_name=x&sslmode=verify-full&connect_timeout=3", SslMode::Require),
            ("", SslMode::Prefer),
            ("?connect_timeout=3", SslMode::Prefer),
        ] {
            let address = format!("{far}{parameters}");
            assert_eq!(mode(&address, false), Ok(expected), "{address}");
        }
        for parameters in ["", "?sslmode=prefer", "?sslmode=require"] {
            assert_eq!(mode(&format!("{far}{parameters}"), true), Ok(SslMode::Require));
        }
        // Written in other ways.
        for address in ["postgres://localhost/?%73slmode=require", "host=::1 sslmode=require"] {
            assert_eq!(mode(address, false), Ok(SslMode::Require), "{address}");
        }
        let both = mode("postgres://db/shop?sslmode=disable", true);
        assert!(both.as_ref().is_err_and(|error| error.contains("--store-ca")), "{both:?}");
        for address in ["postgres://db/shop?sslmode=never", "postgres://db/?sslrootcert=ca.pem"] {
            let error = mode(address, false).expect_err(address);
            assert!(error.contains("sslmode") && error.contains("--store-ca"), "{error}");
        }
    }

    #[test]
    fn only_this_machine_is_asked_without_tls() {
        let here = ["127.0.0.1:5433", "localhost", "[::1]", "127.0.0.2,localhost", "%2Frun%2Fpg"];
        let far = ["10.0.0.1", "localhost.example", "localhost,db.example", "db"];
        for (hosts, expected) in [(&here[..], SslMode::Disable), (&far, SslMode::Prefer)] {
            for host in hosts {
                let address = format!("postgres://me@{host}/shop");
                assert_eq!(mode(&address, false), Ok(expected), "{address}");
                let asked = mode(&format!("{address}?sslmode=require"), false);
                assert_eq!(asked, Ok(SslMode::Require), "{address}");
            }
        }
        let named = "postgres://me@localhost/shop?hostaddr=10.0.0.1";
        assert_eq!(mode(named, false), Ok(SslMode::Prefer), "the address counts, not the name");
    }
}
