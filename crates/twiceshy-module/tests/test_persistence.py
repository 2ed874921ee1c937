"""Restarts, dumps and copies: nothing is lost, and damaged bytes are refused."""

import os
import random
import struct
import subprocess

import pytest
import redis

from test_commands import REMOTES, false_positives, fill, info


def made(db, remote):
    """A filter that has grown and adapted; its items, and what it was told is absent."""
    items = fill(db, "f", 3000, remote, 0.01, 1000)
    reported = false_positives(db, "f", 8)
    # One may be fixed along with another.
    assert set(db.execute_command("AF.ADAPT", "f", *reported)) <= {b"fixed", b"absent"}
    answers = db.execute_command("AF.MEXISTS", "f", *reported)
    wrong = [item for item, maybe in zip(reported, answers) if not maybe]
    assert len(wrong) > 4
    return items, wrong


def assert_same(db, before, items, wrong, key="f"):
    assert db.dump(key) == before, "the same bytes"
    assert all(db.execute_command("AF.MEXISTS", key, *items))
    assert not any(db.execute_command("AF.MEXISTS", key, *wrong))
    assert info(db, key)["Adaptations"] > 4


@pytest.mark.parametrize("remote", REMOTES)
@pytest.mark.parametrize("way", ["rdb", "aof", "rewritten aof", "preamble"])
def test_a_restart_keeps_everything(new_server, remote, way):
    appending = ("--appendonly", "yes", "--appendfsync", "always",
                 "--aof-use-rdb-preamble", "yes" if way == "preamble" else "no")
    server = new_server(*(appending if way != "rdb" else ()))
    db = server.client
    items, wrong = made(db, remote)
    db.execute_command("AF.INSERT", "tight", "CAPACITY", 50, "NONSCALING", "REMOTE", remote, "ITEMS", "a")
    if way == "rdb":
        db.save()
    elif way != "aof":
        db.bgrewriteaof()
        while db.info("persistence")["aof_rewrite_in_progress"] or db.info("persistence")["aof_rewrite_scheduled"]:
            pass
        more = [f"more:{n}" for n in range(500)]
        db.execute_command("AF.MADD", "f", *more)
        items += more
        # One of them may be among those that were reported.
        wrong = [item for item, maybe in zip(wrong, db.execute_command("AF.MEXISTS", "f", *wrong)) if not maybe]
    before, adaptations = db.dump("f"), info(db, "f")["Adaptations"]
    server.kill()
    server.start()
    db = server.client
    assert db.dump("f") == before
    assert all(db.execute_command("AF.MEXISTS", "f", *items))
    assert not any(db.execute_command("AF.MEXISTS", "f", *wrong))
    assert info(db, "f")["Adaptations"] == adaptations
    assert [info(db, key)["Expansion rate"] for key in ("f", "tight")] == [2, 0]
    # It goes on as before.
    assert db.execute_command("AF.ADD", "f", "new item") in (0, 1)


@pytest.mark.parametrize("remote", REMOTES)
def test_copies_are_equal_and_independent(db, remote):
    items, wrong = made(db, remote)
    before = db.dump("f")
    db.copy("f", "copied")
    db.restore("restored", 0, before)
    db.rename("f", "renamed")
    for key in ["copied", "restored", "renamed"]:
        assert_same(db, before, items, wrong, key)
    db.execute_command("AF.MADD", "copied", *wrong)
    assert_same(db, before, items, wrong, "restored")
    if "6.2" not in db.info("server")["redis_version"]:
        restored, renamed, copied = db.execute_command("DEBUG DIGEST-VALUE", "restored", "renamed", "copied")
        assert restored == renamed != copied


