"""What somebody looks at on the page of an execution: all of it stands in the address."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Final, Self
from urllib.parse import quote, urlencode

from flask import request

from noetl.engine.state import State
from noetl.facts.json import JsonMap
from noetl.ui.asked import read_number
from noetl.ui.site import ROWS_KNOWN, Visitor, here
from noetl.usecases import inspect, moment
from noetl.usecases.ports import ExecutionRow

#: Fields of the address that lead to another place of the page; what filters the content of one tab
#: is left behind with it.
_PLACES: Final = ("tab", "at", "step", "run", "iteration", "unrun")


@dataclass(frozen=True)
class RunLook:
    """One execution, as one visitor looks at it: in the tab of that name (empty: the first one), as
    of version `at` (None: as it is now), with the step, the run of it (`load#2`) and the iteration
    that were opened."""

    visitor: Visitor
    row: ExecutionRow
    tab: str = ""
    at: int | None = None
    step: str | None = None
    run: str | None = None
    iteration: int | None = None
    #: How many rows of its log a page has that looks again.
    known: int | None = None
    #: Everything that stands in the address, what only one tab understands included.
    asked: JsonMap = field(default_factory=dict)

    @classmethod
    def read(cls, execution_id: str) -> Self:
        """As the current request asks. Raises NotFound, and BadRequest for a version or an
        iteration that is none."""
        visitor, asked = here().find_visitor(), request.args.to_dict()
        row = inspect.execution(visitor.rt, execution_id)
        at = read_number(asked, "at")
        moment.check_version(row, at)
        texts = {name: asked.get(name) or None for name in ("step", "run")}
        iteration = read_number(asked, "iteration")
        known = read_number({ROWS_KNOWN: request.headers.get(ROWS_KNOWN)}, ROWS_KNOWN)
        return cls(
            visitor, row, asked.get("tab", ""), at, **texts, iteration=iteration, known=known, asked=asked
        )

    @cached_property
    def report(self) -> inspect.Report:
        """What is said of it as a whole, as it is now; references are left as they are."""
        return inspect.report(self.visitor.rt, self.row.execution_id, resolve=False)

    @cached_property
    def state(self) -> State:
        """What was true at the version that is shown."""
        return inspect.state_at(self.visitor.rt, self.row.execution_id, self.at)

    @property
    def execution_id(self) -> str:
        return self.row.execution_id

    @property
    def version(self) -> int:
        """The version that is shown."""
        return self.row.head_version if self.at is None else self.at

    @property
    def is_over(self) -> bool:
        """Whether nothing of it changes any more."""
        return self.row.is_over and not self.row.waits_for_retry

    @property
    def goes_on(self) -> bool:
        """Whether what is shown may change by itself: not what was true once."""
        return self.at is None and not self.is_over

    def number(self, name: str) -> int | None:
        """What a field of the address says that is a number. Raises BadRequest where it is none."""
        return read_number(self.asked, name)

    def to(self, **changes: str | int | None) -> str:
        """The address of this page with other places than those that are looked at; None leaves a
        field out."""
        places = {name: self.asked.get(name) for name in _PLACES}
        return self._address({**places, **changes})

    def here(self, **changes: str | int | None) -> str:
        """The address of what is looked at, filters of the tab included, but for `changes`."""
        return self._address({**self.asked, **changes})

    def _address(self, fields: JsonMap) -> str:
        given = {name: value for name, value in fields.items() if value not in (None, "")}
        return f"/executions/{quote(self.execution_id)}" + (f"?{urlencode(given)}" if given else "")
