//! Where the server listens, and the password without which it listens to this machine only.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;

use tokio::net::{TcpListener, lookup_host};
use twiceshy_server::{Password, may_listen};

/// Listens where a flag says, if that is allowed.
pub(super) async fn bound(
    flag: &str,
    address: &str,
    password: Option<&Password>,
) -> Result<TcpListener, String> {
    let address = permitted(flag, address, password).await?;
    TcpListener::bind(address)
        .await
        .map_err(|error| format!("cannot listen on {address}: {error}; try another {flag}"))
}

/// Where a flag says, if listening there is allowed.
pub(super) async fn permitted(
    flag: &str,
    address: &str,
    password: Option<&Password>,
) -> Result<SocketAddr, String> {
    let address = resolved(flag, address).await?;
    may_listen(address, password).map_err(|reason| format!("{flag} {reason}"))?;
    Ok(address)
}

async fn resolved(flag: &str, address: &str) -> Result<SocketAddr, String> {
    let unusable = |reason: String| {
        format!("{flag} {address}: {reason}; expected an address and a port, as 127.0.0.1:6390")
    };
    let mut found = lookup_host(address).await.map_err(|error| unusable(error.to_string()))?;
    found.next().ok_or_else(|| unusable("no such host".into()))
}

/// The environment variable of the password: unlike a flag, others cannot see it.
pub(super) const PASSWORD: &str = "TWICESHY_PASSWORD";

/// The password in a file, or else in the environment.
pub(super) fn password(file: Option<&Path>) -> Result<Option<Password>, String> {
    let (text, source) = match file {
        Some(path) => {
            let text = fs::read_to_string(path)
                .map_err(|error| format!("cannot read {}: {error}", path.display()))?;
            (text, path.display().to_string())
        }
        None => match std::env::var(PASSWORD) {
            Ok(text) => (text, PASSWORD.into()),
            Err(std::env::VarError::NotPresent) => return Ok(None),
            Err(error) => return Err(format!("{PASSWORD}: {error}")),
        },
    };
    match text.lines().next() {
        Some(line) if !line.is_empty() => Ok(Some(Password::new(line))),
        _ => Err(format!("the password of {source} is empty; write one in its first line")),
    }
}
