"""``twiceshy.open``: a mapping on disk."""

import signal
import subprocess
import sys

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

import twiceshy

KEYS = st.binary(max_size=2)


def test_it_is_a_mapping(tmp_path):
    with twiceshy.open(tmp_path) as users:
        users[b"alice"] = b"1 Main Street"
        users["böb"] = "2"
        assert users[b"alice"] == b"1 Main Street" and users["alice"] == users[b"alice"]
        assert users.get("nobody") is None and users.get("nobody", 7) == 7
        with pytest.raises(KeyError, match="nobody"):
            users["nobody"]
        with pytest.raises(KeyError):
            del users["nobody"]
        assert len(users) == 2 and "alice" in users and b"carol" not in users
        assert dict(users) == {b"alice": b"1 Main Street", "böb".encode(): b"2"}
        assert sorted(users.values()) == [b"1 Main Street", b"2"]
        assert users.pop("alice") == b"1 Main Street" and users.setdefault("c", b"3") == b"3"
        users.update({b"d": b"4"}, e=b"5")
        assert users == {"böb".encode(): b"2", b"c": b"3", b"d": b"4", b"e": b"5"}
        assert users.backup(tmp_path / "copy") == 4 and "4 records" in repr(users)
        users.clear()
        assert not users and users.stats()["keys"] == 0
    with twiceshy.open(tmp_path / "copy") as copy:
        assert copy["c"] == b"3"
    assert "closed" in repr(users)
    with pytest.raises(ValueError, match="closed"):
        users["c"]
    for wrong in [1, None, 1.5, ("a",)]:
        with twiceshy.open(tmp_path) as users, pytest.raises(TypeError, match="bytes or str"):
            users[wrong] = b""


def test_many_records(tmp_path):
    records = {b"%d" % n: b"value %d" % n for n in range(5000)}
    with twiceshy.open(tmp_path, durability="process") as users:
        users.update(records)
        assert len(users) == 5000 and dict(users.items()) == records
        assert sorted(users) == sorted(records) and len(list(users.values())) == 5000
        assert all(users.get(b"none %d" % n) is None for n in range(5000))
        assert users.stats()["reads_avoided"] > 4800


class Laws(RuleBasedStateMachine):
    """The same as a dict, whatever happens."""

    @initialize(directory=st.just(None))
    def start(self, directory):
        import tempfile

        self.directory = tempfile.TemporaryDirectory()
        self.store, self.dict = twiceshy.open(self.directory.name, durability="process"), {}

    @rule(key=KEYS, value=st.binary(max_size=20))
    def set(self, key, value):
        self.store[key] = self.dict[key] = value

    @rule(records=st.dictionaries(KEYS, st.binary(max_size=20), max_size=30))
    def update(self, records):
        self.store.update(records)
        self.dict.update(records)

    @rule(key=KEYS)
    def pop(self, key):
        assert self.store.pop(key, None) == self.dict.pop(key, None)

    @rule(key=KEYS)
    def get(self, key):
        assert self.store.get(key) == self.dict.get(key)
        assert (key in self.store) == (key in self.dict)

    @rule()
    def reopen(self):
        self.store.close()
        self.store = twiceshy.open(self.directory.name, durability="process")

    @invariant()
    def the_same(self):
        if hasattr(self, "store"):
            assert len(self.store) == len(self.dict) and self.store == self.dict

    def teardown(self):
        if hasattr(self, "store"):
            self.store.close()
            self.directory.cleanup()


Laws.TestCase.settings = settings(max_examples=15, stateful_step_count=25, deadline=None)
TestLaws = Laws.TestCase

KILLED = """
import sys, twiceshy
users = twiceshy.open(sys.argv[1])
n = len(users)
while True:
    users[str(n)] = str(n)
    print(n, flush=True)
    n += 1
"""


def test_killing_the_process_loses_nothing(tmp_path):
    acknowledged = -1
    for _ in range(2):
        command = [sys.executable, "-c", KILLED, str(tmp_path)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            for _ in range(40):
                acknowledged = int(process.stdout.readline())
            process.send_signal(signal.SIGKILL)
    with twiceshy.open(tmp_path) as users:
        assert all(users[str(n)] == str(n).encode() for n in range(acknowledged + 1))
