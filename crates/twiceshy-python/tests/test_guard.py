"""``Guard`` in front of stores of the caller's own."""

import asyncio
import os
import random
import signal
import sqlite3
import subprocess
import sys
import threading
import weakref

import pytest

import twiceshy
from twiceshy import Guard


class Counted:
    """A lookup that counts its calls."""

    def __init__(self, rows):
        self.rows, self.calls = rows, []

    def __call__(self, key):
        self.calls.append(key)
        return self.rows.get(key)


def test_misses_reach_the_store_at_most_once(tmp_path):
    # As many keys as the guard has room for: about 100 false positives, and fewer than 2 or more
    # than 1000 with a probability below 10^-40.
    lookup = Counted({n: n for n in range(60_000)})
    with Guard(tmp_path, lookup, keys=lookup.rows) as users:
        absent = range(10**6, 10**6 + 30_000)
        assert all(users.get(n) is None for n in absent)
        wasted = len(lookup.calls)
        assert 1 < wasted < 1000 and len(set(lookup.calls)) == wasted
        assert all(users.get(n, "none") == "none" for n in absent)
        assert len(lookup.calls) - wasted <= wasted // 4, "adapting brings few others back"
        assert all(users.get(n) == n for n in range(60_000))
        stats = users.stats()
        assert stats["queries"] == 120_000 and stats["store_reads"] == len(lookup.calls)
        assert stats["keys"] == 60_000 and 0 < stats["adapted"] <= stats["false_positives"]
        assert "60000 keys" in repr(users)


def test_a_new_guard_denies_nothing(tmp_path):
    lookup = Counted({"alice": 1})
    with Guard(tmp_path, lookup) as users:
        assert not users.is_built and "not built" in repr(users)
        assert users.get("alice") == 1 and users.get("bob") is None and users.maybe("bob")
        users.added("alice")
        users.built()
        assert users.is_built and not users.maybe("bob") and users["alice"] == 1
        with pytest.raises(KeyError, match="bob"):
            users["bob"]
        assert "alice" in users and "bob" not in users
    with Guard(tmp_path, lookup, keys=lambda: pytest.fail("it is built")) as users:
        assert users.is_built and users["alice"] == 1


def test_a_build_that_fails_denies_nothing(tmp_path):
    def keys():
        yield "alice"
        raise RuntimeError("connection lost")

    lookup = Counted({"alice": 1, "bob": 2})
    with pytest.raises(RuntimeError, match="connection lost"):
        Guard(tmp_path, lookup, keys=keys)
    with Guard(tmp_path, lookup) as users:
        assert not users.is_built and users.get("bob") == 2
    with Guard(tmp_path, lookup, keys=lookup.rows) as users:
        assert users.is_built and users.get("bob") == 2


def test_keys_come_and_go(tmp_path):
    rows = {}
    with Guard(tmp_path, rows, keys=()) as users:
        assert users.added("alice") is True and users.added("alice") is False
        rows["alice"] = None
        assert "alice" in users, "a mapping may hold None"
        assert users.removed("alice") is True and users.removed("alice") is False
        del rows["alice"]
        assert "alice" not in users
        assert users.added_many(str(n) for n in range(1000)) == 1000
        rows.update((str(n), n) for n in range(1000))
        assert all(users[str(n)] == n for n in range(1000))
        assert users.removed_many(str(n) for n in range(500, 1500)) == 500
        assert users.adapt("nobody") is False


