//! `twiceshy health`: asks a running server whether it works.

use std::error::Error;
use std::io::{self, Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, ToSocketAddrs as _};
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// Asks the page of a running server (serve --page) whether the server works.
///
/// It is ready if its filter is relied on and its store answers (/readyz). With --alive it is
/// enough that the process answers (/healthz): a container that is restarted because its database
/// is down gains nothing. No password is needed.
///
/// Exit code: 0 if so; 1 if the server says why not; 2 if there is no answer.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  twiceshy health
  twiceshy health 127.0.0.1:6391 --alive")]
pub struct Args {
    /// Where the page is [default: TWICESHY_PAGE in the environment, or 127.0.0.1:6391]
    #[arg(value_name = "ADDRESS")]
    address: Option<String>,

    /// Ask only whether the process answers
    #[arg(long)]
    alive: bool,

    /// Seconds that an answer may take
    #[arg(long, value_name = "SECONDS", default_value_t = 5,
          value_parser = clap::value_parser!(u64).range(1..=60 * 60))]
    timeout: u64,
}

/// The environment variable of the page, as of 'twiceshy serve'.
const PAGE: &str = "TWICESHY_PAGE";

/// Where the page usually is.
const USUAL: &str = "127.0.0.1:6391";

/// More than the server ever answers here.
const MOST_BYTES: usize = 1 << 16;

pub fn run(args: &Args) -> Result<ExitCode, Box<dyn Error>> {
    let told = args.address.clone().or_else(|| std::env::var(PAGE).ok());
    let address = told.filter(|told| !told.is_empty()).unwrap_or_else(|| USUAL.into());
    let path = if args.alive { "/healthz" } else { "/readyz" };
    let answer = ask(&address, path, Duration::from_secs(args.timeout)).map_err(|error| {
        format!(
            "no answer from the page at {address}: {error}; give the address of --page of a \
             server that runs, such as {USUAL}"
        )
    })?;
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
    let status = head.split_whitespace().nth(1).unwrap_or_default();
    if !head.starts_with("HTTP/1.") || !["200", "503"].contains(&status) {
        let line = head.lines().next().unwrap_or_default();
        let error = format!(
            "{address} is not the page of a server: it answers {line:?}; give the address of \
             --page, such as {USUAL}"
        );
        return Err(error.into());
    }
    println!("{}", body.trim_end());
    Ok(if status == "200" { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The answer to a request, head and body.
fn ask(address: &str, path: &str, patience: Duration) -> io::Result<String> {
    let deadline = Instant::now() + patience;
    let left = || match deadline.saturating_duration_since(Instant::now()) {
        Duration::ZERO => Err(io::Error::from(io::ErrorKind::TimedOut)),
        left => Ok(left),
    };
    let found = address.to_socket_addrs()?.next();
    let address = found.ok_or_else(|| io::Error::other("no such host"))?;
    let mut socket = TcpStream::connect_timeout(&here(address), left()?)?;
    let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    socket.write_all(request.as_bytes())?;
    let mut answer = Vec::new();
    let mut piece = [0; 4096];
    loop {
        socket.set_read_timeout(Some(left()?))?;
        match socket.read(&mut piece)? {
            0 => break,
            read => answer.extend_from_slice(&piece[..read]),
        }
        if answer.len() > MOST_BYTES {
            return Err(io::Error::other("the answer is too long"));
        }
    }
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

/// A server that listens everywhere is also here.
fn here(mut address: SocketAddr) -> SocketAddr {
    if address.ip().is_unspecified() {
        address.set_ip(match address.ip() {
            IpAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
            IpAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
        });
    }
    address
}
