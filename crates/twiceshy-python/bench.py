"""twiceshy beside other filters for Python: one table from one run.

    pip install '.[bench]'
    python bench.py

Every round measures all contenders, one after the other. CPU time of this process, best of the
rounds. RSS is measured in a process of its own for each contender.
"""

import argparse
import datetime
import hashlib
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

# numpy's own threads would spin, and count as CPU time.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import fastbloom_rs
import numpy
import probables
import pybloomfilter
import rbloom

import twiceshy

RATE = 0.004


def stable_hash(key: str) -> int:
    """What rbloom's documentation proposes for filters that are saved."""
    return int.from_bytes(hashlib.sha256(key.encode()).digest()[:16], "big", signed=True)


class Contender:
    """How to make a filter and what it can do; None where it cannot."""

    def __init__(self, make: Callable[[int], Any], **can: Any) -> None:
        self.make = make
        self.update, self.contains_list, self.contains_array, self.save, self.load = (
            can.get(name) for name in ["update", "contains_list", "contains_array", "save", "load"]
        )


def in_temporary_file(keys: int) -> Any:
    path = os.path.join(tempfile.mkdtemp(), "bloom")
    return pybloomfilter.BloomFilter(keys, RATE, path)


CONTENDERS: dict[str, Contender] = {
    "set": Contender(
        lambda keys: set(),
        update=set.update,
        contains_list=lambda filter, keys: list(map(filter.__contains__, keys)),
    ),
    "twiceshy": Contender(
        lambda keys: twiceshy.Filter(keys, RATE),
        update=twiceshy.Filter.update,
        contains_list=twiceshy.Filter.contains_many,
        contains_array=twiceshy.Filter.contains_many,
        save=lambda filter, path: filter.save(path),
        load=twiceshy.Filter.load,
    ),
    "twiceshy, XXH3": Contender(
        lambda keys: twiceshy.Filter(keys, RATE, hasher="xxh3"),
        update=twiceshy.Filter.update,
        contains_list=twiceshy.Filter.contains_many,
        contains_array=twiceshy.Filter.contains_many,
        save=lambda filter, path: filter.save(path),
        load=twiceshy.Filter.load,
    ),
    "rbloom, `hash`": Contender(
        lambda keys: rbloom.Bloom(keys, RATE), update=rbloom.Bloom.update
    ),
    "rbloom, SHA-256": Contender(
        lambda keys: rbloom.Bloom(keys, RATE, stable_hash),
        update=rbloom.Bloom.update,
        save=lambda filter, path: filter.save(path),
        load=lambda path: rbloom.Bloom.load(path, stable_hash),
    ),
    "pybloomfiltermmap3": Contender(
        in_temporary_file,
        update=lambda filter, keys: filter.update(keys),
        save=lambda filter, path: filter.copy(path),
        load=lambda path: pybloomfilter.BloomFilter.open(path),
    ),
    "fastbloom-rs": Contender(
        lambda keys: fastbloom_rs.BloomFilter(keys, RATE),
        update=lambda filter, keys: filter.add_str_batch(keys),
        contains_list=lambda filter, keys: filter.contains_str_batch(keys),
        contains_array=lambda filter, keys: filter.contains_int_batch(keys.tolist()),
        save=lambda filter, path: filter.save_to_file_with_hashes(path),
        load=fastbloom_rs.BloomFilter.from_file_with_hashes,
    ),
    "pyprobables": Contender(
        lambda keys: probables.BloomFilter(keys, RATE),
        save=lambda filter, path: filter.export(path),
        load=lambda path: probables.BloomFilter(filepath=path),
    ),
}

#: Too slow for as many keys as the others.
SLOW = {"pyprobables": 50}


def cpu_ns(work: Callable[[], object], operations: int) -> float:
    start = time.process_time_ns()
    work()
    return (time.process_time_ns() - start) / operations


def look_up(filter: Any, keys: list[str]) -> int:
    """A loop of ``in``, as programs have it."""
    found = 0
    for key in keys:
        if key in filter:
            found += 1
    return found


def add_all(filter: Any, keys: list[str]) -> None:
    for key in keys:
        filter.add(key)


#: Python computes the hash of a str once and keeps it in the object, and rbloom's own hash is that
#: one. "new str" has the stored keys as other objects, as they come from a request or a file.
COLUMNS = [
    "in, absent", "in, stored", "in, stored, new str", "add", "update", "list", "int64 array",
    "save ms", "load ms",
]