@pytest.mark.parametrize("remote", REMOTES)
def test_chunks_restore_a_filter(db, remote):
    items, wrong = made(db, remote)
    chunks, last = [], 0
    while True:
        last, data = db.execute_command("AF.SCANDUMP", "f", last)
        if last == 0:
            break
        chunks.append((last, data))
    for iterator, data in chunks:
        assert db.execute_command("AF.LOADCHUNK", "g", iterator, data, "ADAPTATIONS", info(db, "f")["Adaptations"]) == b"OK"
    assert_same(db, db.dump("f"), items, wrong, "g")
    with pytest.raises(redis.ResponseError, match="exists"):
        db.execute_command("AF.LOADCHUNK", "g", *chunks[0])
    # In smaller pieces, as a file that arrives over a slow network.
    data = b"".join(data for _, data in chunks)
    end = 0
    for start in range(0, len(data), 1000):
        piece = data[start:start + 1000]
        end += len(piece)
        if start == 3000:
            with pytest.raises(redis.ResponseError, match="being loaded"):
                db.execute_command("AF.EXISTS", "h", "a")
            with pytest.raises(redis.ResponseError, match="send all chunks"):
                db.execute_command("AF.LOADCHUNK", "h", 2 * end + 1000, piece)
        assert db.execute_command("AF.LOADCHUNK", "h", 2 * end + (end == len(data)), piece, "ADAPTATIONS", info(db, "f")["Adaptations"]) == b"OK"
    assert_same(db, db.dump("f"), items, wrong, "h")


def test_a_filter_that_is_loaded_in_part_survives_a_restart(new_server):
    server = new_server("--appendonly", "yes", "--appendfsync", "always", "--aof-use-rdb-preamble", "no")
    db = server.client
    items, wrong = made(db, "none")
    last, data = db.execute_command("AF.SCANDUMP", "f", 0)
    half = len(data) // 2
    db.execute_command("AF.LOADCHUNK", "g", 2 * half, data[:half], "NONSCALING", "ADAPTATIONS", info(db, "f")["Adaptations"])
    # So does its dump.
    db.restore("h", 0, db.dump("g"))
    assert db.execute_command("AF.LOADCHUNK", "h", last, data[half:]) == b"OK" and db.execute_command("AF.CARD", "h") > 2900
    db.bgrewriteaof()
    while db.info("persistence")["aof_rewrite_in_progress"] or db.info("persistence")["aof_rewrite_scheduled"]:
        pass
    server.kill()
    server.start()
    db = server.client
    db.execute_command("AF.LOADCHUNK", "g", last, data[half:], "NONSCALING", "ADAPTATIONS", info(db, "f")["Adaptations"])
    assert all(db.execute_command("AF.MEXISTS", "g", *items))
    assert not any(db.execute_command("AF.MEXISTS", "g", *wrong))
    assert info(db, "g")["Expansion rate"] == 0


@pytest.mark.parametrize("remote", REMOTES)
def test_the_command_line_reads_a_dump_and_the_server_its_file(db, tmp_path, remote):
    program = os.environ["TWICESHY_CLI"]
    items, wrong = made(db, remote)
    last, data = db.execute_command("AF.SCANDUMP", "f", 0)
    dump = tmp_path / "dumped.twiceshy"
    dump.write_bytes(data)
    keys = tmp_path / "keys.txt"
    keys.write_text("\n".join(items + wrong) + "\n")
    answers = subprocess.run([program, "query", dump, keys], capture_output=True, text=True, check=True).stdout
    answers = [line.split()[0] for line in answers.splitlines()]
    assert answers == ["maybe"] * len(items) + ["absent"] * len(wrong)
    inspected = subprocess.run([program, "inspect", dump], capture_output=True, text=True, check=True).stdout
    assert "in the file" in inspected
    # And back, with what the command line has learnt.
    found = false_positives(db, "f", 3)
    reported = tmp_path / "reported.txt"
    reported.write_text("\n".join(found) + "\n")
    stored = tmp_path / "stored.txt"
    stored.write_text("\n".join(items) + "\n")
    subprocess.run([program, "adapt", dump, "--false-positives", reported, "--keys", stored], check=True,
                   capture_output=True)
    data = dump.read_bytes()
    db.execute_command("AF.LOADCHUNK", "back", 2 * len(data) + 1, data)
    assert all(db.execute_command("AF.MEXISTS", "back", *items))
    assert not any(db.execute_command("AF.MEXISTS", "back", *wrong, *found))


