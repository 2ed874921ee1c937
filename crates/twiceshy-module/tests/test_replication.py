"""Replicas and clusters: the same bytes everywhere, and no false negative while slots move."""

import random
import threading
import time

import pytest
import redis
from redis.cluster import ClusterNode, RedisCluster

from servers import free_ports, wait_until
from test_commands import REMOTES, false_positives, fill, info

SLOTS = 16384


def caught_up(primary, replica):
    offset = primary.info("replication")["master_repl_offset"]
    wait_until(lambda: replica.info("replication").get("slave_repl_offset", -1) >= offset, what="replication")


@pytest.mark.parametrize("remote", REMOTES)
def test_replicas_have_the_same_bytes(new_server, remote):
    primary = new_server(name="primary").client
    early = new_server("--replicaof", "127.0.0.1", str(primary.get_connection_kwargs()["port"]), name="early").client
    items = fill(primary, "f", 3000, remote, 0.02, 500)
    primary.execute_command("AF.ADD", "made by its first item", "a")
    # Joins in the middle: it gets a snapshot and goes on from there.
    late = new_server("--replicaof", "127.0.0.1", str(primary.get_connection_kwargs()["port"]), name="late").client
    for replica in (early, late):
        wait_until(lambda: replica.info("replication")["master_link_status"] == "up", what="the link")
    choose = random.Random(5)
    for step in range(20):
        # Lookups on one side only must not make a difference.
        wrong = false_positives(primary, "f", 5, start=100_000 * step)
        primary.execute_command("AF.ADAPT", "f", *wrong)
        more = [f"more:{choose.randrange(3000)}" for _ in range(20)]
        primary.execute_command("AF.MADD", "f", *more)
        items += more
        if remote == "memory":
            gone = choose.sample(items, 10)
            primary.execute_command("AF.MDEL", "f", *gone)
            items = [item for item in items if item not in gone]
    for replica in (early, late):
        caught_up(primary, replica)
        for key in ("f", "made by its first item"):
            assert replica.dump(key) == primary.dump(key)
        assert all(replica.execute_command("AF.MEXISTS", "f", *items))
        # A table that was loaded has room for its entries only.
        sizes = {"Size", "Bytes", "Bits per key"}
        ours, theirs = info(primary, "f"), info(replica, "f")
        assert {name: ours[name] for name in ours if name not in sizes} == \
            {name: theirs[name] for name in theirs if name not in sizes}


@pytest.fixture
def cluster(new_server):
    """Three masters with a replica each."""
    servers = []
    for name, port in enumerate(free_ports(6)):
        servers.append(new_server("--cluster-enabled", "yes", "--cluster-node-timeout", "1000", "--appendonly", "yes",
                                  "--appendfsync", "always", "--repl-diskless-sync-delay", "0",
                                  "--cluster-config-file", "nodes.conf", name=str(name), port=port))
    masters, replicas = servers[:3], servers[3:]
    for number, master in enumerate(masters):
        first, last = number * SLOTS // 3, (number + 1) * SLOTS // 3 - 1
        master.client.execute_command("CLUSTER ADDSLOTSRANGE", first, last) if "6.2" not in master.program else \
            master.client.execute_command("CLUSTER ADDSLOTS", *range(first, last + 1))
        master.client.execute_command("CLUSTER SET-CONFIG-EPOCH", number + 1)
    for server in servers[1:]:
        server.client.execute_command("CLUSTER MEET", "127.0.0.1", servers[0].port)
    def known(server):
        return int(nodes_info(server)["cluster_known_nodes"])
    wait_until(lambda: all(known(server) == 6 for server in servers), what="the meeting")
    for master, replica in zip(masters, replicas):
        replica.client.execute_command("CLUSTER REPLICATE", node_id(master))
    wait_until(lambda: all(nodes_info(server)["cluster_state"] == "ok" for server in servers), what="the cluster")
    wait_until(lambda: all(replica.client.info("replication").get("master_link_status") == "up" for replica in replicas),
               what="the replicas")
    return masters, replicas


def nodes_info(server):
    info = server.client.execute_command("CLUSTER INFO")
    if isinstance(info, dict):
        return info
    return dict(line.split(":") for line in info.decode().split())


def node_id(server):
    found = server.client.execute_command("CLUSTER MYID")
    return found.decode() if isinstance(found, bytes) else found


def client_of(servers):
    nodes = [ClusterNode("127.0.0.1", server.port) for server in servers]
    return RedisCluster(startup_nodes=nodes, socket_timeout=10)


