"""``Guard``: a filter in front of a store of your own."""

import asyncio
import functools
import inspect
import itertools
import os
import weakref
from collections.abc import Awaitable, Callable, Iterable, Mapping
from types import TracebackType
from typing import Any, Generic, Literal, Protocol, Self, TypeVar, cast, overload

from twiceshy._twiceshy import Sidecar

__all__ = ["Guard", "Guarded", "Key", "guard"]

Key = Any
"""str, bytes, int, or a tuple of these."""

V = TypeVar("V")
V_co = TypeVar("V_co", covariant=True)
D = TypeVar("D")

#: Keys that are reported with one write.
_CHUNK = 1 << 16

_MISSING: Any = object()


class Guard(Generic[V]):
    """A filter in front of any lookup, so that known misses never reach it.

    ``lookup`` is a function of one key that returns None for a key that is not stored, or a
    mapping; it may be ``async``. The guard keeps digests of its keys in ``directory`` (about 20
    bytes per key) and a filter in memory (under 12 bits per key):

    >>> import tempfile, twiceshy
    >>> rows = {"alice": 1}                    # your database
    >>> directory = tempfile.TemporaryDirectory()
    >>> users = twiceshy.Guard(directory.name, rows.get, keys=rows)
    >>> users.get("alice")
    1
    >>> users.get("bob") is None               # no query: definitely absent
    True
    >>> users.added("carol")                   # before your database gets the key
    True
    >>> rows["carol"] = 2
    >>> users["carol"]
    2
    >>> users.stats()["store_reads"]           # alice and carol
    2
    >>> users.close(); directory.cleanup()

    A new directory answers every lookup from your store until it has all keys: pass them as
    ``keys``, which is read only if the directory is not built yet, or report them with
    ``added_many`` and then call ``built``. From then on, report every key with ``added`` before
    your store gets it: the guard denies keys that it was not told of. Report the changes of one
    key in their order.

    All threads can share a guard. Only one process at a time can have a directory open; a forked
    process cannot use what its parent had opened.

    :param directory: Where the digests are; it is made if there is none.
    :param lookup: A function, a coroutine function or a mapping.
    :param keys: All keys of your store, or a function that returns them.
    :param capacity: Keys to make room for. The guard grows with its keys.
    :param durability: ``"power"``: reported keys survive a loss of power, and each report waits
        for the disk. ``"process"``: they survive the death of the process.
    """

    @overload
    def __init__(
        self,
        directory: str | os.PathLike[str],
        lookup: Callable[[Any], Awaitable[V | None]],
        *,
        keys: Iterable[Key] | Callable[[], Iterable[Key]] | None = None,
        capacity: int = 65_536,
        durability: Literal["power", "process"] = "power",
    ) -> None: ...
    @overload
    def __init__(
        self,
        directory: str | os.PathLike[str],
        lookup: Callable[[Any], V | None] | Mapping[Any, V],
        *,
        keys: Iterable[Key] | Callable[[], Iterable[Key]] | None = None,
        capacity: int = 65_536,
        durability: Literal["power", "process"] = "power",
    ) -> None: ...
    def __init__(
        self,
        directory: str | os.PathLike[str],
        lookup: Callable[[Any], Any] | Mapping[Any, Any],
        *,
        keys: Iterable[Key] | Callable[[], Iterable[Key]] | None = None,
        capacity: int = 65_536,
        durability: Literal["power", "process"] = "power",
    ) -> None:
        self._lookup, self._absent = _function(lookup)
        self._is_async = _is_async(lookup)
        # The program may change its working directory before the snapshot is written.
        self._sidecar = Sidecar(os.path.abspath(directory), capacity, durability)
        # Also when the interpreter exits, so that the next start needs no rebuild.
        self._finalizer = weakref.finalize(self, self._sidecar.close)
        if keys is not None and not self.is_built:
            try:
                self.added_many(keys() if callable(keys) else keys)
                self.built()
            except BaseException:
                self.close()
                raise

    @overload
    def get(self, key: Key) -> V | None: ...
    @overload
    def get(self, key: Key, default: D) -> V | D: ...
    def get(self, key: Key, default: Any = None) -> Any:
        """The value of a key, or ``default``.

        Your store is asked only if the filter answers "maybe". If it does not have the key, the
        filter adapts, and the next lookup of the key is answered "absent".
        """
        if self._is_async:
            raise TypeError("the lookup of this guard is async: use 'await guard.aget(key)'")
        if not self._sidecar.contains(key):
            return default
        return self._adapted(key, self._lookup(key), default)

    @overload
    async def aget(self, key: Key) -> V | None: ...
    @overload
    async def aget(self, key: Key, default: D) -> V | D: ...
    async def aget(self, key: Key, default: Any = None) -> Any:
        """``get`` for asynchronous programs. A lookup that is not ``async`` runs in a thread."""
        if not self._sidecar.contains(key):
            return default
        if self._is_async:
            found = await self._lookup(key)
        else:
            found = await asyncio.to_thread(self._lookup, key)
            if inspect.isawaitable(found):
                found = await found
        return self._adapted(key, found, default)

    def _adapted(self, key: Key, found: Any, default: Any) -> Any:
        """What was found; adapts to nothing."""
        if found is self._absent:
            self._sidecar.missed(key)
            return default
        return found

    def __getitem__(self, key: Key) -> V:
        found = self.get(key, _MISSING)
        if found is _MISSING:
            raise KeyError(key)
        return cast(V, found)

    def __contains__(self, key: Key) -> bool:
        """Whether your store has the key; this is exact."""
        return self.get(key, _MISSING) is not _MISSING

    def maybe(self, key: Key) -> bool:
        """Asks the filter alone. False: your store does not have the key."""
        return self._sidecar.contains(key)

    def adapt(self, key: Key) -> bool:
        """Reports that your store does not have a key that ``maybe`` answered True.

        ``get`` does this itself. Returns whether the filter has changed.
        """
        return self._sidecar.missed(key)

    def added(self, key: Key) -> bool:
        """Reports a key that your store is about to get. Returns whether it is new.

        If this raises, do not store the key.
        """
        return self._sidecar.added([key]) == 1

    def added_many(self, keys: Iterable[Key]) -> int:
        """``added`` for many keys, with one write per 65,536. Returns how many are new."""
        return _sum_chunks(self._sidecar.added, keys)

    def removed(self, key: Key) -> bool:
        """Reports a key that your store has removed. Returns whether the guard had it."""
        return self._sidecar.removed([key]) == 1

    def removed_many(self, keys: Iterable[Key]) -> int:
        """``removed`` for many keys. Returns how many the guard had."""
        return _sum_chunks(self._sidecar.removed, keys)

    def built(self) -> None:
        """Declares that every key of your store has been reported, for good.

        Call it after you have reported them all, never just because the program starts.
        """
        self._sidecar.built()

    @property
    def is_built(self) -> bool:
        """Whether the guard has all keys. Until then it answers "maybe" to every key."""
        return self._sidecar.is_built()

    def stats(self) -> dict[str, int]:
        """Counts since the guard was opened, and sizes.

        ``queries`` are ``reads_avoided`` plus those that reached your store (``store_reads``);
        ``false_positives`` of these found nothing, and ``adapted`` of them will not repeat.
        ``reads_avoided_by_adapting`` are lookups of earlier false positives.
        """
        return self._sidecar.stats()

    def snapshot(self) -> None:
        """Writes the filter, with its adaptations, to disk. ``close`` does the same."""
        self._sidecar.snapshot()

    def close(self) -> None:
        """Writes a snapshot and closes the directory. A second call does nothing."""
        self._finalizer()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        directory = os.fspath(self._sidecar.directory)
        if self._sidecar.closed:
            return f"<twiceshy.Guard {directory!r}, closed>"
        stats = self.stats()
        built = "" if self.is_built else ", not built: every lookup reaches the store"
        return (
            f"<twiceshy.Guard {directory!r}: {stats['keys']} keys, {stats['reads_avoided']} of "
            f"{stats['queries']} reads avoided{built}>"
        )


