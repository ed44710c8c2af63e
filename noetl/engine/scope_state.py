"""What is remembered of scopes: runs to undo, regions that were entered, how a step ended all."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from noetl.engine.run_state import RunStatus, SparseValues
from noetl.facts.json import Json, JsonMap
from noetl.facts.outcome import ErrorInfo
from noetl.facts.scopes import EndStatus, HandlerPurpose


@dataclass(frozen=True, slots=True)
class UndoableIteration:
    """An iteration that may have to be undone: how it ended, and at which version."""

    version: int
    index: int
    status: RunStatus


@dataclass(frozen=True, slots=True)
class Undoable:
    """A run that has ended, at `version`, and has done something that may have to be undone. Of a
    loop it is what the iterations that are `left` have done, in the order in which they ended, over
    `items` and what was `added` to them."""

    run_id: str
    step: str
    version: int
    status: RunStatus
    args: JsonMap
    result: Json = None
    error: ErrorInfo | None = None
    items: Json = None
    added: tuple[tuple[int, Json], ...] = ()
    results: SparseValues | None = None
    left: tuple[UndoableIteration, ...] | None = None

    @property
    def latest(self) -> int:
        """The version of the last thing that is left of it."""
        return self.left[-1].version if self.left else self.version


@dataclass(frozen=True, slots=True)
class UndoableCall:
    """An execution that a task called, which had ended well by `version` and undoes itself what it
    has done."""

    run_id: str
    step: str
    iteration: int | None
    task: str
    execution_id: str
    version: int

    @property
    def latest(self) -> int:
        return self.version


@dataclass(frozen=True, slots=True)
class RegionState:
    """The last time that a region was entered: at `version`, for the `number`th time. `unwanted`:
    why it is to be cancelled; `cancelled`: it is, with an `error` where that is a failure. `ran`
    are its handlers that have been run."""

    number: int
    version: int
    is_open: bool = True
    unwanted: str | None = None
    cancelled: str | None = None
    error: ErrorInfo | None = None
    ran: tuple[HandlerPurpose, ...] = ()
    #: How often each step had been done when it was entered.
    done_before: Mapping[str, int] = field(default_factory=dict)

    @property
    def is_leaving(self) -> bool:
        """Whether it is, or is about to be, cancelled."""
        return self.unwanted is not None or self.cancelled is not None


@dataclass(frozen=True, slots=True)
class Termination:
    """A step that has ended the whole execution: with which status, and with which error where that
    is `failed`."""

    step: str
    status: EndStatus
    error: ErrorInfo | None = None
