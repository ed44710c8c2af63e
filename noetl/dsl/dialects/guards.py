"""Guards made of guards. Only what is one expression can be a part of another: `{{ (a) and (b)
}}`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeAlias

from noetl import expressions
from noetl.dsl.dialects.parts import Spot
from noetl.dsl.problems import Code, Path, shown
from noetl.dsl.read.report import ProblemReport
from noetl.errors import TemplateError
from noetl.facts.boundaries import BOUNDARY
from noetl.net.model import Template

#: A guard as it was written, or one that was made.
Guard: TypeAlias = Spot | Template

SUCCEEDED: Final = "{{ outcome.status == 'ok' }}"
FAILED: Final = "{{ outcome.status == 'error' }}"


class Guards:
    """Joins guards. What comes out says where the first of them was written; one that cannot be
    joined is a problem."""

    def __init__(self, report: ProblemReport) -> None:
        self._report = report

    def every(self, *guards: Guard) -> Spot:
        """Holds where all do; no guard (None) always does."""
        return self._join("and", guards, nothing=True)

    def some(self, *guards: Guard) -> Spot:
        """Holds where any does."""
        return self._join("or", guards, nothing=False)

    def no(self, guard: Guard) -> Spot:
        """Holds where `guard` does not."""
        known = _literal(guard)
        return Spot(f"{{{{ not ({self._inside(guard)}) }}}}" if known is None else not known, _path([guard]))

    def _join(self, word: str, guards: Sequence[Guard], *, nothing: bool) -> Spot:
        """`nothing` is what no guard at all means, and what does not count among others."""
        left = [guard for guard in guards if _literal(guard) is not nothing]
        path = _path(left or guards)
        if any(_literal(guard) is not None for guard in left):
            return Spot(not nothing, path)
        if len(left) < 2:
            return Spot(_plain(left[0]) if left else nothing, path)
        return Spot("{{ " + f" {word} ".join(f"({self._inside(guard)})" for guard in left) + " }}", path)

    def _inside(self, guard: Guard) -> str:
        text = _plain(guard)
        found = expressions.inside(text) if isinstance(text, str) else None
        if found is None:
            message = f"the guard {shown(text)} is joined with another one, and is not one expression"
            self._report.add(Code.VALUE, _path([guard]), message, 'write it as one: "{{ a and b }}"')
        return found or "false"


def heads(guard: Guard) -> frozenset[str]:
    """The names that a guard begins its chains with."""
    text = _plain(guard)
    try:
        used = expressions.names_used(text, guard=True) if isinstance(text, str) else frozenset()
    except TemplateError:
        # The compiler reports it where it stands.
        return frozenset()
    return frozenset(chain[0] for chain in used)


def asks_how_it_ended(guard: Guard) -> bool:
    """Whether a guard mentions how the step or task ended: one that does not is for successes
    only."""
    return not BOUNDARY.isdisjoint(heads(guard))


def _plain(guard: Guard) -> Template:
    return guard.value if isinstance(guard, Spot) else guard


def _path(guards: Sequence[Guard]) -> Path:
    return next((guard.path for guard in guards if isinstance(guard, Spot)), ())


def _literal(guard: Guard) -> bool | None:
    known = _plain(guard)
    if known is None:
        return True
    return known if isinstance(known, bool) else None
