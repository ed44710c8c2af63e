"""The port of what user code prints."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from noetl.facts.logs import LogChunk, LogFilter, LogRow


class Logs(Protocol):
    """Rows of the `log` table. They are numbered under the lock of their execution, so that the
    order of the numbers is that of the commits: whoever reads on behind a number misses nothing."""

    def add(self, execution_id: str, chunks: Sequence[LogChunk]) -> list[int]:
        """Adds chunks behind the last one; their numbers. Needs the lock."""

    def fold(self, execution_id: str, seqs: Sequence[int], row: LogRow) -> None:
        """Puts `row` in the place of the rows that begin at `seqs`, of which none is the last of
        the execution: chunks are numbered on from that. Needs the lock."""

    def read(self, execution_id: str, where: LogFilter, after: int, limit: int) -> list[LogRow]:
        """At most `limit` rows that begin behind `after`, and before them those that only end
        behind it, in order."""

    def tail(
        self, execution_id: str, where: LogFilter, limit: int, before: int | None = None
    ) -> list[LogRow]:
        """The last rows, in order; with `before`, the last ones that begin before that number."""

    def head(self, execution_id: str) -> int:
        """The number of the last chunk; 0 where there is none."""

    def execution_ids(self, after: str | None, limit: int) -> list[str]:
        """Ids of executions that have a log, in order, behind `after`."""

    def delete(self, execution_id: str) -> int:
        """Removes the rows of an execution; how many there were."""
