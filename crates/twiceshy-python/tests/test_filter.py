"""``Filter`` alone."""

import copy
import multiprocessing
import os
import pickle
import subprocess
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from twiceshy import Filter

KINDS = ["line", "plain", "rsqf"]
SECRET = bytes(range(16))


def mistakes(filter: Filter, count: int) -> list[str]:
    """Keys that were not added and are answered "maybe"."""
    found = (f"wrong {n}" for n in range(1_000_000))
    return [key for key, _ in zip((key for key in found if key in filter), range(count))]


@pytest.mark.parametrize("kind", KINDS)
def test_it_behaves_as_a_set(kind):
    seen = Filter(1000, kind=kind)
    assert not seen and len(seen) == 0
    assert seen.add("alice") is True
    assert seen.add("alice") is False
    assert "alice" in seen and seen and len(seen) == 1
    seen.update(["bob", b"carol"], {7}, (n for n in range(100, 103)))
    assert all(key in seen for key in ["alice", "bob", "carol", 7, 100, 101, 102])
    seen.clear()
    assert not seen and "alice" not in seen
    with pytest.raises(TypeError, match="unhashable"):
        hash(seen)


@pytest.mark.parametrize("kind", KINDS)
def test_a_reported_mistake_does_not_repeat(kind):
    seen = Filter(1000, rate=0.01, kind=kind)
    seen.update(range(1000))
    wrong = mistakes(seen, 5)
    assert seen.adapt(wrong[0]) is True
    assert seen.adapt(wrong[0]) is False
    assert wrong[0] not in seen
    assert seen.adapt_many(wrong[1:4]) == 3
    assert seen.contains_many(wrong) == [False] * 4 + [True]
    assert all(seen.contains_many(range(1000)))
    seen.add(wrong[0])
    assert wrong[0] in seen


def test_removed_keys_are_absent_until_they_are_added():
    seen = Filter(1000)
    seen.add("alice")
    seen.remove("alice")
    assert "alice" not in seen
    with pytest.raises(KeyError, match="alice"):
        seen.remove("alice")
    seen.discard("alice")
    seen.add("alice")
    assert "alice" in seen
    rigid = Filter(1000, exceptions=0)
    rigid.add("alice")
    with pytest.raises(ValueError, match="exceptions=0"):
        rigid.remove("alice")
    with pytest.raises(ValueError, match="exceptions=0"):
        rigid.discard("alice")
    rigid.discard("bob")
    assert "alice" in rigid and rigid.adapt("alice") is False


def test_key_errors_are_those_of_a_set():
    seen = Filter(1000)
    for key in ["alice", ("user", 17), b"\xff", 7]:
        with pytest.raises(KeyError) as ours:
            seen.remove(key)
        with pytest.raises(KeyError) as theirs:
            set().remove(key)
        assert ours.value.args == theirs.value.args


def test_keys_are_the_same_in_all_their_forms():
    import numpy

    seen = Filter(1000, secret=SECRET)
    seen.update(["añ", b"bytes", 7, -7, 2**64, 2**128 - 1, ("user", 17)])
    same = ["añ".encode(), "bytes", bytearray(b"bytes"), memoryview(b"bytes"), numpy.int8(7)]
    same += [numpy.uint64(7), numpy.int64(-7), numpy.str_("añ"), numpy.bytes_(b"bytes")]
    same += [(7).to_bytes(8, "little"), (2**64).to_bytes(16, "little"), (b"user", 17)]
    same += [memoryview(b"b.y.t.e.s.")[::2]]
    assert seen.contains_many(same) == [True] * len(same)
    others = ["bytes\0", "", 8, -8, 2**64 + 1, 2**128 - 2, ("user", 18), ("user",), "user"]
    assert seen.contains_many(others) == [False] * len(others)


def test_int_encodings_are_those_of_rust():
    seen = Filter(1000)
    for number in [0, 1, 255, 2**63 - 1, 2**63, 2**64 - 1]:
        seen.add(number)
        assert number.to_bytes(8, "little") in seen
    for number in [-1, -(2**63), -(2**63) - 1, 2**64, 2**127 - 1, -(2**127)]:
        seen.add(number)
        assert number.to_bytes(16, "little", signed=True) in seen
    for number in [2**127, 2**128 - 1]:
        seen.add(number)
        assert number.to_bytes(16, "little") + b"\0" in seen


@pytest.mark.parametrize(
    "key, name",
    [
        (1.0, "float"),
        (True, "bool"),
        (None, "NoneType"),
        ([1], "list"),
        (("user", None), "NoneType"),
        ({"a"}, "set"),
        (Filter(1), "twiceshy.Filter"),
    ],
)
def test_other_keys_are_refused_by_the_name_of_their_type(key, name):
    seen = Filter(10)
    for call in [seen.__contains__, seen.add, seen.adapt, seen.discard, seen.remove]:
        with pytest.raises(TypeError, match=f"not {name}$"):
            call(key)
    for call in [seen.contains_many, seen.add_many, seen.adapt_many, seen.update]:
        with pytest.raises(TypeError, match=f"not {name}$"):
            call([key])
    assert not seen


