"""Filters that never make the same mistake twice, alone or in front of a store.

- ``Filter``: an approximate set of keys in memory, about 13 bits per key.
- ``Guard`` and ``@guard``: a filter in front of any lookup function or mapping.
- ``open``: a mapping of bytes on disk behind a filter.
"""

import os as _os

try:
    from twiceshy._twiceshy import VERSION as __version__
    from twiceshy._twiceshy import Filter, forked
except ImportError as _error:
    raise ImportError(
        f"twiceshy cannot be loaded here: {_error}. Its wheels are for CPython 3.11 and newer; for "
        "a free-threaded build of 3.14 or newer, build it from a checkout (it needs Rust): "
        "pip install crates/twiceshy-python"
    ) from _error

from twiceshy._guard import Guard, guard
from twiceshy._store import Store, open

if hasattr(_os, "register_at_fork"):
    _os.register_at_fork(after_in_child=forked)

__all__ = ["Filter", "Guard", "Store", "__version__", "guard", "open"]