def crc64(data):
    """The checksum of DUMP: CRC-64/Jones, reflected."""
    crc = 0
    for byte in data:
        crc = CRC64[(crc ^ byte) & 0xff] ^ (crc >> 8)
    return crc


def crc64_table():
    table = []
    for value in range(256):
        for _ in range(8):
            value = (value >> 1) ^ (0x95AC9329AC4BC9B5 if value & 1 else 0)
        table.append(value)
    return table


CRC64 = crc64_table()


@pytest.mark.parametrize("remote", REMOTES)
def test_damaged_payloads_are_refused(server, remote):
    """With a right checksum of the server's around them, so that it is ours that notices."""
    db = server.client
    db.execute_command("AF.RESERVE", "f", 0.01, 40, "REMOTE", remote)
    db.execute_command("AF.MADD", "f", *[f"item:{n}" for n in range(40)])
    payload = db.dump("f")
    body, version = payload[:-10], payload[-10:-8]
    assert payload[-8:] == struct.pack("<Q", crc64(payload[:-8])), "our crc64 is the server's"
    random.seed(7)
    refused = 0
    for round in range(400):
        changed = bytearray(body)
        way = round % 4
        if way == 0:
            changed[random.randrange(1, len(changed))] ^= 1 << random.randrange(8)
        elif way == 1:
            del changed[random.randrange(1, len(changed)):]
        elif way == 2:
            at = random.randrange(1, len(changed))
            changed[at:at] = random.randbytes(random.randrange(1, 20))
        else:
            at = random.randrange(1, len(changed))
            changed[at:at + random.randrange(1, 50)] = random.randbytes(random.randrange(1, 50))
        changed = bytes(changed) + version
        changed += struct.pack("<Q", crc64(changed))
        try:
            db.restore("damaged", 0, changed, replace=True)
        except redis.ResponseError as error:
            assert "Bad data format" in str(error)
            refused += 1
        else:
            # The change is in what is not ours to protect, such as the count of adaptations.
            assert all(db.execute_command("AF.MEXISTS", "damaged", *[f"item:{n}" for n in range(40)]))
            db.delete("damaged")
    assert db.ping() and server.process.poll() is None
    assert refused > 330, f"{refused} of 400 damaged payloads were refused"


def test_the_flags_of_a_payload_are_known_or_refused(db):
    fill(db, "f", 100)
    payload = db.dump("f")
    # Behind the type and the name: the server's mark of a number, and ours, which are the flags.
    assert payload[10:12] == b"\x02\x00"

    def restore(flags):
        changed = payload[:11] + bytes([flags]) + payload[12:-8]
        return db.restore("g", 0, changed + struct.pack("<Q", crc64(changed)), replace=True)

    assert restore(0) and info(db, "g")["Expansion rate"] == 2
    assert restore(1) and info(db, "g")["Expansion rate"] == 0
    for flags in (4, 8, 33):
        with pytest.raises(redis.ResponseError, match="Bad data format"):
            restore(flags)


def test_damaged_chunks_are_refused(db):
    fill(db, "f", 100)
    last, data = db.execute_command("AF.SCANDUMP", "f", 0)
    random.seed(8)
    for _ in range(300):
        changed = bytearray(data)
        changed[random.randrange(len(changed))] ^= 1 << random.randrange(8)
        with pytest.raises(redis.ResponseError, match="damaged|not a|made with|saved|version"):
            db.execute_command("AF.LOADCHUNK", "g", last, bytes(changed))
        assert not db.exists("g")


@pytest.mark.parametrize("remote", REMOTES)
def test_keys_expire_and_are_unlinked(db, remote):
    fill(db, "f", 20_000, remote)
    db.pexpire("f", 30)
    while db.exists("f"):
        pass
    assert db.execute_command("AF.EXISTS", "f", "item:1") == 0
    fill(db, "f", 20_000, remote)
    assert db.unlink("f") == 1 and db.execute_command("AF.CARD", "f") == 0