def test_sqlite_with_an_oracle(tmp_path):
    database = sqlite3.connect(":memory:")
    database.execute("CREATE TABLE users (name TEXT PRIMARY KEY, age INTEGER)")

    def find(name):
        return database.execute("SELECT age FROM users WHERE name = ?", (name,)).fetchone()

    def names():
        return (name for (name,) in database.execute("SELECT name FROM users"))

    choice = random.Random(7)
    oracle = {f"user {n}": (n,) for n in range(500)}
    database.executemany("INSERT INTO users VALUES (?, ?)", ((k, v) for k, (v,) in oracle.items()))
    users = Guard(tmp_path, find, keys=names, durability="process")
    for step in range(4000):
        name = f"user {choice.randrange(1500)}"
        match choice.randrange(10):
            case 0:
                users.added(name)
                database.execute("INSERT OR REPLACE INTO users VALUES (?, ?)", (name, step))
                oracle[name] = (step,)
            case 1:
                database.execute("DELETE FROM users WHERE name = ?", (name,))
                users.removed(name)
                oracle.pop(name, None)
            case 2 if step % 50 == 0:
                users.close()
                users = Guard(tmp_path, find, keys=names, durability="process")
            case _:
                assert users.get(name) == oracle.get(name), step
    users.close()


def test_errors_of_the_lookup_are_its_own(tmp_path):
    def broken(key):
        raise ConnectionError("no database")

    with Guard(tmp_path, broken, keys=["alice"]) as users:
        with pytest.raises(ConnectionError, match="no database"):
            users.get("alice")
        assert users.maybe("alice"), "nothing was learned"
        for key, error in [(1.5, TypeError), (2**200, OverflowError)]:
            with pytest.raises(error):
                users.get(key)
            with pytest.raises(error):
                users.added(key)
    with pytest.raises(TypeError, match="not int"):
        Guard(tmp_path / "other", 7)
    assert not (tmp_path / "other").exists()
    with pytest.raises(ValueError, match="durability=\"disk\""):
        Guard(tmp_path / "other", broken, durability="disk")


def test_a_directory_has_one_user(tmp_path):
    with Guard(tmp_path, {}) as users:
        with pytest.raises(BlockingIOError, match="open already"):
            Guard(tmp_path, {})
    assert "closed" in repr(users)
    users.close()
    with pytest.raises(ValueError, match="is closed"):
        users.get("alice")
    with pytest.raises(ValueError, match="records.redb|digests.redb|in use"):
        twiceshy.open(tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match="file"):
        Guard(tmp_path / "file", {})


def test_threads_share_a_guard(tmp_path):
    rows = {}
    lookup = Counted(rows)
    users = Guard(tmp_path, lookup, keys=(), durability="process")
    failures = []

    def work(thread):
        try:
            for n in range(300):
                key = f"{thread}:{n}"
                users.added(key)
                rows[key] = n
                assert users[key] == n
                assert users.get(f"none {thread}:{n}") is None
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert not failures and all(users[key] == value for key, value in rows.items())
    users.close()


def test_async_lookups(tmp_path):
    calls = []

    async def find(key):
        await asyncio.sleep(0)
        calls.append(key)
        return {"alice": 1}.get(key)

    async def main():
        with Guard(tmp_path / "a", find, keys=["alice"]) as users:
            assert await users.aget("alice") == 1
            assert await users.aget("bob", "none") == "none"
            results = await asyncio.gather(*(users.aget(f"none {n}") for n in range(3000)))
            assert results == [None] * 3000
            with pytest.raises(TypeError, match="aget"):
                users.get("alice")
        with Guard(tmp_path / "b", Counted({"alice": 1}), keys=["alice"]) as users:
            assert await users.aget("alice") == 1
            assert await users.aget("bob") is None
        with Guard(tmp_path / "c", lambda key: find(key), keys=["alice"]) as users:
            assert await users.aget("alice") == 1

    asyncio.run(main())
    assert "alice" in calls and "bob" not in calls


