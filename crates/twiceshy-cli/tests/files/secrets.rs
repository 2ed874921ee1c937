//! The secret beside a filter's file.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::folder::{Folder, STORED, code, lines, number, stderr};

#[cfg(unix)]
#[test]
fn the_secret_is_for_its_owner_and_the_file_for_whom_the_umask_says() {
    use std::os::unix::fs::PermissionsExt;
    let mode = |path: &Path| fs::metadata(path).expect("a file").permissions().mode() & 0o777;
    let folder = Folder::new();
    folder.write("keys", "a\nb\n");
    let build = |umask: &str| {
        let script = format!("umask {umask}; exec \"$0\" build keys -o f{umask}");
        let mut shell = Command::new("sh");
        shell.args(["-c", &script, env!("CARGO_BIN_EXE_twiceshy")]).current_dir(folder.0.path());
        shell.output().expect("a shell")
    };
    for (umask, expected) in [("000", 0o666), ("027", 0o640)] {
        assert!(build(umask).status.success());
        assert_eq!(mode(&folder.path(&format!("f{umask}"))), expected, "{umask}");
        assert_eq!(mode(&folder.path(&format!("f{umask}.secret"))), 0o600, "{umask}");
    }
    // A file that is replaced keeps its mode, whatever the umask.
    let file = folder.path("f027");
    fs::set_permissions(&file, PermissionsExt::from_mode(0o606)).expect("our file");
    assert!(build("027").status.success());
    assert_eq!(mode(&file), 0o606);

    let secret = folder.path("f000.secret");
    let bytes = fs::read(&secret).expect("a secret");
    fs::set_permissions(&secret, PermissionsExt::from_mode(0o644)).expect("our file");
    let output = folder.run("query f000 --key a");
    assert_eq!((code(&output), lines(&output)), (0, vec!["maybe\ta".to_string()]));
    assert!(stderr(&output).contains("open to others (mode 644)"), "{}", stderr(&output));
    assert_eq!(fs::read(&secret).expect("a secret"), bytes, "built again with the same secret");
}

#[test]
fn without_its_secret_a_filter_can_only_be_looked_at() {
    let folder = Folder::with_filter("telescoping:f=8");
    let secret = fs::read(folder.path("f.secret")).expect("a secret");
    fs::remove_file(folder.path("f.secret")).expect("our file");
    let output = folder.run("query f --key a");
    assert_eq!(code(&output), 2);
    assert!(stderr(&output).contains("f.secret is missing"), "{}", stderr(&output));
    let report = folder.json("inspect f");
    assert_eq!((number(&report, "keys"), &report["whole"]), (STORED, &true.into()));

    folder.write("f.secret", &secret[1..]);
    assert!(stderr(&folder.run("query f --key a")).contains("16 bytes that are no secret"));
    let mut other = secret.clone();
    other[16] ^= 1;
    for (bytes, expected) in [(other, 2), (secret, 0)] {
        folder.write("f.secret", bytes);
        let output = folder.run("query f --key a");
        assert_eq!(code(&output), expected);
        assert_eq!(stderr(&output).contains("another hasher or secret"), expected == 2);
    }
}

#[test]
fn a_list_is_not_taken_for_a_filter_without_its_secret() {
    let folder = Folder::new();
    folder.write("keys", "a\nb\n");
    let output = folder.run("query keys --key a");
    assert_eq!(code(&output), 2);
    let said = stderr(&output);
    assert!(said.contains("keys: ") && said.contains("does not start with"), "{said}");
}
