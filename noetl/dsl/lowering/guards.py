"""Guards made of guards. Only what is one expression can be a part of another: `{{ (a) and (b) }}`."""

from __future__ import annotations

from noetl import expressions
from noetl.dsl.problems import Code, Path, shown
from noetl.dsl.report import Report
from noetl.net.model import Template


class Guards:
    """Joins guards. Where one cannot be joined there is a problem at `at`, and what comes out means nothing."""

    def __init__(self, report: Report) -> None:
        self._report = report

    def every(self, at: Path, *guards: Template) -> Template:
        """Holds where all do; no guard (None) always does."""
        return self._joined("and", at, guards, nothing=True)

    def some(self, at: Path, *guards: Template) -> Template:
        """Holds where any does."""
        return self._joined("or", at, guards, nothing=False)

    def no(self, at: Path, guard: Template) -> Template:
        """Holds where `guard` does not."""
        known = _literal(guard)
        return f"{{{{ not ({self._inside(at, guard)}) }}}}" if known is None else not known

    def _joined(self, word: str, at: Path, guards: tuple[Template, ...], *, nothing: bool) -> Template:
        """`nothing` is what no guard at all means, and what does not count among others."""
        left = []
        for guard in guards:
            known = _literal(guard)
            if known is None:
                left.append(guard)
            elif known is not nothing:
                return known
        if len(left) < 2:
            return left[0] if left else nothing
        return "{{ " + f" {word} ".join(f"({self._inside(at, guard)})" for guard in left) + " }}"

    def _inside(self, at: Path, guard: Template) -> str:
        found = expressions.inside(guard) if isinstance(guard, str) else None
        if found is None:
            message = f"the guard {shown(guard)} is joined with another one, and is not one expression"
            self._report.add(Code.VALUE, at, message, 'write it as one: "{{ a and b }}"')
        return found or "false"


def heads(guard: Template) -> frozenset[str]:
    """The names that a guard begins its chains with."""
    used = expressions.names_used(guard, guard=True) if isinstance(guard, str) else frozenset()
    return frozenset(chain[0] for chain in used)


def _literal(guard: Template) -> bool | None:
    if guard is None:
        return True
    return guard if isinstance(guard, bool) else None
