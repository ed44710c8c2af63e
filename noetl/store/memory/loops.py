"""Loops in memory."""

from __future__ import annotations

from dataclasses import replace

from noetl.store import codec
from noetl.store.memory.tables import MemoryTable
from noetl.store.rules import missing, not_later, not_of_generation
from noetl.usecases.ports import LoopRow


class MemoryLoops(MemoryTable):
    """`noetl.usecases.ports.Loops`."""

    __slots__ = ()

    def save(self, row: LoopRow) -> None:
        """Raises Conflict where the generation is not a later one."""
        tables, key = self._journal.locked, (row.execution_id, row.run_id)
        before = tables.loops.rows.get(key)
        if row.execution_id not in tables.executions.rows:
            raise self._journal.fail(missing(row.execution_id))
        if before is not None and before.generation >= row.generation:
            raise self._journal.fail(not_later(row))
        self._journal.put(tables.items, key, codec.dumps(row.items, "collection"))
        self._journal.put(tables.loops, key, replace(row, items=None))

    def get(self, execution_id: str, run_id: str) -> LoopRow | None:
        tables, key = self._journal.tables, (execution_id, run_id)
        row = tables.loops.rows.get(key)
        return None if row is None else replace(row, items=codec.loads(tables.items.rows[key]))

    def take(self, execution_id: str, run_id: str, generation: int, count: int) -> tuple[int, ...]:
        row = self._journal.locked.loops.rows.get((execution_id, run_id))
        if row is None or not row.open or row.generation != generation or count < 1:
            return ()
        indices = range(row.count) if row.indices is None else row.indices
        taken = tuple(indices[row.next_index : row.next_index + count])
        if taken:
            self._put_loop(replace(row, next_index=row.next_index + len(taken)))
        return taken

    def extend(self, execution_id: str, run_id: str, generation: int, more: int) -> LoopRow:
        self._journal.locked  # noqa: B018 - refuses readers
        row = self.get(execution_id, run_id)
        if row is None or row.generation != generation:
            raise self._journal.fail(not_of_generation(execution_id, run_id, generation))
        count = row.count + more
        indices = None if row.indices is None else (*row.indices, *range(row.count, count))
        self._put_loop(replace(row, count=count, indices=indices, items=None))
        return replace(row, count=count, indices=indices)

    def close(self, execution_id: str, run_id: str) -> None:
        row = self._journal.locked.loops.rows.get((execution_id, run_id))
        if row is not None:
            self._put_loop(replace(row, open=False))

    def close_all(self, execution_id: str) -> None:
        for row in list(self._journal.locked.loops.group("execution", execution_id)):
            self._put_loop(replace(row, open=False))

    def _put_loop(self, row: LoopRow) -> None:
        self._journal.put(self._journal.tables.loops, (row.execution_id, row.run_id), row)
