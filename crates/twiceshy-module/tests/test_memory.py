"""Memory: what is reported is what is taken, and limits hold."""

import pytest
import redis

from servers import wait_until
from test_commands import REMOTES, fill, info


@pytest.mark.parametrize("remote", REMOTES)
def test_memory_usage_is_what_the_server_allocates(new_server, remote):
    db = new_server().client
    # Once before, for buffers that the server keeps after its first requests of this size.
    fill(db, "f", 100_000, remote, 0.002, 100_000)
    db.delete("f")
    # Valkey 8 frees it in another thread.
    wait_until(lambda: db.info("memory")["lazyfree_pending_objects"] == 0, what="that it is freed")

    def used():
        # A new connection: its buffers are small.
        db.connection_pool.disconnect()
        db.execute_command("PING")
        return db.info("memory")["used_memory"]

    before = used()
    fill(db, "f", 100_000, remote, 0.002, 100_000)
    reported = db.memory_usage("f")
    assert reported == pytest.approx(info(db, "f")["Bytes"], rel=0.01, abs=300)
    # jemalloc's size classes are up to a quarter apart, and it rounds up. The buffers of the
    # connection before go a moment later.
    wait_until(lambda: 0.8 < reported / (used() - before) < 1.1, what=f"{reported} bytes in use")
    taken = used() - before
    db.delete("f")
    wait_until(lambda: used() - before < taken / 20, what="giving the memory back")
    db.execute_command("AF.ADD", "small", "a")
    assert db.object("encoding", "small") == b"raw" and db.object("idletime", "small") >= 0


@pytest.mark.parametrize("remote", REMOTES)
def test_an_object_stays_within_max_bytes(new_server, remote):
    server = new_server(module_options=("MAX-BYTES", "100000"))
    db = server.client
    for capacity in (90_000, 1_000_000):
        with pytest.raises(redis.ResponseError, match="MAX-BYTES"):
            db.execute_command("AF.RESERVE", "f", 0.001, capacity, "REMOTE", remote)
    db.execute_command("AF.RESERVE", "f", 0.001, 1000, "REMOTE", remote)
    added = 0
    for at in range(0, 60_000, 500):
        replies = db.execute_command("AF.MADD", "f", *[f"item:{n}" for n in range(at, at + 500)])
        added += sum(1 for reply in replies if not isinstance(reply, redis.ResponseError))
        assert info(db, "f")["Bytes"] <= 100_000
    assert 2000 < added < 59_000
    assert db.execute_command("AF.MEXISTS", "f", *[f"item:{n}" for n in range(2000)]) == [1] * 2000
    # Within the limit, everything still works.
    assert db.execute_command("AF.ADD", "f", "item:1") == 0


def test_a_server_at_its_limit_refuses_additions(new_server):
    db = new_server("--maxmemory-policy", "noeviction").client
    fill(db, "f", 1000, "memory")
    db.config_set("maxmemory", db.info("memory")["used_memory"] // 2)
    for command in [("AF.ADD", "f", "new"), ("AF.RESERVE", "g", 0.01, 10), ("AF.ADAPT", "f", "x")]:
        with pytest.raises(redis.ResponseError, match="OOM|maxmemory"):
            db.execute_command(*command)
    assert db.execute_command("AF.EXISTS", "f", "item:1") == 1
    assert db.execute_command("AF.DEL", "f", "item:1") == 1


@pytest.mark.parametrize("remote", REMOTES)
def test_max_bytes_limits_merged_and_loaded_filters_too(new_server, remote):
    db = new_server(module_options=("MAX-BYTES", "40000")).client
    secret, capacity = "01" + "5a" * 16, {"none": 18_000, "memory": 950}[remote]
    for key in ("a", "b"):
        db.execute_command("AF.RESERVE", key, 0.01, capacity, "REMOTE", remote, "SECRET", secret)
        db.execute_command("AF.MADD", key, *[f"{key}:{n}" for n in range(capacity)])
        assert 20_000 < info(db, key)["Bytes"] < 40_000
    before = db.dump("a")
    with pytest.raises(redis.ResponseError, match="MAX-BYTES"):
        db.execute_command("AF.MERGE", "a", "b")
    assert db.dump("a") == before
    last, data = db.execute_command("AF.SCANDUMP", "a", 0)
    small = new_server(name="small", module_options=("MAX-BYTES", str(len(data) - 1))).client
    with pytest.raises(redis.ResponseError, match="MAX-BYTES"):
        small.execute_command("AF.LOADCHUNK", "a", last, data)
    # A snapshot is not limited: it was accepted once.
    small.restore("a", 0, before)
    assert small.execute_command("AF.EXISTS", "a", "a:1") == 1
