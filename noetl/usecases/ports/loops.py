"""The port of the loops that are under way."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from noetl.facts.json import Json


@dataclass(frozen=True, slots=True)
class LoopRow:
    """The hand-out of a loop's indices: lanes take from `next_index` while `open`.

    `count` is how many items the loop has: where a cursor finds them, so far.
    """

    execution_id: str
    run_id: str
    generation: int
    next_index: int
    count: int
    open: bool
    #: The collection: a list, or the reference that stands for it.
    items: Json = None
    #: For a later generation: the indices that are still to be run (`next_index` counts within it).
    indices: tuple[int, ...] | None = None

    @property
    def size(self) -> int:
        """How many indices there are to hand out."""
        return self.count if self.indices is None else len(self.indices)


class Loops(Protocol):
    """The hand-out of the indices of loops."""

    def save(self, row: LoopRow) -> None:
        """Creates the row, or replaces it by a later generation."""

    def get(self, execution_id: str, run_id: str) -> LoopRow | None: ...

    def take(self, execution_id: str, run_id: str, generation: int, count: int) -> tuple[int, ...]:
        """The next indices, at most `count`; none where the loop is closed or of another
        generation."""

    def extend(self, execution_id: str, run_id: str, generation: int, more: int) -> LoopRow:
        """Adds so many items, and their indices to those that are still to be handed out; also to a
        loop that is closed. The row as it is then. Raises Conflict where the loop is not of that
        generation."""

    def close(self, execution_id: str, run_id: str) -> None: ...

    def close_all(self, execution_id: str) -> None: ...

    def left_behind(self, limit: int) -> list[str]:
        """Ids of executions that have ended, of which no command is open, and that have rows still,
        ascending."""

    def delete_of(self, execution_id: str) -> None: ...
