"""Replicas and clusters: the same bytes everywhere, and no false negative while slots move."""

import random
import threading
import time

import pytest
import redis

from clusters import client_of, move, nodes_info, owns
from servers import wait_until
from test_commands import REMOTES, false_positives, fill, info


def caught_up(primary, replica):
    offset = primary.info("replication")["master_repl_offset"]
    wait_until(lambda: replica.info("replication").get("slave_repl_offset", -1) >= offset, what="replication")


@pytest.mark.parametrize("remote", REMOTES)
def test_replicas_have_the_same_bytes(new_server, remote):
    primary = new_server(name="primary").client
    early = new_server("--replicaof", "127.0.0.1", str(primary.get_connection_kwargs()["port"]), name="early").client
    wait_until(lambda: early.info("replication")["master_link_status"] == "up", what="the link")
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
        for item in wrong:
            primary.execute_command("AF.EXISTS", "f", item)
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


def test_replicas_accept_what_the_primary_has_accepted(new_server):
    """Each command as it is sent to replicas, to one with a lower limit."""
    primary = new_server(name="primary").client
    port = str(primary.get_connection_kwargs()["port"])
    replica = new_server("--replicaof", "127.0.0.1", port, name="replica", module_options=("MAX-BYTES", "1000")).client
    wait_until(lambda: replica.info("replication")["master_link_status"] == "up", what="the link")
    for number, options in enumerate([(), ("NONSCALING",), ("EXCEPTIONS", 77), ("REMOTE", "memory"),
                                      ("REMOTE", "memory", "NONSCALING")]):
        primary.execute_command("AF.INSERT", f"f{number}", "CAPACITY", 2000, "RATE", 0.01, *options, "ITEMS", "a", "b")
    secret = "01" + "5a" * 16
    for key in ("a", "b"):
        primary.execute_command("AF.RESERVE", key, 0.01, 2000, "SECRET", secret)
        primary.execute_command("AF.ADD", key, f"item of {key}")
    primary.execute_command("AF.MERGE", "both", "a", "b")
    last, data = primary.execute_command("AF.SCANDUMP", "f0", 0)
    half = len(data) // 2
    primary.execute_command("AF.LOADCHUNK", "chunks", 2 * half, data[:half], "NONSCALING")
    primary.execute_command("AF.LOADCHUNK", "chunks", last, data[half:], "NONSCALING")
    caught_up(primary, replica)
    assert primary.dbsize() == replica.dbsize() == 9
    for key in primary.keys():
        assert replica.dump(key) == primary.dump(key), key
        # What was loaded from chunks is so on both sides.
        assert info(replica, key) == info(primary, key), key
