//! Stores behind TLS, with certificates of an authority that only the test knows.

use std::fs;

use tempfile::TempDir;
use twiceshy_server::{Authorities, Failure, PostgresOptions};

use crate::client::Value;
use crate::harness::{Running, options, postgres, redis_after, table};
use crate::upstreams::{Authority, PostgresServer, RedisServer};

fn authorities(authority: &Authority) -> Option<Authorities> {
    Some(Authorities::read(&authority.path()).expect("a certificate"))
}

/// Where the certificate is the reason, that is said, and what to do.
fn assert_not_believed(outcome: Result<Running, Failure>, problem: &str) {
    let Err(failure) = outcome else { panic!("it is believed in spite of: {problem}") };
    let said = failure.to_string();
    assert!(said.contains("invalid peer certificate") && said.contains(problem), "{said}");
    assert!(said.contains("always verified") && said.contains("--store-ca FILE"), "{said}");
}

/// The keys 1 to 1000 were streamed to the filter, and are found.
fn assert_serves(running: &Running) {
    let mut client = running.client();
    assert_eq!(client.line("DBSIZE"), Value::Integer(1000));
    assert_eq!(client.line("MGET 1 nobody 1000"), {
        Value::Array(vec![Value::bulk("v1"), Value::Nil, Value::bulk("v1000")])
    });
    assert_eq!(client.line("EXISTS nobody 7"), Value::Integer(1));
}

#[test]
fn postgres_is_verified_whatever_the_mode() {
    let (authority, another) = (Authority::new(), Authority::new());
    let server = PostgresServer::start_with_tls(&authority, &[]);
    server.sql(
        "CREATE TABLE t (k text PRIMARY KEY, v text);
         INSERT INTO t SELECT n, 'v' || n FROM generate_series(1, 1000) n",
    );
    let asked = |parameters: &str, authorities: Option<Authorities>| {
        let address = format!("{}{parameters}", server.address());
        PostgresOptions { authorities, ..table(&address, "t", "k", Some("v")) }
    };
    let open = |table: &PostgresOptions| {
        let directory = TempDir::new().expect("a directory");
        let running = postgres(table, &options(directory.path()))?;
        Ok((running, directory))
    };
    let sessions = |encrypted: bool| {
        let count = server.sql(&format!(
            "SELECT count(*) FROM pg_stat_ssl JOIN pg_stat_activity USING (pid)
             WHERE application_name = 'twiceshy' AND ssl = {encrypted}"
        ));
        count.parse::<u32>().expect("a number")
    };
    for mode in
        ["", "?sslmode=prefer", "?sslmode=require", "?sslmode=verify-ca", "?sslmode=verify-full"]
    {
        let (running, _directory) =
            open(&asked(mode, authorities(&authority))).unwrap_or_else(|failure: Failure| {
                panic!("{mode}: {failure}");
            });
        assert_serves(&running);
        assert!(sessions(true) > 0, "{mode}");
        assert_eq!(sessions(false), 0, "{mode}");
        let refused = |authorities, problem| {
            assert_not_believed(
                open(&asked(mode, authorities)).map(|(running, _)| running),
                problem,
            );
        };
        // Of the same name, with another key.
        refused(authorities(&another), "BadSignature");
        if !mode.is_empty() {
            // Those of the system.
            refused(None, "UnknownIssuer");
        }
    }

    // The certificate is for 127.0.0.1, not for localhost.
    let named = server.address().replace("127.0.0.1", "localhost");
    for mode in ["prefer", "require", "verify-ca", "verify-full"] {
        let address = format!("{named}?hostaddr=127.0.0.1&sslmode={mode}");
        let authorities = authorities(&authority);
        let table = PostgresOptions { authorities, ..table(&address, "t", "k", Some("v")) };
        let outcome = open(&table).map(|(running, _)| running);
        assert_not_believed(outcome, "not valid for name \"localhost\"");
    }

    // On this machine nobody listens in, and Debian's certificate is nobody's.
    for mode in ["", "?sslmode=disable"] {
        let (running, _directory) =
            open(&asked(mode, None)).unwrap_or_else(|failure: Failure| panic!("{mode}: {failure}"));
        assert_serves(&running);
        assert!(sessions(false) > 0, "{mode}");
    }
}

#[test]
fn redis_is_verified() {
    let (authority, another) = (Authority::new(), Authority::new());
    let server = RedisServer::start_with_tls(&authority, "IP:127.0.0.1");
    let mut words = vec!["MSET".to_string()];
    words.extend((1..=1000).flat_map(|n| [n.to_string(), format!("v{n}")]));
    assert_eq!(server.client().call(&words), Value::ok());
    let directory = TempDir::new().expect("a directory");
    let open = |address: &str, authorities: Option<Authorities>| {
        redis_after(address, authorities.as_ref(), &options(directory.path()), || ())
    };
    let running = open(&server.tls_address(), authorities(&authority)).expect("it is believed");
    assert_serves(&running);
    assert_eq!(running.client().line("SET new 1"), Value::ok());
    assert_eq!(server.client().line("GET new"), Value::bulk("1"));
    running.stop();

    assert_not_believed(open(&server.tls_address(), authorities(&another)), "BadSignature");
    assert_not_believed(open(&server.tls_address(), None), "UnknownIssuer");
    let elsewhere = RedisServer::start_with_tls(&authority, "DNS:elsewhere.example");
    let outcome = open(&elsewhere.tls_address(), authorities(&authority));
    assert_not_believed(outcome, "not valid for name \"127.0.0.1\"");

    let fails = |address: &str, authorities: Option<Authorities>| {
        open(address, authorities).err().expect("refused").to_string()
    };
    let insecure = fails(&format!("{}#insecure", server.tls_address()), authorities(&authority));
    assert!(insecure.contains("always verified"), "{insecure}");
    let plain = fails(&server.address(), authorities(&authority));
    assert!(plain.contains("use rediss:// instead"), "{plain}");
    let wrong_port = server.address().replace("redis://", "rediss://");
    let wrong_port = fails(&wrong_port, authorities(&authority));
    assert!(wrong_port.contains("rediss:// needs the server's TLS port"), "{wrong_port}");
}

#[test]
fn files_without_an_authority_are_refused() {
    let authority = Authority::new();
    let directory = TempDir::new().expect("a directory");
    let file = directory.path().join("ca.pem");
    let refused = |problem: &str| {
        let failure = Authorities::read(&file).expect_err(problem).to_string();
        assert!(failure.contains(problem) && failure.contains("ca.pem"), "{failure}");
        assert!(failure.contains("expected certificates in PEM"), "{failure}");
    };
    refused("No such file");
    let (_, key) = authority.sign("IP:127.0.0.1");
    fs::copy(key, &file).expect("a copy");
    refused("there is no certificate in it");
    let whole = fs::read(authority.path()).expect("a certificate");
    fs::write(&file, &whole[..whole.len() / 2]).expect("written");
    refused("--store-ca");
    // One good certificate does not hide a bad one after it.
    let bad = b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    fs::write(&file, [&whole[..], bad].concat()).expect("written");
    refused("--store-ca");
}
