"""What each command does, and what it says when it cannot."""

import pytest
import redis

REMOTES = ["none", "memory"]


def false_positives(db, key, count, start=0):
    """Items that were never added and are answered with 1."""
    found, number = [], start
    while len(found) < count:
        items = [f"absent:{n}" for n in range(number, number + 2000)]
        found += [item for item, maybe in zip(items, db.execute_command("AF.MEXISTS", key, *items)) if maybe]
        number += 2000
        assert number < start + 10_000_000, "so many false positives are expected long before"
    return found[:count]


def fill(db, key, count, remote="none", rate=0.01, capacity=None, *options):
    if remote == "none" and "EXCEPTIONS" not in options:
        # Room for many times what a test reports: a full set of five forgets one.
        options = (*options, "EXCEPTIONS", max(50, count // 4))
    db.execute_command("AF.RESERVE", key, rate, capacity or count, "REMOTE", remote, *options)
    items = [f"item:{n}" for n in range(count)]
    for at in range(0, count, 1000):
        db.execute_command("AF.MADD", key, *items[at:at + 1000])
    return items


def info(db, key):
    reply = db.execute_command("AF.INFO", key)
    # A map in the new protocol, a list in the old one.
    pairs = reply.items() if isinstance(reply, dict) else zip(reply[::2], reply[1::2])
    return {name.decode(): value for name, value in pairs}


@pytest.mark.parametrize("remote", REMOTES)
def test_a_false_positive_is_made_once(db, remote):
    items = fill(db, "f", 5000, remote)
    wrong = false_positives(db, "f", 10)
    fixed = 0
    for item in wrong:
        before = db.execute_command("AF.EXISTS", "f", item)
        [reply] = db.execute_command("AF.ADAPT", "f", item)
        assert reply == (b"fixed" if before else b"absent"), "one may be fixed along with another"
        assert db.execute_command("AF.EXISTS", "f", item) == 0
        assert db.execute_command("AF.ADAPT", "f", item) == [b"absent"]
        fixed += before
    assert db.execute_command("AF.MEXISTS", "f", *items) == [1] * len(items)
    assert info(db, "f")["Adaptations"] == fixed > 5
    # A key that comes back is known again.
    assert db.execute_command("AF.ADD", "f", wrong[-1]) == 1
    assert db.execute_command("AF.EXISTS", "f", wrong[-1]) == 1


def test_a_stored_key_is_not_hidden_with_a_remote(db):
    items = fill(db, "f", 3000, "memory")
    assert db.execute_command("AF.ADAPT", "f", *items) == [b"stored"] * len(items)
    assert all(db.execute_command("AF.MEXISTS", "f", *items))


def test_a_key_that_was_just_added_is_not_hidden_without_one(db):
    items = fill(db, "f", 100)
    # The race of two clients: one finds nothing in the database, the other adds, the first adapts.
    wrong = false_positives(db, "f", 1)[0]
    assert db.execute_command("AF.ADD", "f", wrong) == 0, "it looked as if it were stored"
    assert db.execute_command("AF.ADAPT", "f", wrong) == [b"stored"]
    assert db.execute_command("AF.EXISTS", "f", wrong) == 1
    assert db.execute_command("AF.ADAPT", "f", items[-1]) == [b"stored"]
    # Much later the filter has to believe what it is told.
    db.execute_command("AF.MADD", "f", *[f"later:{n}" for n in range(100)])
    assert db.execute_command("AF.ADAPT", "f", wrong) == [b"fixed"]


def test_deletion_is_exact_with_a_remote_and_refused_without(db):
    items = fill(db, "f", 2000, "memory")
    assert db.execute_command("AF.DEL", "f", items[0]) == 1
    assert db.execute_command("AF.DEL", "f", items[0]) == 0
    wrong = false_positives(db, "f", 3)
    assert db.execute_command("AF.MDEL", "f", *wrong, *items[1:1000]) == [0] * 3 + [1] * 999
    assert all(db.execute_command("AF.MEXISTS", "f", *items[1000:]))
    assert db.execute_command("AF.CARD", "f") == 1000
    fill(db, "g", 10)
    with pytest.raises(redis.ResponseError, match="REMOTE memory"):
        db.execute_command("AF.DEL", "g", "item:0")
    assert db.execute_command("AF.DEL", "missing", "x") == 0


def test_the_first_item_makes_a_filter(db):
    assert db.execute_command("AF.ADD", "f", "a") == 1
    assert db.execute_command("AF.ADD", "f", "a") == 0
    assert db.execute_command("AF.MADD", "g", "a", "b", "a") == [1, 1, 0]
    assert db.execute_command("AF.INSERT", "h", "CAPACITY", 50, "RATE", 0.1, "ITEMS", "a", "b") == [1, 1]
    assert info(db, "h")["Capacity"] == 50
    with pytest.raises(redis.ResponseError, match="not found"):
        db.execute_command("AF.INSERT", "i", "NOCREATE", "ITEMS", "a")
    assert not db.exists("i")
    assert db.execute_command("AF.INSERT", "h", "NOCREATE", "ITEMS", "c") == [1]


def test_what_is_missing_is_absent(db):
    assert db.execute_command("AF.EXISTS", "f", "a") == 0
    assert db.execute_command("AF.MEXISTS", "f", "a", "b") == [0, 0]
    assert db.execute_command("AF.CARD", "f") == 0
    assert db.execute_command("AF.ADAPT", "f", "a") == [b"absent"]
    for command in [("AF.INFO", "f"), ("AF.SCANDUMP", "f", 0), ("AF.MERGE", "g", "f")]:
        with pytest.raises(redis.ResponseError, match="not found"):
            db.execute_command(*command)
    assert db.dbsize() == 0


@pytest.mark.parametrize("command", [
    ("AF.RESERVE",), ("AF.RESERVE", "f"), ("AF.RESERVE", "f", 0.01), ("AF.ADD", "f"), ("AF.ADD", "f", "a", "b"),
    ("AF.MADD", "f"), ("AF.INSERT", "f", "ITEMS"), ("AF.INSERT", "f", "CAPACITY"), ("AF.EXISTS", "f"),
    ("AF.EXISTS", "f", "a", "b"), ("AF.MEXISTS", "f"), ("AF.ADAPT", "f"), ("AF.DEL", "f"), ("AF.MDEL", "f"),
    ("AF.CARD",), ("AF.CARD", "f", "g"), ("AF.INFO",), ("AF.INFO", "f", "SIZE", "x"), ("AF.SCANDUMP", "f"),
    ("AF.LOADCHUNK", "f", 1), ("AF.MERGE", "f"),
])
def test_wrong_numbers_of_arguments(db, command):
    with pytest.raises(redis.ResponseError, match="wrong number of arguments"):
        db.execute_command(*command)
    assert db.dbsize() == 0


@pytest.mark.parametrize("command, reason", [
    (("AF.RESERVE", "f", "x", 10), "rate is not a number: x"),
    (("AF.RESERVE", "f", 0.01, -1), "capacity is not a number: -1"),
    (("AF.RESERVE", "f", 0, 10), "more than 0 and less than 1"),
    (("AF.RESERVE", "f", 1, 10), "more than 0 and less than 1"),
    (("AF.RESERVE", "f", "nan", 10), "more than 0 and less than 1"),
    (("AF.RESERVE", "f", 0.01, 0), "at least 1"),
    (("AF.RESERVE", "f", 0.01, 10**10), "MAX-BYTES"),
    (("AF.RESERVE", "f", 0.01, 2**64 - 1), "MAX-BYTES"),
    (("AF.RESERVE", "f", 0.01, 10**9, "REMOTE", "memory"), "MAX-BYTES"),
    (("AF.RESERVE", "f", 0.01, 10, "FAST"), "unknown option: FAST"),
    (("AF.RESERVE", "f", 0.01, 10, "REMOTE", "disk"), "none or memory"),
    (("AF.RESERVE", "f", 0.01, 10, "REMOTE", "memory", "EXCEPTIONS", 5), "leave them out"),
    (("AF.RESERVE", "f", 1e-9, 10, "REMOTE", "memory"), "0.00001"),
    (("AF.RESERVE", "f", 0.01, 10, "EXCEPTIONS", "x"), "EXCEPTIONS is not a number"),
    (("AF.RESERVE", "f", 0.01, 10, "SECRET", "12"), "34 hexadecimal digits"),
    (("AF.INSERT", "f", "SOON", "ITEMS", "a"), "unknown option: SOON"),
    (("AF.LOADCHUNK", "f", 5, "x"), "send all chunks"),
    (("AF.LOADCHUNK", "f", 3, "x"), "not a|damaged|too short|file"),
    (("AF.LOADCHUNK", "f", -1, "x"), "send all chunks"),
    (("AF.LOADCHUNK", "f", 3, "x", "y"), "unknown option"),
])
def test_wrong_values_say_what_is_wrong(db, command, reason):
    with pytest.raises(redis.ResponseError, match=reason):
        db.execute_command(*command)
    assert db.dbsize() == 0


def test_other_types_are_left_alone(db):
    db.set("text", "value")
    for command in [("AF.ADD", "text", "a"), ("AF.EXISTS", "text", "a"), ("AF.RESERVE", "text", 0.01, 10),
                    ("AF.INFO", "text"), ("AF.ADAPT", "text", "a"), ("AF.CARD", "text"), ("AF.MERGE", "g", "text"),
                    ("AF.LOADCHUNK", "text", 3, "x"), ("AF.SCANDUMP", "text", 0), ("AF.DEL", "text", "a")]:
        with pytest.raises(redis.ResponseError, match="WRONGTYPE"):
            db.execute_command(*command)
    assert db.get("text") == b"value"
    db.execute_command("AF.ADD", "f", "a")
    with pytest.raises(redis.ResponseError, match="WRONGTYPE"):
        db.get("f")
    with pytest.raises(redis.ResponseError, match="exists"):
        db.execute_command("AF.RESERVE", "f", 0.01, 10)


@pytest.mark.parametrize("remote", REMOTES)
def test_a_filter_grows_or_says_that_it_is_full(db, remote):
    items = fill(db, "f", 3000, remote, 0.01, 100)
    assert all(db.execute_command("AF.MEXISTS", "f", *items))
    assert info(db, "f")["Capacity"] >= 2900
    db.execute_command("AF.RESERVE", "g", 0.001, 100, "NONSCALING", "REMOTE", remote)
    replies = db.execute_command("AF.MADD", "g", *items[:200])
    added = [reply for reply in replies if reply == 1]
    full = [reply for reply in replies if isinstance(reply, redis.ResponseError)]
    assert len(added) == 100 and len(full) >= 90 and "full" in str(full[0])
    assert all(db.execute_command("AF.MEXISTS", "g", *items[:100]))
    with pytest.raises(redis.ResponseError, match="is made for 100"):
        db.execute_command("AF.ADD", "g", "one more")
    # What is there can be added again.
    assert db.execute_command("AF.ADD", "g", items[0]) == 0


def test_info_names_every_field(db):
    fill(db, "f", 1000, "none", 0.004, 1000, "EXCEPTIONS", 50)
    fields = info(db, "f")
    assert list(fields)[:5] == ["Capacity", "Size", "Number of filters", "Number of items inserted", "Expansion rate"]
    assert fields["Size"] == fields["Bytes"] and fields["Remote"] == b"none"
    assert 250 <= fields["Room for exceptions"] <= 260
    assert 0 < float(fields["Rate"]) <= 0.004
    assert float(fields["Bits per key"]) == pytest.approx(8 * fields["Bytes"] / fields["Number of items inserted"])
    for name, field in [("capacity", "Capacity"), ("ITEMS", "Number of items inserted"), ("bytes", "Bytes"),
                        ("exceptions", "Exceptions"), ("adaptations", "Adaptations"), ("filters", "Number of filters")]:
        assert db.execute_command("AF.INFO", "f", name) == fields[field]
    with pytest.raises(redis.ResponseError, match="there are CAPACITY"):
        db.execute_command("AF.INFO", "f", "colour")


@pytest.mark.parametrize("remote", REMOTES)
def test_merged_filters_answer_as_one(db, remote):
    secret = "01" + "5a" * 16
    for key, start in [("a", 0), ("b", 500), ("c", 1000)]:
        db.execute_command("AF.RESERVE", key, 0.01, 1000, "REMOTE", remote, "SECRET", secret)
        db.execute_command("AF.MADD", key, *[f"item:{n}" for n in range(start, start + 600)])
    asked = [f"item:{n}" for n in range(3000)]
    either = [any(answers) for answers in zip(*(db.execute_command("AF.MEXISTS", key, *asked) for key in "abc"))]
    assert db.execute_command("AF.MERGE", "all", "a", "b", "c") == b"OK"
    merged = db.execute_command("AF.MEXISTS", "all", *asked)
    assert all(merged[:1600])
    if remote == "none":
        assert merged == [int(maybe) for maybe in either]
    else:
        assert db.execute_command("AF.CARD", "all") == 1600
    assert db.execute_command("AF.CARD", "b") > 590, "the sources stay"
    assert db.execute_command("AF.MERGE", "a", "b") == b"OK"
    assert all(db.execute_command("AF.MEXISTS", "a", *asked[:1100])), "what it had stays"
    db.execute_command("AF.RESERVE", "other", 0.01, 1000, "REMOTE", remote)
    before = db.dump("all")
    with pytest.raises(redis.ResponseError, match="SECRET"):
        db.execute_command("AF.MERGE", "all", "a", "other")
    assert db.dump("all") == before


def test_the_server_knows_its_commands_and_keys(db):
    if db.info("server")["redis_version"].startswith("6."):
        pytest.skip("Redis 6.2 has no COMMAND DOCS")
    docs = db.execute_command("COMMAND DOCS", "AF.RESERVE", "AF.MERGE")
    text = str(docs)
    assert "Creates an empty filter" in text and "EXCEPTIONS" in text and "source" in text
    def keys(*command):
        found = db.execute_command("COMMAND GETKEYS", *command)
        return [key.decode() if isinstance(key, bytes) else key for key in found]
    assert keys("AF.MERGE", "a", "b", "c") == ["a", "b", "c"]
    assert keys("AF.ADD", "a", "b") == ["a"]
    for name, flags in [("AF.EXISTS", {b"readonly", b"fast"}), ("AF.ADD", {b"write", b"denyoom"}), ("AF.DEL", {b"write"})]:
        reply = db.execute_command("COMMAND INFO", name)
        known = {str(flag).strip("b'") for entry in reply.values() for flag in entry["flags"]} if isinstance(reply, dict) \
            else {flag.decode() for flag in reply[0][2]}
        assert {flag.decode() for flag in flags} <= known, (name, known)


def test_subscribers_hear_of_changes(db):
    db.config_set("notify-keyspace-events", "KEA")
    listener = db.pubsub()
    listener.psubscribe("__keyevent@0__:*")
    wrong = None
    fill(db, "f", 3000, "memory", 0.01)
    wrong = false_positives(db, "f", 1)[0]
    db.execute_command("AF.ADAPT", "f", wrong)
    db.execute_command("AF.DEL", "f", "item:1")
    db.execute_command("AF.MERGE", "g", "f")
    heard = []
    while True:
        message = listener.get_message(timeout=0.5)
        if message is None:
            break
        if message["type"] == "pmessage":
            heard.append(message["channel"].decode().split(":", 1)[1])
    listener.close()
    db.config_set("notify-keyspace-events", "")
    events = [event for event in dict.fromkeys(heard) if event.startswith("af.")]
    assert events == ["af.reserve", "af.add", "af.adapt", "af.del", "af.merge"]
