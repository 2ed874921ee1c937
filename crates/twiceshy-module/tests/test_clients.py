"""Other people's clients, and the names that they know."""

import importlib.util
import pathlib
import subprocess

import pytest
import redis

from servers import MODULE
from test_commands import fill, info


def test_redis_py_knows_our_filters_as_bloom_filters(db):
    bloom = db.bf()
    assert bloom.create("f", 0.01, 1000)
    assert bloom.add("f", "a") == 1 and bloom.add("f", "a") == 0
    assert bloom.madd("f", "b", "c") == [1, 1]
    assert bloom.exists("f", "a") == 1 and bloom.exists("f", "z") == 0
    assert bloom.mexists("f", "a", "z", "b") == [1, 0, 1]
    assert bloom.insert("g", ["a", "b"], capacity=100, error=0.01, expansion=2) == [1, 1]
    assert bloom.insert("g", ["c"], noCreate=True) == [1]
    assert bloom.card("f") == 3
    described = bloom.info("f")
    assert (described["insertedNum"] if isinstance(described, dict) else described.insertedNum) == 3
    with pytest.raises(redis.ResponseError, match="exists"):
        bloom.create("f", 0.01, 1000)
    bloom.create("h", 0.01, 10, noScale=True)
    with pytest.raises(redis.ResponseError, match="full"):
        for number in range(20):
            bloom.add("h", number)
    assert db.execute_command("AF.ADAPT", "f", "z") == [b"absent"]
    # Ours double, or do not grow.
    for expansion, rate in [(0, 0), (1, 2), (4, 2)]:
        db.delete("i")
        db.execute_command("BF.RESERVE", "i", 0.01, 10, "EXPANSION", expansion)
        assert info(db, "i")["Expansion rate"] == rate


def test_the_names_of_others_are_not_taken_unless_asked_for(new_server):
    db = new_server().client
    with pytest.raises(redis.ResponseError, match="unknown command"):
        db.execute_command("BF.ADD", "f", "a")
    # As if another module had them already.
    with pytest.raises(redis.ResponseError):
        db.module_load(MODULE, "BF-COMMANDS", "yes")
    assert db.execute_command("AF.ADD", "f", "a") == 1


def test_wrong_load_options_are_refused_with_a_reason(program, tmp_path):
    from servers import Server
    with pytest.raises(RuntimeError, match="MAX-BYTES is a number of bytes"):
        Server(program, tmp_path / "server", module_options=("MAX-BYTES", "lots"))


def test_redis_cli_and_redis_benchmark(server):
    def cli(*arguments):
        run = subprocess.run(["redis-cli", "-p", str(server.port), *arguments], capture_output=True, text=True, check=True)
        return run.stdout.strip()
    assert cli("af.add", "f", "a") == "1" and cli("af.exists", "f", "b") == "0"
    assert cli("af.adapt", "f", "b") == "absent"
    assert "Number of items inserted\n1" in cli("af.info", "f")
    fill(server.client, "g", 100)
    run = subprocess.run(["redis-benchmark", "-p", str(server.port), "-n", "2000", "-r", "100000", "-P", "16", "--csv",
                          "af.exists", "g", "key:__rand_int__"], capture_output=True, text=True, check=True)
    assert "af.exists" in run.stdout


def test_transactions_and_scripts(db):
    with db.pipeline(transaction=True) as pipeline:
        pipeline.execute_command("AF.ADD", "f", "a")
        pipeline.execute_command("AF.EXISTS", "f", "a")
        assert pipeline.execute() == [1, 1]
    script = "redis.call('AF.ADD', KEYS[1], ARGV[1]); return redis.call('AF.EXISTS', KEYS[1], ARGV[1])"
    assert db.eval(script, 1, "f", "b") == 1


def test_the_handler_of_the_example_reads_for_a_missing_user_once(server, monkeypatch):
    monkeypatch.setenv("REDIS_URL", f"redis://127.0.0.1:{server.port}")
    path = pathlib.Path(__file__).parent.parent / "examples" / "handler.py"
    specification = importlib.util.spec_from_file_location("handler", path)
    handler = importlib.util.module_from_spec(specification)
    # With this secret there are false positives among the first thousands.
    server.client.execute_command("AF.RESERVE", "users", 0.002, 40, "REMOTE", "memory", "SECRET", "01" + "5a" * 16)
    server.client.execute_command("AF.MADD", "users", *range(39))
    specification.loader.exec_module(handler)
    reads = []

    class Database(dict):
        def get(self, user):
            reads.append(user)
            return super().get(user)

    handler.database = Database(handler.database)
    for _ in range(3):
        assert handler.address_of("alice") == "1 Main Street"
        assert not any(handler.address_of(f"missing {n}") for n in range(3000))
    wasted = [user for user in reads if user != "alice"]
    assert reads.count("alice") == 3 and wasted and len(wasted) < 1.5 * len(set(wasted))
