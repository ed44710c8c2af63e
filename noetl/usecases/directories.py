"""Where relative names of files start, as whoever started an execution said."""

from __future__ import annotations

from pathlib import Path

from noetl.facts.events import Requested
from noetl.usecases.ports import Store, Transaction
from noetl.usecases.runtime import Cache

_KEPT = 1024


class Directories:
    """Looks up the directories of executions: those of the outermost caller. Thread-safe."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._known: Cache[str, tuple[Path, ...]] = Cache(_KEPT)

    def of(self, execution_id: str) -> tuple[Path, ...]:
        """The playbook's directory, then the one in which the command was started; none where
        nobody said."""
        found = self._known.get(execution_id)
        if found is None:
            with self._store.read() as tx:
                found = tuple(map(Path, _read_request(tx, execution_id)))
            self._known.put(execution_id, found)
        return found


def _read_request(tx: Transaction, execution_id: str) -> tuple[str, ...]:
    for event in tx.events.read(execution_id, limit=1, types=(Requested.type,)):
        if isinstance(event.fact, Requested):
            parent = event.fact.parent
            return event.fact.directories if parent is None else _read_request(tx, parent.execution_id)
    return ()
