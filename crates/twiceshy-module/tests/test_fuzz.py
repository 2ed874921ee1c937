"""Requests at random, sensible ones and others: the server answers each, and no filter loses an item.

`TWICESHY_FUZZ_SECONDS` makes it longer; a failure names the seed and the last requests.
"""

import collections
import os
import random
import time

import pytest
import redis

SECONDS = float(os.environ.get("TWICESHY_FUZZ_SECONDS", "0"))
STEPS = 1500
SEED = int(os.environ.get("TWICESHY_FUZZ_SEED", "1"))

KEYS = ["f0", "f1", "f2", "f3", "f4", "text", "no such key"]
NUMBERS = ["0", "1", "-1", "2", "17", "5000", "0.5", "0.01", "0.0001", "1e-5", "1e-300", "1e308", "nan", "inf", "-inf",
           "2147483648", "4294967297", "9223372036854775807", "9223372036854775808", "18446744073709551615",
           "-9223372036854775808", "99999999999999999999", "", " 1", "0x10", "١", b"\xff\xfe\x00"]
SECRETS = ["01" + "5a" * 16, "01" + "77" * 16, "02" + "11" * 8 + "00" * 8, "00", "zz" * 17, "é" * 17]
FIELDS = ["CAPACITY", "items", "BYTES", "colour", "", "bits"]
OPTIONS = ["NONSCALING", "REMOTE", "EXCEPTIONS", "SECRET", "CAPACITY", "RATE", "ERROR", "EXPANSION", "NOCREATE", "ITEMS",
           "SCALING", "ADAPTATIONS", "none", "memory", "disk"]
COMMANDS = ["RESERVE", "ADD", "MADD", "INSERT", "EXISTS", "MEXISTS", "ADAPT", "DEL", "MDEL", "CARD", "INFO", "SCANDUMP",
            "SCANDUMP", "LOADCHUNK", "LOADCHUNK", "MERGE"]


