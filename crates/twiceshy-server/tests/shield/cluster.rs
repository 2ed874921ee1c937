//! In front of a Redis Cluster.

use std::time::Duration;

use tempfile::TempDir;
use twiceshy_server::Following;

use crate::client::Value;
use crate::harness::{options, redis, redis_following};
use crate::never_denied::never_denied;
use crate::upstreams::cluster::RedisCluster;
use crate::upstreams::eventually;

const MAX_LAG: Duration = Duration::from_millis(200);

#[test]
fn a_cluster_is_one_store() {
    let cluster = RedisCluster::start();
    let mut direct = cluster.client();
    for n in 0..300 {
        assert_eq!(direct.line(&format!("SET key:{n} v{n}")), Value::ok());
    }
    direct.line("RPUSH list a");
    let directory = TempDir::new().expect("a directory");
    let running = redis(&cluster.address(), &options(directory.path())).expect("it runs");
    let mut client = running.client();
    assert_eq!(client.line("DBSIZE"), Value::Integer(301));
    let keys: Vec<String> = (0..310).map(|n| format!("key:{n}")).collect();
    let words = |verb: &str| {
        std::iter::once(verb).chain(keys.iter().map(String::as_str)).map(String::from).collect()
    };
    let mget: Vec<String> = words("MGET");
    let values =
        (0..310).map(|n| if n < 300 { Value::bulk(format!("v{n}")) } else { Value::Nil }).collect();
    assert_eq!(client.call(&mget), Value::Array(values));
    let exists: Vec<String> = words("EXISTS");
    assert_eq!(client.call(&exists), Value::Integer(300));
    assert!(client.line("GET list").error().starts_with("WRONGTYPE "));
    assert_eq!(client.line("MGET list key:1"), {
        Value::Array(vec![Value::Nil, Value::bulk("v1")])
    });
    // Written through, to all nodes; the last value of a key stays.
    assert_eq!(client.line("MSET a 1 b 2 c 3 a 4"), Value::ok());
    for (key, value) in [("a", "4"), ("b", "2"), ("c", "3")] {
        assert_eq!(direct.line(&format!("GET {key}")), Value::bulk(value));
        assert_eq!(client.call(&["GET", key]), Value::bulk(value));
    }
    assert_eq!(client.line("DEL a b none key:5"), Value::Integer(3));
    assert_eq!(direct.line("EXISTS b"), Value::Integer(0));

    // Behind its back.
    for n in 0..10 {
        direct.line(&format!("SET new:{n} 1"));
        direct.line(&format!("DEL key:{}", 100 + n));
    }
    let resynced = running.resync().expect("it runs");
    assert_eq!((resynced.keys, resynced.added), (301, 10));
    for n in 0..10 {
        assert_eq!(client.call(&["GET", &format!("new:{n}")]), Value::bulk("1"));
    }
    // A key that moves meanwhile may be missed: such a scan does not count.
    let (first, third) = (cluster.id(0), cluster.id(2));
    let (mut giver, mut taker) = (cluster.nodes[0].client(), cluster.nodes[2].client());
    taker.line(&format!("CLUSTER SETSLOT 0 IMPORTING {first}"));
    giver.line(&format!("CLUSTER SETSLOT 0 MIGRATING {third}"));
    let failure = running.resync().expect_err("a slot moves").to_string();
    assert!(failure.contains("slots of the cluster are moving"), "{failure}");
    taker.line("CLUSTER SETSLOT 0 STABLE");
    giver.line("CLUSTER SETSLOT 0 STABLE");
    running.resync().expect("no slot moves");
    running.stop();
}

/// Slots move, also to a new master, and a replica takes the place of its master.
#[test]
fn nothing_of_a_cluster_is_denied_while_slots_move_and_masters_change() {
    let mut cluster = RedisCluster::start();
    cluster.add_replica();
    let directory = TempDir::new().expect("a directory");
    let following = Following { max_lag: MAX_LAG, configure: true };
    let running = redis_following(&cluster.address(), &options(directory.path()), following);
    let running = running.expect("it runs");
    eventually("it is trusted", || running.is_trusted());
    let mut client = running.client();
    assert_eq!(client.line("SET own 1"), Value::ok());
    let mut writer = cluster.client();
    let add = |key: &str| assert_eq!(writer.line(&format!("SET {key} 1")), Value::ok());
    // Half of the keys are in slots that move: a slot is that of the name in braces.
    let slot = |tag: &str| {
        let slot = cluster.client().line(&format!("CLUSTER KEYSLOT {tag}")).integer();
        u16::try_from(slot).expect("there are fewer")
    };
    let mut tags = (0..).map(|n| format!("tag{n}")).filter(|tag| slot(tag) < 5000);
    let tags = [tags.next().expect("one"), tags.next().expect("another")];
    let slots = [slot(&tags[0]), slot(&tags[1])];
    let name = |n: usize| match n % 4 {
        tag @ (0 | 1) => format!("{{{}}}:{n}", tags[tag]),
        _ => format!("added:{n}"),
    };
    never_denied(&running, MAX_LAG, name, add, || {
        cluster.move_slot(slots[0], 0, 1);
        cluster.add_node();
        cluster.move_slot(slots[1], 0, 4);
        eventually("it is trusted", || running.is_trusted());
        let mut replica = cluster.nodes[3].client();
        assert_eq!(replica.line("CLUSTER FAILOVER"), Value::ok());
        eventually(
            "it is the master",
            || matches!(replica.line("ROLE"), Value::Array(role) if role[0] == Value::bulk("master")),
        );
        eventually("it is trusted", || running.is_trusted());
        cluster.nodes[1].client().line("CLIENT KILL TYPE pubsub");
    });
    eventually("the own key is there", || client.line("GET own") == Value::bulk("1"));
    // What other clients remove is forgotten, on whichever master.
    let mut direct = cluster.client();
    for n in 0..100 {
        assert_eq!(direct.line(&format!("DEL {}", name(n))), Value::Integer(1));
    }
    let before = client.line("DBSIZE").integer();
    let calls = || (0..5).map(|node| cluster.nodes[node].calls("getrange")).sum::<u64>();
    eventually("they are forgotten", || {
        let begin = calls();
        for n in 0..100 {
            assert_eq!(client.call(&["GET", &name(n)]), Value::Nil);
        }
        // But for a false positive.
        calls() - begin < 3
    });
    assert!(client.line("DBSIZE").integer() <= before);
}
