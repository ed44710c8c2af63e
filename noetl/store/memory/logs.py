"""What user code prints, in memory: the twin of `output`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from noetl.facts.logs import LogChunk, LogFilter, LogRow
from noetl.store import codec
from noetl.store.memory.tables import MemoryTable
from noetl.store.rules import aware


class MemoryLogs(MemoryTable):
    """`noetl.usecases.ports.Logs`."""

    __slots__ = ()

    def add(self, execution_id: str, chunks: Sequence[LogChunk]) -> list[int]:
        table, first = self._journal.locked.logs, self.head(execution_id) + 1
        for seq, chunk in enumerate(chunks, first):
            aware(chunk.recorded_at)
            self._journal.put(table, (execution_id, seq), LogRow(replace(chunk, seq=seq), seq))
        self._journal.changed.add(execution_id)
        return list(range(first, first + len(chunks)))

    def fold(self, execution_id: str, seqs: Sequence[int], row: LogRow) -> None:
        table = self._journal.locked.logs
        for seq in seqs:
            self._journal.put(table, (execution_id, seq), None)
        self._journal.put(table, (execution_id, row.seq), row)

    def read(self, execution_id: str, where: LogFilter, after: int, limit: int) -> list[LogRow]:
        found = self._found(execution_id, where)
        around = [row for row in found if row.seq <= after < row.last_seq]
        return around + [row for row in found if row.seq > after][:limit]

    def tail(self, execution_id: str, where: LogFilter, limit: int) -> list[LogRow]:
        return self._found(execution_id, where)[-limit:]

    def head(self, execution_id: str) -> int:
        rows = self._journal.tables.logs.group("execution", execution_id)
        return max((row.seq for row in rows), default=0)

    def execution_ids(self, after: str | None, limit: int) -> list[str]:
        ids = {key[0] for key in self._journal.tables.logs.rows}
        last = -1 if after is None else codec.number(after)
        return sorted((one for one in ids if codec.number(one) > last), key=codec.number)[:limit]

    def delete(self, execution_id: str) -> int:
        table = self._journal.locked.logs
        keys = [key for key in table.rows if key[0] == execution_id]
        for key in keys:
            self._journal.put(table, key, None)
        return len(keys)

    def _found(self, execution_id: str, where: LogFilter) -> list[LogRow]:
        rows = self._journal.tables.logs.group("execution", execution_id)
        return sorted((row for row in rows if where.admits(row.chunk.place)), key=lambda row: row.seq)