class Guarded(Protocol[V_co]):
    """A function behind a guard."""

    guard: Guard[Any]
    """The guard, for ``added``, ``removed``, ``stats`` and ``close``."""

    def __call__(self, key: Any, /) -> V_co: ...


def guard(
    directory: str | os.PathLike[str],
    *,
    keys: Iterable[Key] | Callable[[], Iterable[Key]] | None = None,
    capacity: int = 65_536,
    durability: Literal["power", "process"] = "power",
) -> Callable[[Callable[[Any], V]], Guarded[V]]:
    """Puts a ``Guard`` in front of a lookup function of one key, which may be ``async``.

    Keys that are definitely absent return None at once, and repeated misses never reach the
    function. The arguments are those of ``Guard``; ``function.guard`` is the guard itself.

    >>> import tempfile, twiceshy
    >>> directory = tempfile.TemporaryDirectory()
    >>> @twiceshy.guard(directory.name, keys=["alice"])
    ... def find(name):
    ...     print("looking for", name)
    ...     return {"alice": 1}.get(name)
    >>> find("alice")
    looking for alice
    1
    >>> find("bob")
    >>> find.guard.close(); directory.cleanup()
    """

    def decorate(lookup: Callable[[Any], V]) -> Guarded[V]:
        opened: Guard[Any] = Guard(
            directory, lookup, keys=keys, capacity=capacity, durability=durability
        )
        guarded: Callable[[Any], Any]
        if opened._is_async:

            async def guarded(key: Any, /) -> Any:
                return await opened.aget(key)

        else:

            def guarded(key: Any, /) -> Any:
                return opened.get(key)

        function = cast(Guarded[V], functools.update_wrapper(guarded, lookup))
        function.guard = opened
        return function

    return decorate


def _function(
    lookup: Callable[[Any], Any] | Mapping[Any, Any],
) -> tuple[Callable[[Any], Any], object]:
    """A lookup as a function, and what it returns for an absent key."""
    if isinstance(lookup, Mapping):
        # A mapping may hold None.
        mapping = lookup
        return lambda key: mapping.get(key, _MISSING), _MISSING
    if callable(lookup):
        return lookup, None
    raise TypeError(f"a lookup is a function or a mapping, not {type(lookup).__name__}")


def _is_async(lookup: object) -> bool:
    return inspect.iscoroutinefunction(lookup) or inspect.iscoroutinefunction(
        getattr(lookup, "__call__", None)
    )


def _sum_chunks(report: Callable[[list[Key]], int], keys: Iterable[Key]) -> int:
    keys, total = iter(keys), 0
    while chunk := list(itertools.islice(keys, _CHUNK)):
        total += report(chunk)
    return total