def test_keys_that_cannot_be_encoded():
    seen = Filter(10)
    for number in [2**128, -(2**127) - 1]:
        with pytest.raises(OverflowError, match="2\\*\\*128"):
            seen.add(number)
    with pytest.raises(UnicodeEncodeError):
        seen.add("\ud800")
    with pytest.raises(ValueError, match="empty tuple"):
        seen.add(())

    class Broken:
        def __index__(self):
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        seen.add(Broken())
    for keys in ["abc", b"abc", bytearray(b"abc")]:
        with pytest.raises(TypeError, match="not one"):
            seen.update(keys)
    with pytest.raises(TypeError, match="not iterable|not an iterator|int"):
        seen.update(7)


@pytest.mark.parametrize(
    "arguments, text",
    [
        (dict(capacity=0), "capacity=0"),
        (dict(capacity=-1), "capacity=-1"),
        (dict(capacity=10, rate=1.5), "rate=1.5"),
        (dict(capacity=10, rate=0.1, bits_per_key=9), "one of the two"),
        (dict(capacity=10, exceptions=-1), "exceptions=-1"),
        (dict(capacity=10, kind="bloom"), '"line", "plain" and "rsqf"'),
        (dict(capacity=10, hasher="md5"), '"siphash" and "xxh3"'),
        (dict(capacity=10, secret=b"short"), "16 bytes"),
        (dict(capacity=10, hasher="xxh3", secret=SECRET), "8 bytes"),
    ],
)
def test_wrong_arguments_are_named(arguments, text):
    with pytest.raises(ValueError, match=text):
        Filter(**arguments)


def test_a_filter_beyond_memory_is_refused():
    with pytest.raises(MemoryError, match="bytes"):
        Filter(160 * 10**9, bits_per_key=36, kind="plain")


def test_a_filter_grows():
    small = Filter(10, secret=SECRET)
    small.update(range(5000))
    assert all(small.contains_many(range(5000)))
    assert small.stats()["layers"] > 3 and small.stats()["capacity"] >= 5000


def test_copies_and_equality():
    first = Filter(1000, secret=SECRET)
    first.update(range(500))
    for other in [first.copy(), copy.copy(first), copy.deepcopy(first), first]:
        assert first == other and not first != other
    second = first.copy()
    second.add("one more")
    assert first != second and "one more" not in first
    assert first != Filter(1000, secret=SECRET)
    assert first != {1, 2} and not first == 7


def test_joined_filters_answer_as_either():
    left, right = Filter(1000, 0.02, secret=SECRET), Filter(3000, 0.02, secret=SECRET)
    left.update(range(1000))
    right.update(range(5000, 8000))
    left.adapt_many(mistakes(left, 10))
    probe = [f"wrong {n}" for n in range(20_000)]
    expected = [a or b for a, b in zip(left.contains_many(probe), right.contains_many(probe))]
    both = left | right
    assert both.contains_many(probe) == expected
    assert all(both.contains_many([*range(1000), *range(5000, 8000)]))
    assert len(left) <= 1000 and (left | left) == left
    left |= right
    assert left == both
    with pytest.raises(ValueError, match="secret"):
        left | Filter(10)
    with pytest.raises(TypeError):
        left | {1}
    with pytest.raises(TypeError, match="update"):
        left |= {1}