class Fuzzer:
    """Knows which items each filter has. Items that are reported as absent are never added."""

    def __init__(self, server, seed, answers):
        self.server, self.db = server, server.client
        self.choose = random.Random(seed)
        self.stored = collections.defaultdict(set)
        self.chunks = {}
        self.answers = answers
        self.last = collections.deque(maxlen=8)

    def item(self):
        choose = self.choose
        return choose.choice([f"item:{choose.randrange(3000)}", f"item:{choose.randrange(30)}", "",
                              choose.randbytes(choose.randrange(40)), "x" * choose.randrange(5000)])

    def items(self):
        return [self.item() for _ in range(self.choose.choice([0, 1, 1, 2, 10, 200]))]

    def absent(self):
        return f"absent:{self.choose.randrange(10**6)}"

    def key(self):
        return self.choose.choice(KEYS)

    def options(self):
        """Mostly such as there are, in any number and order."""
        choose, options = self.choose, []
        for _ in range(choose.choice([0, 0, 1, 2, 3, 8])):
            number = choose.choice(NUMBERS)
            options += choose.choice([
                ["NONSCALING"], ["REMOTE", choose.choice(["none", "memory", "Memory", "disk"])], ["EXCEPTIONS", number],
                ["EXCEPTIONS", "100"], ["SECRET", choose.choice(SECRETS)], ["RATE", number], ["CAPACITY", number],
                ["EXPANSION", number], ["NOCREATE"], [choose.choice(OPTIONS)], [self.item()],
            ])
        return options

    def sensible(self, command):
        """A request that mostly makes sense."""
        choose, key = self.choose, self.key()
        match command:
            case "RESERVE":
                rate, capacity = choose.choice(["0.3", "0.01", "0.002"]), choose.choice(["1", "20", "1000", "50000"])
                return [key, rate, capacity, *self.options()]
            case "ADD" | "EXISTS" | "DEL":
                return [key, self.item()]
            case "MADD" | "MEXISTS" | "MDEL":
                return [key, *self.items()]
            case "ADAPT":
                return [key, *(self.absent() for _ in range(choose.choice([1, 1, 50])))]
            case "INSERT":
                return [key, *self.options(), "ITEMS", *self.items()]
            case "CARD":
                return [key]
            case "INFO":
                return [key, *choose.choices(FIELDS, k=choose.randrange(2))]
            case "SCANDUMP":
                return [key, choose.choice(["0", "0", *NUMBERS])]
            case "LOADCHUNK":
                at, data = choose.choice(list(self.chunks.values()) or [(3, b"x")])
                half = len(data) // 2
                return [key, *choose.choice([[at, data], [at, data], [2 * half, data[:half]], [at, data[half:]],
                                             [at, self.damaged(data)], [choose.choice(NUMBERS), data]]), *self.options()]
            case "MERGE":
                return [key, *(self.key() for _ in range(choose.choice([1, 1, 2, 5])))]

    def damaged(self, data):
        changed = bytearray(data)
        for _ in range(self.choose.choice([1, 1, 3])):
            if changed:
                changed[self.choose.randrange(len(changed))] ^= 1 << self.choose.randrange(8)
        return bytes(changed[:self.choose.choice([len(changed), self.choose.randrange(len(changed) + 1)])])

    def request(self):
        command = self.choose.choice(COMMANDS)
        arguments = self.sensible(command)
        way = self.choose.randrange(8)
        if way == 0 and arguments:
            arguments[self.choose.randrange(len(arguments))] = self.choose.choice(NUMBERS)
        elif way == 1:
            del arguments[self.choose.randrange(len(arguments) + 1):]
        elif way == 2:
            arguments.insert(self.choose.randrange(len(arguments) + 1), self.choose.choice([*OPTIONS, *NUMBERS, *KEYS]))
        if command == "ADAPT":
            # Without a remote, a report of a stored item hides it.
            arguments = arguments[:1] + [item for item in arguments[1:] if str(item).startswith("absent:")]
        return [f"AF.{command}", *arguments]

    def step(self):
        request = self.request()
        self.last.append(request if len(str(request)) < 300 else f"{str(request)[:300]}...")
        key = as_bytes(request[1]) if len(request) > 1 else None
        there = key is not None and self.db.exists(key)
        try:
            reply = self.db.execute_command(*request)
        except redis.ResponseError as error:
            reply = error
        texts = [str(each) for each in (reply if isinstance(reply, list) else [reply])]
        assert not any("has a bug" in text for text in texts), (texts, request)
        self.answers[request[0], isinstance(reply, redis.ResponseError)] += 1
        if not isinstance(reply, redis.ResponseError):
            self.note(request[0], key, there, request, reply)

    def note(self, command, key, there, request, reply):
        match command:
            case "AF.ADD":
                self.stored[key].add(as_bytes(request[2]))
            case "AF.MADD" | "AF.INSERT":
                items = request[2:]
                if command == "AF.INSERT":
                    # The first ITEMS that is not the value of an option: as many as there are answers.
                    items = request[len(request) - len(reply):]
                self.stored[key] |= {as_bytes(item) for item, one in zip(items, reply, strict=True)
                                     if not isinstance(one, redis.ResponseError)}
            case "AF.DEL" | "AF.MDEL":
                self.stored[key] -= {as_bytes(item) for item in request[2:]}
            case "AF.SCANDUMP" if reply[0]:
                self.chunks[self.choose.randrange(6)] = tuple(reply)
            case "AF.LOADCHUNK" if not there:
                self.stored[key] = set()
            case "AF.MERGE":
                for source in request[2:]:
                    self.stored[key] |= self.stored[as_bytes(source)]

    def other_step(self):
        """What servers do to keys of any type."""
        key, other = (as_bytes(self.choose.choice(KEYS[:5])) for _ in range(2))
        way = self.choose.choice(["delete", "copy", "rename", "dump", "reload", "memory", "damaged", "digest"])
        self.last.append((way, key, other))
        if way == "delete":
            self.db.delete(key)
            self.stored.pop(key, None)
        elif way == "reload":
            self.db.execute_command("DEBUG", "RELOAD")
        elif self.db.exists(key) and key != other:
            if way == "copy":
                self.db.copy(key, other, replace=True)
                self.stored[other] = set(self.stored[key])
            elif way == "rename":
                self.db.rename(key, other)
                self.stored[other] = self.stored.pop(key, set())
            elif way == "dump":
                self.db.restore(other, 0, self.db.dump(key), replace=True)
                self.stored[other] = set(self.stored[key])
            elif way == "memory":
                assert self.db.memory_usage(key) > 0
            elif way == "digest":
                self.db.execute_command("DEBUG", "DIGEST-VALUE", key)
            else:
                try:
                    self.db.restore("damaged", 0, sealed(self.damaged(self.db.dump(key)[:-8])), replace=True)
                    self.db.execute_command("AF.EXISTS", "damaged", "a")
                except redis.ResponseError as error:
                    assert "Bad data format" in str(error) or "checksum" in str(error) or "being loaded" in str(error)
                self.db.delete("damaged")

    def check(self):
        for key, items in self.stored.items():
            some = self.choose.sample(sorted(items), min(500, len(items)))
            if not some:
                continue
            try:
                answers = self.db.execute_command("AF.MEXISTS", key, *some)
            except redis.ResponseError as error:
                assert "being loaded" in str(error), error
                continue
            assert all(answers), \
                f"{key} denies {[item[:50] for item, maybe in zip(some, answers) if not maybe][:3]}"


def as_bytes(item):
    return item if isinstance(item, bytes) else str(item).encode()


def sealed(body):
    from test_persistence import crc64
    return body + crc64(body).to_bytes(8, "little")


def test_whatever_is_sent_the_server_answers(new_server):
    server = new_server(module_options=("MAX-BYTES", "2000000"))
    seeds = range(SEED, SEED + 10**9) if SECONDS else [SEED, SEED + 1]
    end, answers = time.monotonic() + SECONDS, collections.Counter()
    for seed in seeds:
        if SECONDS and time.monotonic() > end:
            break
        fuzzer = Fuzzer(server, seed, answers)
        server.client.flushall()
        server.client.set("text", "value")
        try:
            for step in range(STEPS):
                fuzzer.step()
                if step % 20 == 0:
                    fuzzer.other_step()
                if step % 50 == 0:
                    fuzzer.check()
            server.client.execute_command("DEBUG", "RELOAD")
            fuzzer.check()
        except (AssertionError, redis.RedisError) as error:
            log = server.log_text()[-1500:]
            pytest.fail(f"seed {seed}, after {list(fuzzer.last)}: {type(error).__name__} {error}\n{log}")
    # Each command did something, and each was refused.
    assert len(answers) == 2 * len(set(COMMANDS)), sorted(answers)
    assert server.process.poll() is None
    assert "panicked" not in server.log_text()
    print(f"{answers.total()} requests, {sum(count for (_, failed), count in answers.items() if failed)} refused")
