"""``open``: a mapping of bytes on disk behind a filter."""

import itertools
import os
import weakref
from collections.abc import ItemsView, Iterable, Iterator, Mapping, MutableMapping, ValuesView
from types import TracebackType
from typing import Any, Literal, Self, TypeVar, overload

from twiceshy._twiceshy import Store as _Store

__all__ = ["Store", "open"]

Bytes = bytes | str | bytearray | memoryview

#: Records that are read or written at once.
_CHUNK = 1 << 10

D = TypeVar("D")


def open(
    directory: str | os.PathLike[str],
    *,
    capacity: int = 65_536,
    durability: Literal["power", "process"] = "power",
) -> "Store":
    """Opens a store, or makes an empty one.

    >>> import tempfile, twiceshy
    >>> directory = tempfile.TemporaryDirectory()
    >>> with twiceshy.open(directory.name) as users:
    ...     users[b"alice"] = b"1 Main Street"
    ...     users.get(b"bob")                      # definitely absent: no disk read
    >>> with twiceshy.open(directory.name) as users:
    ...     users["alice"]                         # a str is its UTF-8
    b'1 Main Street'
    >>> directory.cleanup()

    :param directory: It is made if there is none. Only one process at a time can have it open.
    :param capacity: Keys to make room for. The store grows with its keys.
    :param durability: ``"power"``: a write survives a loss of power, and waits for the disk: use
        ``update`` for many records. ``"process"``: it survives the death of the process.
    """
    return Store(directory, capacity=capacity, durability=durability)


class Store(MutableMapping[bytes, bytes]):
    """A mapping of bytes on disk behind a filter; see ``open``.

    Misses are answered from memory, and nothing acknowledged is lost when the process dies. The
    order of its keys is that of their hashes. All threads can share a store.
    """

    def __init__(
        self,
        directory: str | os.PathLike[str],
        *,
        capacity: int = 65_536,
        durability: Literal["power", "process"] = "power",
    ) -> None:
        # The program may change its working directory before the snapshot is written.
        self._store = _Store(os.path.abspath(directory), capacity, durability)
        # Also when the interpreter exits, so that the next start needs no rebuild.
        self._finalizer = weakref.finalize(self, self._store.close)

    def __getitem__(self, key: Bytes) -> bytes:
        value = self._store.get(key)
        if value is None:
            raise KeyError(key)
        return value

    # The mixin's would catch KeyError, which takes longer.
    @overload
    def get(self, key: Bytes, default: None = None) -> bytes | None: ...
    @overload
    def get(self, key: Bytes, default: bytes) -> bytes: ...
    @overload
    def get(self, key: Bytes, default: D) -> bytes | D: ...
    def get(self, key: Bytes, default: Any = None) -> Any:
        """The value of a key, or ``default``."""
        value = self._store.get(key)
        return default if value is None else value

    def __contains__(self, key: object) -> bool:
        """Whether a key is stored; this is exact."""
        return self._store.exists(key)

    def __setitem__(self, key: Bytes, value: Bytes) -> None:
        self._store.put([(key, value)])

    def __delitem__(self, key: Bytes) -> None:
        if not self._store.remove([key]):
            raise KeyError(key)

    def __len__(self) -> int:
        return self._store.count()

    def __iter__(self) -> Iterator[bytes]:
        return (key for key, _ in self._records())

    def items(self) -> ItemsView[bytes, bytes]:
        """The records. What is stored or removed while you iterate may be seen or not."""
        return _Items(self)

    def values(self) -> ValuesView[bytes]:
        """The values."""
        return _Values(self)

    def update(  # type: ignore[override]
        self, records: Mapping[Any, Bytes] | Iterable[tuple[Bytes, Bytes]] = (), /, **more: Bytes
    ) -> None:
        """Stores many records, with one write per 1,024."""
        pairs = records.items() if isinstance(records, Mapping) else records
        all_pairs = itertools.chain(pairs, more.items())
        while chunk := list(itertools.islice(all_pairs, _CHUNK)):
            self._store.put(chunk)

    def clear(self) -> None:
        """Removes everything."""
        keys = iter(list(self))
        while chunk := list(itertools.islice(keys, _CHUNK)):
            self._store.remove(list(chunk))

    def _records(self) -> Iterator[tuple[bytes, bytes]]:
        parts = len(self) // _CHUNK + 1
        for part in range(parts):
            yield from self._store.records(part, parts)

    def backup(self, to: str | os.PathLike[str]) -> int:
        """Copies the store, as of one moment, to a new directory. Returns the number of records."""
        return self._store.backup(to)

    def stats(self) -> dict[str, int]:
        """Counts since the store was opened, and sizes; see ``Guard.stats``."""
        return self._store.stats()

    def snapshot(self) -> None:
        """Writes the filter, with its adaptations, to disk. ``close`` does the same."""
        self._store.snapshot()

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
        directory = os.fspath(self._store.directory)
        if self._store.closed:
            return f"<twiceshy.Store {directory!r}, closed>"
        return f"<twiceshy.Store {directory!r}: {len(self)} records>"


class _Items(ItemsView[bytes, bytes]):
    _mapping: Store

    def __iter__(self) -> Iterator[tuple[bytes, bytes]]:
        return self._mapping._records()


class _Values(ValuesView[bytes]):
    _mapping: Store

    def __iter__(self) -> Iterator[bytes]:
        return (value for _, value in self._mapping._records())
