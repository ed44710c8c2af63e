"""The table of snapshots."""

from __future__ import annotations

from typing import Any

from sqlalchemy import bindparam, select
from sqlalchemy.dialects import postgresql, sqlite

from noetl.store import codec
from noetl.store.schema import snapshot
from noetl.store.table import SqlTable
from noetl.usecases.ports import Snapshot

_s = snapshot.c


_snapshot = select(_s.version, _s.schema, _s.state).where(_s.execution_id == bindparam("id"))


def _save_snapshot(dialect: Any) -> Any:
    insert = dialect.insert(snapshot)
    newer = {name: insert.excluded[name] for name in ("version", "schema", "state")}
    return insert.on_conflict_do_update(
        index_elements=[_s.execution_id], set_=newer, where=_s.version <= insert.excluded.version
    )


_snapshots = {"postgresql": _save_snapshot(postgresql), "sqlite": _save_snapshot(sqlite)}


class SqlSnapshots(SqlTable):
    """`noetl.usecases.ports.Snapshots`."""

    __slots__ = ()

    def save(self, snapshot: Snapshot) -> None:
        """One that is older than what is kept is dropped."""
        values = {
            "execution_id": codec.number(snapshot.execution_id),
            "version": snapshot.version,
            "schema": snapshot.schema,
            "state": codec.dumps(snapshot.state, "snapshot"),
        }
        self._session.write(_snapshots[self._session.dialect], values)

    def get(self, execution_id: str) -> Snapshot | None:
        found = self._session.read(_snapshot, {"id": codec.number(execution_id)}).first()
        if found is None:
            return None
        version, schema, state = found
        return Snapshot(execution_id, version, schema, codec.loads(state))
