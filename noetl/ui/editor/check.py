"""What is wrong with a text, and what a run of it would do. Nothing is run or kept."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from noetl.dsl import Compiled, Problem, compile_playbook
from noetl.errors import NoetlError
from noetl.ui.plans import ShownPlan, make_plan
from noetl.ui.site import Visitor
from noetl.usecases.catalog import UNNAMED

#: Problems that one page shows.
MOST: Final = 200


@dataclass(frozen=True, slots=True)
class Checked:
    """`plan` is None where the text cannot be run; `fault` says why there is no plan of what can
    be."""

    compiled: Compiled
    plan: ShownPlan | None = None
    fault: str = ""

    @property
    def path(self) -> str:
        return "" if self.compiled.net is None else self.compiled.net.path

    @property
    def problems(self) -> tuple[Problem, ...]:
        """The first ones: errors before warnings before notes, each in the order of the text."""
        return (*self.compiled.errors, *self.compiled.warnings, *self.compiled.notes)[:MOST]

    @property
    def more_problems(self) -> int:
        return max(len(self.compiled.problems) - MOST, 0)


def check(visitor: Visitor, text: str) -> Checked:
    """Compiles the text as its registration does, and makes its plan."""
    compiled = compile_playbook(text, file=UNNAMED, kinds=visitor.rt.kinds, parse_sql=True)
    if compiled.net is None:
        return Checked(compiled)
    try:
        return Checked(compiled, make_plan(visitor, compiled.net, {}))
    except NoetlError as error:
        return Checked(compiled, fault=error.message)
