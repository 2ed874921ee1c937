//! A certificate authority of a test, by the program `openssl`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

/// An authority that nobody knows but its test.
pub struct Authority(TempDir);

impl Authority {
    pub fn new() -> Self {
        let authority = Authority(TempDir::new().expect("a directory"));
        authority.make("authority", "basicConstraints=critical,CA:TRUE", &[]);
        authority
    }

    /// Its own certificate.
    pub fn path(&self) -> PathBuf {
        self.0.path().join("authority.pem")
    }

    /// A certificate and its key for a name: "IP:127.0.0.1" or "DNS:example.com".
    pub fn sign(&self, name: &str) -> (PathBuf, PathBuf) {
        let key = self.0.path().join("authority.key");
        let extensions = format!("basicConstraints=CA:FALSE\nsubjectAltName={name}");
        self.make("server", &extensions, &["-CA".as_ref(), &self.path(), "-CAkey".as_ref(), &key])
    }

    fn make(&self, subject: &str, extensions: &str, signer: &[&Path]) -> (PathBuf, PathBuf) {
        let file = |extension: &str| self.0.path().join(format!("{subject}.{extension}"));
        let (certificate, key, config) = (file("pem"), file("key"), file("cnf"));
        let text = format!("[req]\ndistinguished_name=name\n[name]\n[extensions]\n{extensions}\n");
        fs::write(&config, text).expect("written");
        let output = Command::new("openssl")
            .args(["req", "-x509", "-nodes", "-days", "2", "-subj", &format!("/CN={subject}")])
            .args(["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"])
            .args(["-extensions", "extensions", "-config"])
            .arg(&config)
            .arg("-keyout")
            .arg(&key)
            .arg("-out")
            .arg(&certificate)
            .args(signer)
            .output()
            .expect("openssl runs; install it with scripts/servers.sh");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        (certificate, key)
    }
}