def test_the_decorator(tmp_path):
    calls = []

    # As many keys as the guard has room for: about 100 false positives, and fewer than 2 or more
    # than 1000 with a probability below 10^-40.
    @twiceshy.guard(tmp_path / "sync", keys=lambda: range(60_000))
    def find(key):
        """Finds numbers."""
        calls.append(key)
        return key if key < 60_000 else None

    assert find.__name__ == "find" and find.__doc__ == "Finds numbers."
    assert [find(n) for n in range(1000)] == list(range(1000))
    calls.clear()
    assert all(find(n) is None for n in range(100_000, 130_000))
    wasted = len(calls)
    assert 1 < wasted < 1000
    for _ in range(2):
        assert all(find(n) is None for n in range(100_000, 130_000))
    assert len(calls) - wasted <= wasted // 2, "repeated misses do not reach it"
    assert find.guard.stats()["false_positives"] == len(calls)
    find.guard.close()

    @twiceshy.guard(tmp_path / "async", keys=["alice"])
    async def afind(key):
        return {"alice": 1}.get(key)

    assert asyncio.iscoroutinefunction(afind)
    assert asyncio.run(afind("alice")) == 1 and asyncio.run(afind("bob")) is None
    afind.guard.close()


KILLED = """
import os, sys, twiceshy
users = twiceshy.Guard(sys.argv[1], {}, keys=())
n = 0
while True:
    users.added(n)
    print(n, flush=True)
    n += 1
"""


def test_killing_the_process_loses_nothing(tmp_path):
    command = [sys.executable, "-c", KILLED, str(tmp_path)]
    acknowledged = -1
    for _ in range(3):
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            for _ in range(40):
                acknowledged = max(acknowledged, int(process.stdout.readline()))
            process.send_signal(signal.SIGKILL)
        with Guard(tmp_path, {}) as users:
            assert users.is_built
            assert all(users.maybe(n) for n in range(acknowledged + 1))
            assert sum(users.maybe(n) for n in range(10**6, 10**6 + 2000)) < 100


def test_a_forked_process_cannot_use_it(tmp_path):
    users = Guard(tmp_path, {"alice": 1}, keys=["alice"])
    child = os.fork()
    if child == 0:
        code = 1
        try:
            try:
                users.get("alice")
            except RuntimeError as error:
                assert "forked" in str(error)
                users.close()
                del users
                code = 0
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert users.get("alice") == 1 and users.added("bob")
    users.close()
    with Guard(tmp_path, {"alice": 1}) as users:
        assert users.get("alice") == 1 and users.maybe("bob")


def test_what_is_forgotten_is_closed(tmp_path, in_python):
    users = Guard(tmp_path / "a", {}, keys=["alice"])
    gone = weakref.ref(users)
    del users
    assert gone() is None
    Guard(tmp_path / "a", {}).close()
    # And when the interpreter exits: with a snapshot, nothing is rebuilt.
    in_python("import twiceshy; users = twiceshy.Guard('b', {}, keys=['alice'])")
    assert (tmp_path / "b" / "filter.snapshot").exists()


def test_a_lookup_may_ask_the_same_guard(tmp_path):
    rows = {"alice": "see bob", "bob": "1 Main Street"}

    def find(key):
        row = rows.get(key)
        # Not while the guard holds a lock: this would never return.
        return users.get(row.removeprefix("see ")) if row and row.startswith("see ") else row

    with Guard(tmp_path, find, keys=rows) as users:
        answers = []
        thread = threading.Thread(target=lambda: answers.append(users.get("alice")), daemon=True)
        thread.start()
        thread.join(timeout=30)
        assert answers == ["1 Main Street"]


def test_a_cancelled_lookup_leaves_nothing_behind(tmp_path):
    started, calls = asyncio.Event(), []

    async def find(key):
        calls.append(key)
        if len(calls) == 1:
            started.set()
            await asyncio.sleep(3600)
        return 1 if key == "alice" else None

    async def main():
        # Not built, so every lookup reaches the store.
        with Guard(tmp_path, find) as users:
            task = asyncio.create_task(users.aget("bob"))
            await started.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert users.stats()["false_positives"] == 0, "nobody knows whether there is a bob"
            users.added("alice")
            users.built()
            assert await users.aget("alice") == 1 and await users.aget("bob") is None

    asyncio.run(main())
