"""``Filter`` against an exact set, under random operations."""

import pickle

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from twiceshy import Filter

KEYS = st.one_of(
    st.integers(0, 60),
    st.integers(-(2**127), 2**128 - 1),
    st.text(max_size=3),
    st.binary(max_size=3),
    st.tuples(st.integers(0, 3), st.text("ab", max_size=2)),
)


def encoded(key: object) -> object:
    """Equal keys of a filter are equal here: "a" is b"a"."""
    if isinstance(key, str):
        return key.encode()
    if isinstance(key, int):
        if 0 <= key < 2**64:
            return key.to_bytes(8, "little")
        if key < 2**127:
            return key.to_bytes(16, "little", signed=True)
        return key.to_bytes(16, "little") + b"\0"
    if isinstance(key, tuple):
        parts = [encoded(part) for part in key]
        return b"".join(len(part).to_bytes(8, "little") + part for part in parts)
    return key


class Laws(RuleBasedStateMachine):
    """A stored key is never absent, and a removed one is not stored."""

    @initialize(
        capacity=st.integers(1, 40),
        rate=st.sampled_from([0.5, 0.02, 0.0005]),
        kind=st.sampled_from(["line", "plain", "rsqf"]),
        exceptions=st.sampled_from([0, 0.5, 60]),
        hasher=st.sampled_from(["siphash", "xxh3"]),
    )
    def start(self, **options):
        self.filter = Filter(**options)
        self.stored = {}

    @rule(key=KEYS)
    def add(self, key):
        before = key in self.filter
        assert self.filter.add(key) is not before
        self.stored[encoded(key)] = key

    @rule(keys=st.lists(KEYS, max_size=40))
    def add_many(self, keys):
        self.filter.update(keys)
        self.stored.update((encoded(key), key) for key in keys)

    @rule(key=KEYS)
    def discard(self, key):
        was_there, can_remove = key in self.filter, self.filter.stats()["exceptions_room"] > 0
        try:
            self.filter.discard(key)
            assert key not in self.filter and (can_remove or not was_there)
            self.stored.pop(encoded(key), None)
        except ValueError:
            assert was_there and not can_remove

    @rule(key=KEYS)
    def remove(self, key):
        was_there, can_remove = key in self.filter, self.filter.stats()["exceptions_room"] > 0
        try:
            self.filter.remove(key)
            assert was_there and can_remove and key not in self.filter
            self.stored.pop(encoded(key), None)
        except KeyError:
            assert not was_there
        except ValueError:
            assert was_there and not can_remove

    @rule(key=KEYS)
    def adapt(self, key):
        if encoded(key) not in self.stored:
            changed = self.filter.adapt(key)
            assert not changed or key not in self.filter

    @rule(keys=st.lists(KEYS, max_size=20))
    def contains_many(self, keys):
        assert self.filter.contains_many(keys) == [key in self.filter for key in keys]

    @rule()
    def save(self):
        again = pickle.loads(pickle.dumps(self.filter))
        assert again == self.filter
        self.filter = again

    @rule(keys=st.lists(KEYS, max_size=10))
    def join(self, keys):
        other = self.filter.copy()
        other.clear()
        other.update(keys)
        joined = self.filter | other
        assert all(key in joined for key in keys)
        self.filter |= other
        assert self.filter == joined
        self.stored.update((encoded(key), key) for key in keys)

    @rule()
    def clear(self):
        self.filter.clear()
        self.stored.clear()
        assert not self.filter

    @invariant()
    def stored_keys_are_found(self):
        if hasattr(self, "stored"):
            assert all(self.filter.contains_many(list(self.stored.values())))
            assert bool(self.filter) or not self.stored


Laws.TestCase.settings = settings(
    max_examples=60,
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
TestLaws = Laws.TestCase
