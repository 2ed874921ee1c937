"""Long random histories against a set: never a false negative, and what is fixed is answered "absent"."""

import random

import pytest

from test_commands import REMOTES


@pytest.mark.parametrize("remote", REMOTES)
@pytest.mark.parametrize("seed", range(2))
def test_histories_agree_with_a_set(db, remote, seed):
    choose = random.Random(1000 * seed + (remote == "memory"))
    rate, capacity = choose.choice([0.3, 0.05, 0.01]), choose.choice([1, 10, 300])
    key, number, stored = "f0", 0, set()
    db.execute_command("AF.RESERVE", key, rate, capacity, "REMOTE", remote)
    universe = [f"key:{n}" for n in range(600)]
    for step in range(150):
        some = choose.sample(universe, choose.randrange(1, 12))
        way = choose.randrange(12)
        if way < 4:
            db.execute_command("AF.MADD", key, *some)
            stored.update(some)
        elif way < 6 and remote == "memory":
            assert db.execute_command("AF.MDEL", key, *some) == [int(item in stored) for item in some]
            stored.difference_update(some)
        elif way < 9:
            for item in some:
                if item not in stored:
                    [reply] = db.execute_command("AF.ADAPT", key, item)
                    assert reply in (b"fixed", b"absent", b"unfixed"), "it is not stored"
                    assert reply == b"unfixed" or not db.execute_command("AF.EXISTS", key, item)
        elif way == 9:
            number += 1
            new = f"f{number}"
            choose.choice([lambda: db.copy(key, new), lambda: db.restore(new, 0, db.dump(key)),
                           lambda: db.rename(key, new)])()
            db.delete(key)
            key = new
        elif way == 10 and step % 3 == 0:
            db.execute_command("DEBUG", "RELOAD")
        answers = dict(zip(universe, db.execute_command("AF.MEXISTS", key, *universe)))
        denied = [item for item in stored if not answers[item]]
        assert not denied, f"step {step}: {denied[:3]} of {len(stored)} are stored and denied"
        assert [db.execute_command("AF.EXISTS", key, item) for item in some] == [answers[item] for item in some]
    if remote == "memory":
        assert db.execute_command("AF.CARD", key) == len(stored)
