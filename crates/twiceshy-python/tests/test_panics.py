"""A panic of the Rust code is a RuntimeError, which ``except Exception`` catches."""

import pickle

import pytest

from twiceshy import Filter, Guard, _twiceshy
from twiceshy import open as open_store

if not hasattr(_twiceshy, "_panic_next"):
    pytest.skip("panics on demand are for debug builds", allow_module_level=True)


def panics(call, *args) -> None:
    """The call panics inside, and its caller sees an ordinary exception."""
    assert _twiceshy._panic_next() is False, "the last call had no place to panic"
    with pytest.raises(RuntimeError, match="internal error of twiceshy.*a test wants this panic"):
        call(*args)


def test_panics_of_a_filter(tmp_path):
    seen, other, path = Filter(100), Filter(100), tmp_path / "seen"
    seen.add("alice")
    seen.save(path)
    saved = seen.to_bytes()
    panics(Filter, 100)
    for name in ["__contains__", "add", "adapt", "discard", "remove"]:
        panics(getattr(seen, name), "alice")
    for name in ["add_many", "adapt_many", "update", "contains_many"]:
        panics(getattr(seen, name), ["alice"])
    for name in ["__len__", "__bool__", "__repr__", "copy", "__copy__", "clear", "stats", "to_bytes"]:
        panics(getattr(seen, name))
    for name in ["__eq__", "__or__"]:
        panics(getattr(seen, name), other)
    panics(seen.__ior__, seen.copy())
    panics(seen.__deepcopy__, {})
    panics(seen.save, path)
    panics(Filter.load, path)
    panics(Filter.from_bytes, saved)
    panics(pickle.dumps, seen)
    assert "alice" in seen and seen == Filter.load(path), "nothing has changed"


def test_panics_of_a_guard(tmp_path):
    panics(Guard, tmp_path / "other", {})
    users = Guard(tmp_path / "guard", {"alice": 1}, keys=["alice"])
    for name in ["get", "maybe", "adapt", "added", "removed"]:
        panics(getattr(users, name), "alice")
    for name in ["built", "stats", "snapshot", "close"]:
        panics(getattr(users, name))


def test_panics_of_a_store(tmp_path):
    panics(open_store, tmp_path / "other")
    users = open_store(tmp_path / "store")
    for name in ["get", "__getitem__", "__delitem__", "__contains__"]:
        panics(getattr(users, name), b"alice")
    panics(users.__setitem__, b"alice", b"1")
    panics(users.backup, tmp_path / "copy")
    for name in ["__len__", "clear", "stats", "snapshot", "close"]:
        panics(getattr(users, name))
