"""Values that were loaded lately, bounded by the size of their JSON."""

from __future__ import annotations

import threading
from collections import OrderedDict

from noetl.facts.json import Json


class ResultCache:
    """Least recently used goes first. Values are shared: nobody may change them. Safe for
    threads."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._bytes = 0
        self._entries: OrderedDict[str, tuple[Json, int]] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, name: str) -> tuple[Json, int] | None:
        """The value and its size."""
        with self._lock:
            found = self._entries.get(name)
            if found is not None:
                self._entries.move_to_end(name)
            return found

    def put(self, name: str, value: Json, size: int) -> None:
        """Keeps the value, unless it alone is larger than the cache."""
        if size > self._max_bytes:
            return
        with self._lock:
            if name not in self._entries:
                self._bytes += size
            self._entries[name] = (value, size)
            self._entries.move_to_end(name)
            while self._bytes > self._max_bytes:
                _, (_, dropped) = self._entries.popitem(last=False)
                self._bytes -= dropped