def measure(contender: Contender, keys: int, divisor: int, seed: int) -> dict[str, float]:
    choice = random.Random(seed)
    keys //= divisor
    stored = [f"user:{n:012}" for n in range(keys)]
    absent = [f"none:{n:012}" for n in range(keys)]
    choice.shuffle(stored)
    choice.shuffle(absent)
    figures = {}
    filter = contender.make(keys)
    figures["add"] = cpu_ns(lambda: add_all(filter, stored), keys)
    figures["in, absent"] = cpu_ns(lambda: look_up(filter, absent), keys)
    figures["in, stored"] = cpu_ns(lambda: look_up(filter, stored), keys)
    copies = [key.encode().decode() for key in stored]
    figures["in, stored, new str"] = cpu_ns(lambda: look_up(filter, copies), keys)
    if contender.contains_list:
        figures["list"] = cpu_ns(lambda: contender.contains_list(filter, absent), keys)
    if contender.update:
        other = contender.make(keys)
        figures["update"] = cpu_ns(lambda: contender.update(other, stored), keys)
    if contender.contains_array:
        numbers = numpy.random.default_rng(seed).integers(0, 2**63, keys)
        other = contender.make(keys)
        if hasattr(other, "add_many"):
            other.add_many(numbers)
        array = numpy.random.default_rng(seed + 1000).integers(0, 2**63, keys)
        figures["int64 array"] = cpu_ns(lambda: contender.contains_array(other, array), keys)
    with tempfile.TemporaryDirectory() as directory:
        path = os.path.join(directory, "saved")
        if contender.save:
            figures["save ms"] = cpu_ns(lambda: contender.save(filter, path), 10**6)
        if contender.load:
            figures["load ms"] = cpu_ns(lambda: contender.load(path), 10**6)
    return figures


def resident() -> int:
    fields = pathlib.Path("/proc/self/statm").read_text().split()
    return int(fields[1]) * os.sysconf("SC_PAGE_SIZE")


def rss(name: str, keys: int) -> None:
    """Prints by how many bytes the process grows while a filter is filled, key by key."""
    contender = CONTENDERS[name]
    warm = contender.make(1000)
    for n in range(1000):
        warm.add(f"warm {n}")
    before = resident()
    filter = contender.make(keys)
    for n in range(keys):
        filter.add(f"user:{n:012}")
    grown = resident() - before
    own = filter.stats()["bytes"] if isinstance(filter, twiceshy.Filter) else 0
    print(grown, own)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--keys", type=int, default=10**6)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--rss-keys", type=int, default=10**7)
    parser.add_argument("--rss", metavar="NAME")
    args = parser.parse_args()
    if args.rss:
        rss(args.rss, args.keys)
        return

    load = os.getloadavg()[0]
    best: dict[str, dict[str, float]] = {name: {} for name in CONTENDERS}
    for seed in range(args.rounds):
        for name, contender in CONTENDERS.items():
            figures = measure(contender, args.keys, SLOW.get(name, 1), seed)
            for column, figure in figures.items():
                best[name][column] = min(figure, best[name].get(column, figure))
            print(".", end="", flush=True, file=sys.stderr)
    grown, own = {}, 0
    for name in CONTENDERS:
        keys = args.rss_keys // SLOW.get(name, 1)
        command = [sys.executable, __file__, "--rss", name, "--keys", str(keys)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        bytes_grown, bytes_own = map(int, done.stdout.split())
        grown[name] = bytes_grown / keys
        if name == "twiceshy":
            own = bytes_own / keys
    print(file=sys.stderr)

    loads = f"{load:.1f} before and {os.getloadavg()[0]:.1f} after"
    print(f"python bench.py {' '.join(sys.argv[1:])}, {datetime.date.today()}, load {loads}")
    print(f"{args.keys} str keys, {RATE:.1%}, best of {args.rounds}, RSS at {args.rss_keys} keys, "
          f"Python {sys.version.split()[0]}\n")
    print(f"| CPU ns per key | {' | '.join(COLUMNS)} | RSS bytes per key |")
    print(f"| --- |{' ---: |' * (len(COLUMNS) + 1)}")
    for name, figures in best.items():
        cells = [f"{figures[column]:.0f}" if column in figures else "-" for column in COLUMNS]
        print(f"| {name} | {' | '.join(cells)} | {grown[name]:.2f} |")
    ours, peer = best["twiceshy"], best["rbloom, `hash`"]
    print()
    print("| bar | figure |")
    print("| --- | --- |")
    for kind in ["absent", "stored", "stored, new str"]:
        ratio = ours[f"in, {kind}"] / peer[f"in, {kind}"]
        print(f"| `in`, {kind}, against rbloom with `hash`: at most 1 | {ratio:.2f} |")
    print(f"| array: at most 15 ns per key | {ours['int64 array']:.1f} |")
    print(f"| `in` against the array: at least 5 | {ours['in, absent'] / ours['int64 array']:.1f} |")
    print(f"| `in` against the list: at least 1.5 | {ours['in, absent'] / ours['list']:.2f} |")
    print(f"| RSS against the filter's own bytes, {args.rss_keys} keys: at most 1.5 |"
          f" {grown['twiceshy'] / own:.2f} |")


if __name__ == "__main__":
    main()