def test_saved_files(tmp_path):
    seen = Filter(1000, 0.02)
    seen.update(map(str, range(1000)))
    wrong = mistakes(seen, 3)
    seen.adapt_many(wrong[:2])
    path = tmp_path / "seen.twiceshy"
    seen.save(path)
    seen.save(str(path))
    for again in [Filter.load(path), Filter.from_bytes(seen.to_bytes()), pickle.loads(pickle.dumps(seen))]:
        assert again == seen and again.contains_many(wrong) == [False, False, True]
    assert path.stat().st_mode & 0o077 == 0
    damaged = bytearray(path.read_bytes())
    damaged[len(damaged) // 2] ^= 1
    path.write_bytes(damaged)
    with pytest.raises(ValueError, match="seen.twiceshy"):
        Filter.load(path)
    with pytest.raises(ValueError, match="saved filter"):
        Filter.from_bytes(b"something else")
    with pytest.raises(FileNotFoundError, match="cannot read"):
        Filter.load(tmp_path / "none")
    with pytest.raises(OSError, match="cannot write"):
        seen.save(tmp_path / "none" / "there")
    for length in range(0, len(damaged), 97):
        with pytest.raises(ValueError):
            Filter.from_bytes(seen.to_bytes()[:length])


def test_a_pipe_or_a_device_is_not_replaced(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(OSError, match="not a regular file"):
        Filter(10).save(pipe)
    assert pipe.is_fifo() and list(tmp_path.iterdir()) == [pipe]


def test_the_command_line_reads_and_writes_the_same_files(tmp_path, cli):
    names = ["alice", "böb", "carol d", "17"]
    (tmp_path / "names").write_text("".join(f"{name}\n" for name in names))
    queries = [*names, *(f"nobody {n}" for n in range(2000))]
    (tmp_path / "queries").write_text("".join(f"{query}\n" for query in queries))

    def run(*command: str) -> str:
        done = subprocess.run([cli, *command], cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout

    (tmp_path / "absent").write_text("nobody 1\nnobody 2\n")
    run("build", "names", "-o", "rust.twiceshy", "--never", "absent", "--rate", "0.1")
    theirs = Filter.load(tmp_path / "rust.twiceshy")
    assert theirs.contains_many([*names, "nobody 1"]) == [True] * 4 + [False]
    ours = Filter(200, 0.02, kind="plain")
    ours.update(names, range(190))
    wrong = [query for query in queries[4:] if query in ours]
    ours.adapt(wrong[0])
    (tmp_path / "wrong").write_text(wrong[1])
    ours.save(tmp_path / "python.twiceshy")
    for name, filter in [("rust", theirs), ("python", ours)]:
        answers = run("query", f"{name}.twiceshy", "queries").splitlines()
        maybe = [line.partition("\t")[2] for line in answers if line.startswith("maybe")]
        assert maybe == [query for query in queries if query in filter]
    run("adapt", "python.twiceshy", "--false-positives", "wrong", "--keys", "names")
    answers = Filter.load(tmp_path / "python.twiceshy").contains_many(wrong[:3])
    assert answers == [False, False, True]


def test_another_version_of_python_reads_the_files(tmp_path, in_python, other_python):
    seen = Filter(1000, secret=SECRET)
    seen.update(["alice", 17, b"\xff"])
    seen.save(tmp_path / "seen")
    program = """
import sys
from twiceshy import Filter
seen = Filter.load("seen")
assert seen.contains_many(["alice", 17, b"\\xff", "bob"]) == [True, True, True, False]
seen.add("dora")
seen.save("again")
print(sys.version_info[:2])
"""
    assert in_python(program, python=other_python)
    assert "dora" in Filter.load(tmp_path / "again")


def _contains(filter: Filter, keys: list[str]) -> list[bool]:
    return filter.contains_many(keys)


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_pickles_go_to_other_processes(method):
    seen = Filter(1000, secret=SECRET)
    seen.update(["alice", "bob"])
    context = multiprocessing.get_context(method)
    with context.Pool(1) as pool:
        answers = pool.apply(_contains, (seen, ["alice", "bob", "carol"]))
    assert answers == [True, True, False]


def test_threads_share_a_filter():
    import numpy

    seen = Filter(1000)
    seen.add_many(numpy.arange(20_000))
    start = threading.Barrier(6)

    def add(thread: int) -> None:
        start.wait()
        for n in range(0, 20_000, 100):
            seen.add(f"{thread}:{n}")
            seen.add_many([f"{thread}:{n + k}" for k in range(100)])

    def ask() -> None:
        start.wait()
        for _ in range(30):
            assert seen.contains_many(numpy.arange(20_000)).all()
            assert all(n in seen for n in range(0, 20_000, 500))
            assert seen.copy() is not None and len(seen.to_bytes()) > 1000 and repr(seen)

    def adapt() -> None:
        start.wait()
        for n in range(20_000):
            seen.adapt(f"absent {n}")

    with ThreadPoolExecutor(6) as pool:
        jobs = [pool.submit(add, n) for n in range(3)]
        jobs += [pool.submit(ask), pool.submit(ask), pool.submit(adapt)]
        for job in jobs:
            job.result(timeout=120)
    for thread in range(3):
        assert all(seen.contains_many([f"{thread}:{n}" for n in range(20_000)]))


def test_repr_and_stats_tell_the_sizes():
    seen = Filter(1000)
    seen.update(range(10))
    stats = seen.stats()
    assert stats["len"] == 10 and stats["capacity"] == 1000 and stats["layers"] == 1
    assert stats["bytes"] > stats["fingerprint_bytes"] > 1000
    assert 0 < stats["rate"] < 0.01 and stats["exceptions"] == 0 < stats["exceptions_room"]
    assert "about 10 keys of 1000" in repr(seen) and str(stats["bytes"]) in repr(seen)
