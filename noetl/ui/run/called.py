"""The executions that an execution has called, by page, and those that it comes from and that come
from it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from noetl.facts.events import Parent
from noetl.ui.listing import ShownExecution
from noetl.ui.run.look import RunLook
from noetl.usecases import inspect
from noetl.usecases.inspect import SHOWN_CHILDREN
from noetl.usecases.ports import ExecutionRow

#: Executions of one page.
PAGE: Final = 50


@dataclass(frozen=True, slots=True)
class ShownCall:
    """An execution that was called, and where."""

    shown: ShownExecution
    caller: Parent | None

    @property
    def row(self) -> ExecutionRow:
        return self.shown.row


def count(look: RunLook) -> str:
    """How many there are, as far as a report has them."""
    known = len(look.report.children)
    return f"{SHOWN_CHILDREN}+" if known == SHOWN_CHILDREN else str(known or "")


def gather(look: RunLook) -> Mapping[str, Any]:
    """What `run/called.html` shows."""
    rt, before = look.visitor.rt, look.asked.get("before") or None
    found = inspect.called(rt, look.execution_id, before, PAGE + 1)
    page, now = found[:PAGE], rt.clock()
    return {
        "calls": [ShownCall(ShownExecution.of(one.row, now), one.caller) for one in page],
        "newest": look.here(before=None) if before else "",
        "older": look.here(before=page[-1].row.execution_id) if len(found) > PAGE else "",
        "caller": inspect.caller_of(rt, look.execution_id),
    }
