"""The names that the language defines: where templates see them, and what fields they have."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, fields
from typing import Final

from noetl.dsl.checks.subject import Subject
from noetl.dsl.problems import Code, Path, quote_value
from noetl.dsl.read.report import DottedNames
from noetl.facts.json import Json
from noetl.facts.nearest import NEARLY_THE_SAME
from noetl.facts.outcome import ErrorInfo

#: Tasks stand at most this deep: `workflow[0].tool[0].label`.
_DEEPEST: Final = 5
_OF_ENDS: Final = frozenset({"outcome", "output", "result", "response", "error", "event"})
#: What is there where the rules of a policy are asked, and where the `set` of a task is.
_NOT_IN_RULES: Final = frozenset({"event"})
_NOT_IN_SET: Final = frozenset({"event", "error"})
_RULES: Final = ("spec", "policy", "rules")
_ASSIGN: Final = frozenset({"set", "set_ctx", "set_iter"})

#: Where a router is asked, and the `set` of a step: these know the envelope of the whole step.
_AT_BOUNDARIES: Final = frozenset({"next", "set"})

PlaceFault = tuple[Code, str, str]


def unseen(subject: Subject, name: str, path: Path) -> PlaceFault | None:
    """What is wrong with reading `name`, which nothing else has, in the template at `path`."""
    if name not in _OF_ENDS or name not in _missing(subject, path):
        return None
    later = path[2:3] == ("tool",) and any(isinstance(part, int) and part > 0 for part in path[3:4])
    if name not in ("error", "event") and (later or path[0] == "workbook"):
        return (
            Code.UNNAMED_RESULT,
            f"`{name}` is here how the task before ended",
            "write _prev for its result",
        )
    hint = "steps and tasks are read by their names"
    if name in ("error", "event"):
        hint = "hand it over where it is there: with args of the arc, or set in a rule or arc"
    return Code.UNDEFINED, f"`{name}` is not there yet where this is rendered", hint


def is_in_task(subject: Subject, path: Path) -> bool:
    """Whether the template at `path` is rendered by a task, before each attempt: nothing of what it
    asks for then gets into the log."""
    if path[2:4] == ("loop", "cursor") or path[2:3] == ("retry",) or path[-2:] == ("spec", "timeout"):
        return True
    if (rule := _in_rules(path)) is not None:
        # What a rule assigns is recorded, what it asks for and how long it waits is not.
        return _ASSIGN.isdisjoint(rule)
    rest = _behind_tool(subject, path) if path[:1] == ("workbook",) or path[2:3] == ("tool",) else None
    if rest is None:
        return False
    return rest[:1] not in (("set",), ("repeat",), ("pagination",))


def _in_rules(path: Path) -> Path | None:
    """What of `path` leads on from the rules of a policy."""
    at = next((at for at in range(len(path)) if path[at : at + len(_RULES)] == _RULES), None)
    return None if at is None else path[at + len(_RULES) :]


def _behind_tool(subject: Subject, path: Path) -> Path | None:
    """What of `path` leads on from the mapping of its task."""
    size = next((size for size in range(2, _DEEPEST + 1) if "kind" in subject.raw(path[:size])), None)
    return None if size is None else path[size:]


def _missing(subject: Subject, path: Path) -> Set[str]:
    if path[0] == "workbook":
        # What it is called behind is not known; the envelope has no name that says whose it is
        # wherever that is.
        return _missing_in_task(subject, path) & {"output", "outcome"}
    if path[0] != "workflow":
        return frozenset()
    match path[2:]:
        case ("tool", *_):
            return _missing_in_task(subject, path)
        case (
            ("input" | "args", *_)
            | ("when",)
            | ("loop", "in" | "cursor" | "enough" | "grow" | "close", *_)
            | ("loop", "spec", "max_in_flight")
        ):
            return _OF_ENDS
        case ("spec", "policy", "admit", *_):
            return _OF_ENDS
        case ("spec", "policy", "rules", *_) | ("loop", "spec", "policy", "rules", *_) | ("retry", *_):
            return _NOT_IN_RULES
        case _:
            return frozenset()


def _missing_in_task(subject: Subject, path: Path) -> Set[str]:
    rest = _behind_tool(subject, path)
    if rest is None:
        return frozenset()
    if rest[:1] == ("set",):
        return _NOT_IN_SET
    if rest[:3] == _RULES or rest[:1] == ("retry",):
        return _NOT_IN_RULES
    # What runs once the pipeline has ended, and what is called again, know how that went.
    spec = subject.raw((*path[: len(path) - len(rest)], "spec"))
    return frozenset() if spec.get("after") or rest[:1] in (("repeat",), ("pagination",)) else _OF_ENDS


def is_envelope(name: str, path: Path) -> bool:
    """Whether `name` is how a step or task ended, with its `status`, in the template at `path`:
    `output` is what it yielded in the `set` of a task."""
    if name == "outcome":
        return True
    if name != "output" or path[0] != "workflow":
        return False
    return _in_rules(path) is not None or path[2] in _AT_BOUNDARIES


Chain = tuple[str, ...]
#: Code, message, hint.
Fault = tuple[Code, str, str]

_OF_ERRORS: Final = frozenset(field.name for field in fields(ErrorInfo))
#: Of every outcome. A secret that a server has to be asked for may fail as http does.
_OF_OUTCOMES: Final = frozenset({"status", "result", "data", "error", "meta", "http"})
#: What the values that the language itself makes have. Of outcomes, to which foreign tools add what
#: no one knows, only what is nearly one of these is reported.
_FIELDS: Final[Mapping[Chain, Set[str]]] = {
    ("outcome",): _OF_OUTCOMES,
    ("outcome", "error"): _OF_ERRORS,
    ("output", "error"): _OF_ERRORS,
    ("error",): _OF_ERRORS,
    ("event",): frozenset({"name", "step"}),
    ("job",): frozenset({"uuid", "execution_id"}),
}
_DECLARE: Final = "add it to workload: (null where a run gives it)"
_DECLARE_INPUT: Final = "declare it under inputs:, or write `| default(...)`"
_STORES: Final = frozenset({"ctx", "vars"})


@dataclass(frozen=True, slots=True)
class Members:
    """What a playbook gives names to: its `workload`, and the heads of what it assigns to `ctx`."""

    names: DottedNames
    workload: Mapping[str, Json]
    ctx: frozenset[str]
    #: Whether it declares its inputs: then the workload never has anything else.
    is_declared: bool = False

    def faults(self, chain: Chain, sections: Set[str] | None = None) -> Iterator[Fault]:
        """What is wrong behind the dots of `chain`, which begins with a name of the language.
        `sections` are what an outcome has besides what all have, where that is known and the name
        is one there."""
        if len(chain) < 2:
            return
        if chain[0] == "workload":
            yield from self.of_workload(chain, 1)
        elif chain[0] in _STORES:
            yield from self._of_ctx(chain)
        elif sections is not None and chain[1] not in _OF_OUTCOMES | sections:
            near = self._near(chain[1], sorted(_OF_OUTCOMES | sections))
            head, *rest = chain
            yield _make_fault(
                chain[:2], near or f"{head} is the whole outcome: write {'.'.join([head, 'data', *rest])}"
            )
        else:
            yield from self._of_values(chain)

    def _near(self, name: str, known: Iterable[str]) -> str:
        return self.names.suggest(name, known, likeness=NEARLY_THE_SAME)

    def of_workload(self, chain: Chain, head: int) -> Iterator[Fault]:
        """What is wrong with `chain`, which leads into the workload from `head` on. A playbook
        without a workload says nothing of its payload; one that has some says it all."""
        known: Json = self.workload
        for at, key in enumerate(chain[head:], head):
            if not isinstance(known, Mapping) or not known:
                return
            if key not in known:
                yield from self._missing_key(chain[: at + 1], known, top=at == head)
                return
            known = known[key]

    def _missing_key(self, chain: Chain, known: Mapping[str, Json], *, top: bool) -> Iterator[Fault]:
        if top and self.is_declared:
            name = quote_value(".".join(chain))
            message = f"nothing defines {name}: it is no declared input"
            yield Code.UNDECLARED, message, self.names.suggest(chain[-1], known, _DECLARE_INPUT)
            return
        # What a run is given may have more than the defaults, within them.
        hint = self.names.suggest(chain[-1], known, _DECLARE) if top else self._near(chain[-1], known)
        if hint:
            yield _make_fault(chain, hint)

    def _of_ctx(self, chain: Chain) -> Iterator[Fault]:
        """Clients may patch ctx: only what is nearly assigned is reported."""
        if chain[1] not in self.ctx and (hint := self._near(chain[1], self.ctx)):
            yield _make_fault(chain[:2], hint)

    def _of_values(self, chain: Chain) -> Iterator[Fault]:
        for depth in (1, 2):
            known = _FIELDS.get(chain[:depth])
            if known is None or len(chain) <= depth or chain[depth] in known:
                continue
            if hint := self._near(chain[depth], sorted(known)):
                yield _make_fault(chain[: depth + 1], hint)


def _make_fault(chain: Chain, hint: str) -> Fault:
    return Code.UNDEFINED, f"nothing defines {quote_value('.'.join(chain))}", hint
