//! A disk without room: SET says so, GET goes on, and SET works again when there is room.

use tempfile::TempDir;
use twiceshy_server::Limits;

use crate::client::Value;
use crate::harness::{eventually, start_in};
use crate::small_disk::SmallDisk;

#[test]
fn a_full_disk_refuses_sets_until_there_is_room() {
    let Some(disk) = SmallDisk::new(16) else { return };
    let directory = TempDir::new_in(disk.path()).expect("a directory");
    let mut server = start_in(directory, Limits::default(), None);
    let mut client = server.client();
    let value = "v".repeat(10_000);
    let mut stored = 0;
    let error = loop {
        match client.call(&["SET", &format!("key {stored}"), &value]) {
            answer if answer == Value::ok() => stored += 1,
            Value::Error(error) => break error,
            other => panic!("{other:?}"),
        }
        assert!(stored < 10_000, "no end in sight");
    };
    assert!(error.contains("the disk is full"), "{error}");
    assert!(stored > 100, "only {stored} values fit");
    for number in 0..stored {
        let answer = client.call(&["GET", &format!("key {number}")]);
        assert_eq!(answer, Value::bulk(&value), "{number} of {stored}");
    }
    disk.free();
    eventually("there is room", || client.call(&["SET", "late", &value]) == Value::ok());
    assert_eq!(client.call(&["GET", "late"]), Value::bulk(&value));
    assert_eq!(client.call(&["GET", "key 0"]), Value::bulk(&value));
    drop(client);
    server.stop();
    drop(server);
}
