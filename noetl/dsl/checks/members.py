"""Checks of what stands behind the dot of names that the language gives: `workload.x`, `ctx.x`,
`outcome.x`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, fields
from typing import Final

from noetl.dsl.problems import Code, shown
from noetl.dsl.read.report import DottedNames
from noetl.facts.json import Json
from noetl.facts.nearest import NEARLY_THE_SAME
from noetl.facts.outcome import ErrorInfo

Chain = tuple[str, ...]
#: Code, message, hint.
Fault = tuple[Code, str, str]

_OF_ERRORS: Final = frozenset(field.name for field in fields(ErrorInfo))
#: Of every outcome. A secret that a server has to be asked for may fail as http does.
_OF_OUTCOMES: Final = frozenset({"status", "result", "data", "error", "meta", "http"})
#: What the values that the language itself makes have. Of outcomes, to which foreign tools add what
#: nobody knows, only what is nearly one of these is told.
_FIELDS: Final[Mapping[Chain, Set[str]]] = {
    ("outcome",): _OF_OUTCOMES,
    ("outcome", "error"): _OF_ERRORS,
    ("output", "error"): _OF_ERRORS,
    ("error",): _OF_ERRORS,
    ("event",): frozenset({"name", "step"}),
    ("job",): frozenset({"uuid", "execution_id"}),
}
_DECLARE: Final = "add it to workload: (null where a run gives it)"
_STORES: Final = frozenset({"ctx", "vars"})


@dataclass(frozen=True, slots=True)
class Members:
    """What a playbook gives names to: its `workload`, and the heads of what it assigns to `ctx`."""

    names: DottedNames
    workload: Mapping[str, Json]
    ctx: frozenset[str]

    def faults(self, chain: Chain, sections: Set[str] | None = None) -> Iterator[Fault]:
        """What is wrong behind the dots of `chain`, which begins with a name of the language.
        `sections` are what an outcome has besides what all have, where that is known and the name
        is one there."""
        if len(chain) < 2:
            return
        if chain[0] == "workload":
            yield from self._of_workload(chain, 1)
        elif chain[0] in _STORES:
            yield from self._of_ctx(chain)
        elif sections is not None and chain[1] not in _OF_OUTCOMES | sections:
            near = self._near(chain[1], sorted(_OF_OUTCOMES | sections))
            head, *rest = chain
            yield _undefined(
                chain[:2], near or f"{head} is the whole outcome: write {'.'.join([head, 'data', *rest])}"
            )
        else:
            yield from self._of_values(chain)

    def _near(self, name: str, known: Iterable[str]) -> str:
        return self.names.suggest(name, known, likeness=NEARLY_THE_SAME)

    def within(self, chain: Chain) -> Iterator[Fault]:
        """What is wrong behind the dots of `chain`, which begins with a value of the workload."""
        yield from self._of_workload(chain, 0)

    def _of_workload(self, chain: Chain, head: int) -> Iterator[Fault]:
        """A playbook without a workload says nothing of what it is given; one that has some says it
        all."""
        known: Json = self.workload
        for at, key in enumerate(chain[head:], head):
            if not isinstance(known, Mapping) or not known:
                return
            if key not in known:
                # What a run is given may have more than the defaults, within them.
                top = at == head
                hint = self.names.suggest(key, known, _DECLARE) if top else self._near(key, known)
                if hint:
                    yield _undefined(chain[: at + 1], hint)
                return
            known = known[key]

    def _of_ctx(self, chain: Chain) -> Iterator[Fault]:
        """Others may patch ctx: only what is nearly assigned is told."""
        if chain[1] not in self.ctx and (hint := self._near(chain[1], self.ctx)):
            yield _undefined(chain[:2], hint)

    def _of_values(self, chain: Chain) -> Iterator[Fault]:
        for depth in (1, 2):
            known = _FIELDS.get(chain[:depth])
            if known is None or len(chain) <= depth or chain[depth] in known:
                continue
            if hint := self._near(chain[depth], sorted(known)):
                yield _undefined(chain[: depth + 1], hint)


def _undefined(chain: Chain, hint: str) -> Fault:
    return Code.UNDEFINED, f"nothing defines {shown('.'.join(chain))}", hint
