"""The module beside a set, a missing key and valkey-bloom: the tables of docs/benchmarks/module.md.

    python bench.py --server valkey-server --twiceshy libtwiceshy_module.so --bloom libvalkey_bloom.so

Both libraries are release builds; valkey-bloom's is built from its own repository. Every contender has
a server of its own. All servers run at once, and each round measures all of them, one after the other.
CPU is that of the server's main thread (/proc/PID/schedstat), the least of the rounds. Needs redis-py.
"""

import argparse
import atexit
import datetime
import os
import pathlib
import random
import socket
import subprocess
import sys
import tempfile
import threading
import time

import redis

RATE = "0.004"
#: Commands that are sent together while a filter is filled.
BATCH = 1000


def progress(text):
    print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)


def encode(*words):
    """A command as servers read it."""
    words = [word if isinstance(word, bytes) else str(word).encode() for word in words]
    return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in words)


class Server:
    """A server with one contender in it."""

    def __init__(self, program, directory, module):
        with socket.socket() as listener:
            listener.bind(("127.0.0.1", 0))
            self.port = listener.getsockname()[1]
        load = ["--loadmodule", *module] if module else []
        directory.mkdir()
        self.process = subprocess.Popen(
            [program, "--port", str(self.port), "--bind", "127.0.0.1", "--save", "", "--dir", directory,
             "--proto-max-bulk-len", "2gb", *load],
            stdout=subprocess.DEVNULL,
        )
        self.client = redis.Redis(port=self.port, socket_timeout=600)
        while True:
            try:
                self.client.ping()
                break
            except redis.ConnectionError:
                assert self.process.poll() is None, "the server does not start"
                time.sleep(0.05)
        self.socket = socket.create_connection(("127.0.0.1", self.port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.empty = self.used()
        atexit.register(self.process.kill)

    def used(self):
        return self.client.info("memory")["used_memory"]

    def cpu_ns(self):
        return int(pathlib.Path(f"/proc/{self.process.pid}/schedstat").read_text().split()[0])

    def send(self, commands, lines):
        """Sends commands; returns their answers, which have so many lines."""
        self.socket.sendall(commands)
        answers = b""
        while answers.count(b"\n") < lines:
            part = self.socket.recv(1 << 20)
            assert part, "the server closed the connection"
            answers += part
        assert b"-ERR" not in answers, answers[:200]
        return answers

    def cpu_per_command(self, command, items, pipeline):
        """The command with each item, so many at a time."""
        lines = 2 if command[0] == "AF.ADAPT" else 1
        encoded = [encode(*command, item) for item in items]
        batches = [b"".join(encoded[i : i + pipeline]) for i in range(0, len(encoded), pipeline)]
        before = self.cpu_ns()
        for batch in batches:
            self.send(batch, pipeline * lines)
        return (self.cpu_ns() - before) / len(encoded)

    def close(self):
        self.socket.close()
        self.process.kill()
        self.process.wait()


def stored(n):
    return b"user:%012d" % n


def absent(n):
    return b"none:%012d" % n


class Contender:
    """A filter, or what is used instead, and its commands."""

    def __init__(self, name, module, reserve, add, exists, adapt=None):
        self.name, self.module = name, module
        self.reserve, self.add, self.exists, self.adapt = reserve, add, exists, adapt


def contenders(args):
    ours = [args.twiceshy, "MAX-BYTES", str(8 << 30)]
    theirs = [args.bloom]
    return [
        Contender("set", None, None, ("SADD", "f"), ("SISMEMBER", "f")),
        Contender("valkey-bloom", theirs, ("BF.RESERVE", "f"), ("BF.ADD", "f"), ("BF.EXISTS", "f")),
        Contender("twiceshy", ours, ("AF.RESERVE", "f"), ("AF.ADD", "f"), ("AF.EXISTS", "f"),
                  ("AF.ADAPT", "f")),
        Contender("twiceshy, REMOTE memory", ours, ("AF.RESERVE", "f"), ("AF.ADD", "f"),
                  ("AF.EXISTS", "f"), ("AF.ADAPT", "f")),
    ]


def reserve(contender, client, items):
    if contender.reserve:
        remote = ["REMOTE", "memory"] if contender.name.endswith("memory") else []
        client.execute_command(*contender.reserve, RATE, items, *remote)


def fill(contender, server, items, first=0):
    for start in range(first, first + items, BATCH):
        batch = b"".join(encode(*contender.add, stored(n)) for n in range(start, start + BATCH))
        server.send(batch, BATCH)


def table(title, columns, rows):
    print(f"\n{title}\n\n| | {' | '.join(columns)} |")
    print(f"| --- |{' ---: |' * len(columns)}")
    for name, cells in rows.items():
        print(f"| {name} | {' | '.join(cells)} |")
    sys.stdout.flush()


def false_positives(contender, server, wanted, first=0, step=100_000):
    """Absent items that are answered "maybe", and how many were asked for that."""
    found, asked = [], first
    while len(found) < wanted:
        items = [absent(n) for n in range(asked, asked + step)]
        for start in range(0, step, BATCH):
            batch = items[start : start + BATCH]
            commands = b"".join(encode(*contender.exists, item) for item in batch)
            answers = server.send(commands, BATCH).split(b"\r\n")
            found += [item for item, answer in zip(batch, answers) if answer == b":1"]
        asked += step
    return found[:wanted], len(found) / (asked - first)


def speed(args, items):
    with tempfile.TemporaryDirectory() as directory:
        servers, sizes, rates, dumps = {}, {}, {}, {}
        for contender in contenders(args):
            server = Server(args.server, pathlib.Path(directory) / contender.name.replace(" ", "-"),
                            contender.module)
            servers[contender.name] = server
            reserve(contender, server.client, items)
            fill(contender, server, items)
            progress(f"{contender.name} has {items} items")
            sizes[contender.name] = (server.used() - server.empty) / items
            _, rate = false_positives(contender, server, 1, first=10**9, step=10**6) \
                if contender.reserve else (None, 0)
            rates[contender.name] = rate
            if contender.reserve:
                begin = time.perf_counter()
                dump = server.client.dump("f")
                middle = time.perf_counter()
                server.client.restore("copy", 0, dump)
                dumps[contender.name] = (middle - begin, time.perf_counter() - middle)
                del dump
                server.client.delete("copy")
        best = {}

        def note(row, column, figure):
            best.setdefault(row, {})
            best[row][column] = min(figure, best[row].get(column, figure))

        choice, fresh = random.Random(1), 2 * 10**9
        for round in range(args.rounds):
            for pipeline, count in [(1, 20_000), (32, 200_000 // 32 * 32)]:
                gone = [absent(choice.randrange(10**9)) for _ in range(count)]
                there = [stored(choice.randrange(items)) for _ in range(count)]
                for contender in contenders(args):
                    server, name = servers[contender.name], contender.name

                    def cpu(command, items):
                        return server.cpu_per_command(command, items, pipeline)

                    if name == "set":
                        note("GET of a missing key", f"EXISTS, {pipeline}", cpu(("GET",), gone))
                    note(name, f"EXISTS, {pipeline}", cpu(contender.exists, gone))
                    note(name, f"EXISTS stored, {pipeline}", cpu(contender.exists, there))
                    # Less than a hundredth of what the filter was made for.
                    new = [stored(fresh + n) for n in range(min(count, items // 100 // args.rounds // 2))]
                    new = new[: len(new) // pipeline * pipeline]
                    note(name, f"ADD, {pipeline}", cpu(contender.add, new))
                    if contender.adapt:
                        wrong, _ = false_positives(contender, server, 256, first=fresh)
                        note(name, f"ADAPT, {pipeline}", cpu(contender.adapt, wrong))
                fresh += 10**8
            progress(f"round {round + 1} of {args.rounds}")
        columns = [f"{what}, {pipeline}" for what in ["EXISTS", "EXISTS stored", "ADD", "ADAPT"]
                   for pipeline in [1, 32]]
        rows = {}
        for name, figures in best.items():
            cells = [f"{figures[column] / 1000:.2f}" if column in figures else "-" for column in columns]
            cells.append(f"{sizes[name]:.2f}" if name in sizes else "-")
            cells.append(f"{rates[name]:.3%}" if rates.get(name) else "-")
            cells += [f"{seconds * 1000:.0f}" for seconds in dumps[name]] if name in dumps else ["-", "-"]
            rows[name] = cells
        columns += ["bytes per item", "rate", "DUMP, ms", "RESTORE, ms"]
        table(f"{items} items; CPU us per command, by commands sent together.", columns, rows)
        ours, peer = best["twiceshy"], best["valkey-bloom"]
        for column in ["EXISTS, 1", "EXISTS, 32", "EXISTS stored, 1", "EXISTS stored, 32"]:
            print(f"\n`AF.EXISTS` against `BF.EXISTS`, {column}: {ours[column] / peer[column]:.2f}")
        # A Bloom filter has its memory from the start.
        peer = servers["valkey-bloom"]
        before = peer.used()
        peer.client.execute_command("BF.RESERVE", "g", f"{rates['twiceshy']:.6f}", items)
        same = (peer.used() - before) / items
        print(f"\nvalkey-bloom at our rate: {same:.2f} bytes per item; ours is {sizes['twiceshy'] / same:.2f} of it")
        for server in servers.values():
            server.close()


def attack(args, items):
    """Store reads while the same false positives are repeated."""
    passes, rows = 100, {}
    for factor in [1, 2, 4]:
        cells = {}
        for contender in contenders(args)[1:]:
            with tempfile.TemporaryDirectory() as directory:
                server = Server(args.server, pathlib.Path(directory) / "d", contender.module)
                reserve(contender, server.client, items)
                fill(contender, server, items)
                wanted = factor * args.room
                wrong, _ = false_positives(contender, server, wanted)
                reads = 0
                for _ in range(passes):
                    for item in wrong:
                        if server.send(encode(*contender.exists, item), 1) == b":1\r\n":
                            reads += 1
                            if contender.adapt:
                                server.client.execute_command(*contender.adapt, item)
                cells[contender.name] = reads
                server.close()
            progress(f"attack with {wanted} items on {contender.name}: {reads} reads")
        rows[f"{wanted} items, {factor} x the room"] = [
            *(f"{reads:,}" for reads in cells.values()), f"{cells['valkey-bloom'] / cells['twiceshy']:.1f}",
        ]
    names = [contender.name for contender in contenders(args)[1:]]
    table(f"Store reads while an attacker repeats false positives {passes} times, {items} items.",
          [*names, "valkey-bloom / twiceshy"], rows)


def latency(args, items):
    """The slowest commands while filters grow from nothing, by the server's own clock."""
    rows = {}
    for contender in contenders(args):
        with tempfile.TemporaryDirectory() as directory:
            server = Server(args.server, pathlib.Path(directory) / "d", contender.module)
            server.client.config_set("slowlog-log-slower-than", 500)
            server.client.config_set("slowlog-max-len", 100_000)
            if contender.reserve:
                reserve(contender, server.client, 10_000)
            done, worst = threading.Event(), []

            def ask():
                client = redis.Redis(port=server.port)
                while not done.is_set():
                    begin = time.perf_counter()
                    client.ping()
                    worst.append(time.perf_counter() - begin)
                    time.sleep(0.001)

            thread = threading.Thread(target=ask)
            thread.start()
            for start in range(0, items, 32):
                batch = range(start, min(start + 32, items))
                server.send(b"".join(encode(*contender.add, stored(n)) for n in batch), len(batch))
            done.set()
            thread.join()
            slow = [entry["duration"] for entry in server.client.slowlog_get(100_000)]
            worst.sort()
            rows[contender.name] = [
                f"{max(slow, default=0) / 1000:.1f}", str(sum(took > 1000 for took in slow)),
                f"{worst[-1] * 1000:.1f}", f"{worst[-len(worst) // 1000] * 1000:.2f}",
            ]
            server.close()
        progress(f"{contender.name} has grown")
    columns = ["slowest command, ms", "commands above 1 ms", "slowest PING beside it, ms",
               "PING, 99.9 %"]
    table(f"{items} items added one by one, 32 at a time, to a filter made for 10,000.", columns, rows)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--server", required=True)
    parser.add_argument("--twiceshy", required=True)
    parser.add_argument("--bloom", required=True)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--items", type=int, nargs="+", default=[10**6, 10**7])
    parser.add_argument("--room", type=int, default=900, help="the false positives of the attack")
    parser.add_argument("--parts", nargs="+", default=["speed", "attack", "latency"])
    args = parser.parse_args()
    version = subprocess.run([args.server, "--version"], capture_output=True, text=True).stdout.split()[2]
    print(f"bench.py {version}, {datetime.date.today()}, load {os.getloadavg()[0]:.1f} before")
    if "speed" in args.parts:
        for items in args.items:
            speed(args, items)
    if "attack" in args.parts:
        attack(args, args.items[0])
    if "latency" in args.parts:
        latency(args, args.items[-1])
    print(f"\nload {os.getloadavg()[0]:.1f} after")


if __name__ == "__main__":
    main()
