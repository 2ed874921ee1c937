//! In front of a Redis Cluster.

use std::time::Duration;

use tempfile::TempDir;
use twiceshy_server::Following;

use crate::client::{Client, Value};
use crate::harness::{Running, options, redis, redis_following};
use crate::never_denied::never_denied;
use crate::upstreams::cluster::RedisCluster;
use crate::upstreams::{RedisServer, eventually};

const MAX_LAG: Duration = Duration::from_millis(200);

fn followed(cluster: &RedisCluster, directory: &TempDir) -> Running {
    let following = Following { max_lag: MAX_LAG, configure: true };
    let running = redis_following(&cluster.address(), &options(directory.path()), following);
    let running = running.expect("it runs");
    eventually("it is trusted", || running.is_trusted());
    running
}

/// Names in braces whose keys are in slots that `which` is true of.
fn tags(cluster: &RedisCluster, which: fn(u16) -> bool) -> impl Iterator<Item = (String, u16)> {
    let mut client = cluster.nodes[1].client();
    let tagged = (0..).map(move |n| {
        let tag = format!("{{tag{n}}}");
        let slot = client.line(&format!("CLUSTER KEYSLOT {tag}")).integer();
        (tag, u16::try_from(slot).expect("there are fewer"))
    });
    tagged.filter(move |(_, slot)| which(*slot))
}

fn is_master(node: &mut Client) -> bool {
    matches!(node.line("ROLE"), Value::Array(role) if role[0] == Value::bulk("master"))
}

/// Removes keys behind the shield's back, and waits until it has forgotten them, on whichever
/// master.
fn are_forgotten(
    cluster: &RedisCluster,
    nodes: &[RedisServer],
    client: &mut Client,
    keys: &[String],
) {
    let mut direct = cluster.client();
    for key in keys {
        assert_eq!(direct.line(&format!("DEL {key}")), Value::Integer(1));
    }
    let calls = || nodes.iter().map(|node| node.calls("getrange")).sum::<u64>();
    eventually("they are forgotten", || {
        let begin = calls();
        for key in keys {
            assert_eq!(client.call(&["GET", key]), Value::Nil);
        }
        // But for a false positive.
        calls() - begin < 3
    });
}

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
    // Its slots are those of the cluster: no node sends it elsewhere.
    let keys: Vec<String> = ["", "{a}b", "a{}{b}", "{", "{{c}}"].map(String::from).into();
    let keys = [keys, (0..100).map(|n| format!("slot:{n}")).collect()].concat();
    let moved = || cluster.nodes.iter().map(|node| node.errors("MOVED")).sum::<u64>();
    let before = moved();
    for key in &keys {
        assert_eq!(client.call(&["SET", key, "1"]), Value::ok());
        assert_eq!(client.call(&["GET", key]), Value::bulk("1"), "{key}");
    }
    assert_eq!(moved(), before);
    assert_eq!(client.call(&[&["DEL".to_string()], &keys[..]].concat()), Value::Integer(105));
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
    let running = followed(&cluster, &directory);
    let mut client = running.client();
    assert_eq!(client.line("SET own 1"), Value::ok());
    let mut writer = cluster.client();
    let add = |key: &str| assert_eq!(writer.line(&format!("SET {key} 1")), Value::ok());
    // Half of the keys are in slots that move.
    let moving: Vec<(String, u16)> = tags(&cluster, |slot| slot < 5000).take(2).collect();
    let name = |n: usize| match n % 4 {
        tag @ (0 | 1) => format!("{}:{n}", moving[tag].0),
        _ => format!("added:{n}"),
    };
    let errors = never_denied(&running, MAX_LAG, name, add, || {
        cluster.move_slot(moving[0].1, 0, 1);
        cluster.add_node();
        cluster.move_slot(moving[1].1, 0, 4);
        eventually("it is trusted", || running.is_trusted());
        let mut replica = cluster.nodes[3].client();
        assert_eq!(replica.line("CLUSTER FAILOVER"), Value::ok());
        eventually("it is the master", || is_master(&mut replica));
        eventually("it is trusted", || running.is_trusted());
        cluster.nodes[1].client().line("CLIENT KILL TYPE pubsub");
    });
    assert_eq!(errors, [].into(), "no request waits for ever");
    assert_eq!(client.line("GET own"), Value::bulk("1"));
    let before = client.line("DBSIZE").integer();
    let keys: Vec<String> = (0..100).map(name).collect();
    are_forgotten(&cluster, &cluster.nodes, &mut client, &keys);
    assert!(client.line("DBSIZE").integer() <= before);
}

/// The master whose address the shield was given is killed, its replica takes its place by
/// itself, and it comes back as a replica.
#[test]
fn nothing_of_a_cluster_is_denied_when_a_master_dies() {
    let mut cluster = RedisCluster::start();
    cluster.add_replica();
    let directory = TempDir::new().expect("a directory");
    let running = followed(&cluster, &directory);
    let (dying, _) = tags(&cluster, |slot| slot < 5000).next().expect("one");
    let (other, _) = tags(&cluster, |slot| slot > 6000).next().expect("one");
    let name = |n: usize| format!("{}:{n}", if n.is_multiple_of(2) { &dying } else { &other });
    let (mut writer, mut replica) = (cluster.client(), cluster.nodes[3].client());
    assert_eq!(replica.line("READONLY"), Value::ok());
    // Redis itself loses what only the dying master has: a key counts when the replica has it.
    let add = |key: &str| {
        eventually("it is added", || {
            writer.line(&format!("SET {key} 1")) == Value::ok()
                && (!key.starts_with(&dying) || replica.call(&["EXISTS", key]) == Value::Integer(1))
        });
    };
    never_denied(&running, MAX_LAG, name, add, || {
        let mut replica = cluster.nodes[3].client();
        cluster.nodes[0].kill();
        eventually("its replica is the master", || is_master(&mut replica));
        eventually("it is trusted", || running.is_trusted());
        assert_eq!(running.client().call(&["GET", &name(0)]), Value::bulk("1"));
        cluster.nodes[0].restart();
        eventually("it is a replica", || !is_master(&mut cluster.nodes[0].client()));
    });
    let mut client = running.client();
    assert_eq!(client.line("INCR counter"), Value::Integer(1));
    let keys: Vec<String> = (0..100).map(name).collect();
    are_forgotten(&cluster, &cluster.nodes[1..], &mut client, &keys);
}