def move(slot, source, target, clients):
    """Moves one slot with its keys, as redis-cli does."""
    target.client.execute_command("CLUSTER SETSLOT", slot, "IMPORTING", node_id(source))
    source.client.execute_command("CLUSTER SETSLOT", slot, "MIGRATING", node_id(target))
    while keys := source.client.execute_command("CLUSTER GETKEYSINSLOT", slot, 10):
        source.client.execute_command("MIGRATE", "127.0.0.1", target.port, "", 0, 10_000, "KEYS", *keys)
    for server in (target, source, *clients):
        server.client.execute_command("CLUSTER SETSLOT", slot, "NODE", node_id(target))


def test_a_cluster_denies_nothing_while_it_changes(cluster):
    masters, replicas = cluster
    db = client_of(masters + replicas)
    keys = [f"filter:{number}" for number in range(12)]
    stored = {key: set() for key in keys}
    for number, key in enumerate(keys):
        db.execute_command("AF.RESERVE", key, 0.02, 200, "REMOTE", REMOTES[number % 2])
    end, denied, failures, reads = threading.Event(), [], [], [0]
    lock = threading.Lock()

    def work(seed):
        """Adds, asks for what was acknowledged, and adapts."""
        choose, own = random.Random(seed), client_of(masters + replicas)
        number = 0
        while not end.is_set():
            key = choose.choice(keys)
            item = f"item:{seed}:{number}"
            number += 1
            try:
                own.execute_command("AF.ADD", key, item)
                with lock:
                    stored[key].add(item)
                    asked = choose.sample(sorted(stored[key]), min(5, len(stored[key])))
                answers = own.execute_command("AF.MEXISTS", key, *asked)
                denied.extend((key, one) for one, maybe in zip(asked, answers) if not maybe)
                reads[0] += len(asked)
                absent = f"absent:{seed}:{number}"
                if own.execute_command("AF.EXISTS", key, absent):
                    own.execute_command("AF.ADAPT", key, absent)
            except (redis.ConnectionError, redis.TimeoutError, redis.ResponseError) as error:
                failures.append(error)
                time.sleep(0.05)

    workers = [threading.Thread(target=work, args=(seed,)) for seed in range(3)]
    for worker in workers:
        worker.start()
    try:
        time.sleep(0.5)
        # Every filter moves to the next master, and back.
        for _ in range(2):
            for key in keys:
                slot = db.keyslot(key)
                owner = next(master for master in masters if owns(master, slot))
                target = masters[(masters.index(owner) + 1) % 3]
                move(slot, owner, target, [master for master in masters if master not in (owner, target)])
                time.sleep(0.02)
        # A replica takes over, and all that was acknowledged is there: the old master waits for it.
        replicas[0].client.execute_command("CLUSTER FAILOVER")
        wait_until(lambda: replicas[0].client.info("replication")["role"] == "master", what="the failover")
        time.sleep(0.5)
        # A master dies and comes back with its append-only file.
        masters[1].kill()
        masters[1].start()
        time.sleep(1.5)
    finally:
        end.set()
        for worker in workers:
            worker.join()
    assert not denied, f"{len(denied)} of {reads[0]} were denied: {denied[:3]}"
    wait_until(lambda: nodes_info(masters[1])["cluster_state"] == "ok", what="the cluster")
    for key in keys:
        for at in range(0, len(stored[key]), 500):
            some = sorted(stored[key])[at:at + 500]
            assert all(db.execute_command("AF.MEXISTS", key, *some))
    assert reads[0] > 500, f"{reads[0]} reads, {len(failures)} failures: {failures[:2]}"


def owns(server, slot):
    try:
        server.client.execute_command("CLUSTER COUNTKEYSINSLOT", slot)
        ranges = server.client.execute_command("CLUSTER NODES")
    except redis.ConnectionError:
        return False
    text = ranges.decode() if isinstance(ranges, bytes) else str(ranges)
    if isinstance(ranges, dict):
        mine = [node for node in ranges.values() if "myself" in node["flags"]][0]["slots"]
        return any(int(part[0]) <= slot <= int(part[-1]) for part in mine)
    line = next(line for line in text.splitlines() if "myself" in line)
    parts = [part.split("-") for part in line.split()[8:] if not part.startswith("[")]
    return any(int(part[0]) <= slot <= int(part[-1]) for part in parts)
