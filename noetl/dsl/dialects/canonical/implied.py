"""What authors from elsewhere leave out: whose `result` is read, and that steps without `next` lead
to `end`."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Set
from typing import Any, Final

from noetl import expressions
from noetl.dsl.dialects.canonical.shapes import Chain, Rewritten, TextRewriting, arcs_of, target_of, texts
from noetl.dsl.dialects.parts import reach
from noetl.dsl.document.base import Parts
from noetl.dsl.problems import Code, Path
from noetl.dsl.read.origins import value_at
from noetl.dsl.read.report import ProblemReport
from noetl.errors import TemplateError
from noetl.facts.json import Json
from noetl.net.model import KindInfo

_END: Final = "end"
_NAMES: Final = ("result", "response")
#: The result in how the task before ended, which has another name besides.
_IN_ENVELOPES: Final = frozenset(
    (name, key) for name in ("output", "outcome") for key in ("data", "result", "response")
)
#: Keys of a task whose templates know how it ended, or that hold no templates.
_LATER: Final = frozenset(
    {"set", "spec", "repeat", "pagination", "retry", "kind", "name", "label", "desc", "assert"}
)


def rewrite_ends(_parts: Parts, data: dict[str, Json], report: ProblemReport) -> Rewritten:
    """`data` with arcs to its step `end`; None where it needs none."""
    steps: list[Any] = data.get("workflow") or []
    names = [step.get("step") for step in steps]
    if names.count(_END) != 1 or value_at(data, ("executor", "spec", "final_step")) == _END:
        return None
    first = value_at(data, ("executor", "spec", "entry_step")) or ("start" if "start" in names else names[0])
    targets = {
        name: [target for arc, _ in arcs_of(step.get("next"), ()) if (target := target_of(arc)) is not None]
        for name, step in zip(names, steps, strict=True)
    }
    if first == _END or any(_END in leading for leading in targets.values()):
        return None
    reached = reach([first], targets)
    last = [i for i, step in enumerate(steps) if names[i] in reached and not step.get("next")]
    if not last:
        return None
    written = copy.deepcopy(data)
    for index in last:
        value_at(written, ("workflow", index))["next"] = _END
    message = "no arc leads to `end`: steps without next do"
    report.add(Code.UNREACHABLE, ("workflow", names.index(_END), "step"), message, "write next: end")
    return written, {("workflow", index, "next"): ("workflow", index) for index in last}


def rewrite_results(
    kinds: Mapping[str, KindInfo], _parts: Parts, data: dict[str, Json], report: ProblemReport
) -> Rewritten:
    """`data` with what says whose `result` is meant, where no result is there yet: that of the step
    whose arc led here, or of the task before. None where every result is read by another name."""
    found = _Results(data, kinds, report)
    for index, step in enumerate(found.steps):
        found.add_step(step, ("workflow", index))
    return found.rewrite()


class _Results(TextRewriting):
    def __init__(self, data: dict[str, Any], kinds: Mapping[str, KindInfo], report: ProblemReport) -> None:
        super().__init__(data, kinds, report)
        self.steps: list[dict[str, Any]] = data.get("workflow") or []
        self._known = self._find_defined()
        #: Where an arc stands → the names that it passes.
        self._handed: dict[Path, set[str]] = {}
        self._reported: set[tuple[Path, Chain]] = set()

    def _find_defined(self) -> set[str]:
        """Which names something else in the document gives a value, which wins wherever it
        stands."""
        known = {str(step.get("step")) for step in self.steps} | set(self.data.get("workload") or {})
        known |= set(self.data.get("ctx") or {}) | _targets_in(self.data.get("workbook"))
        for step in self.steps:
            known |= _targets_in(step) | {str((step.get("loop") or {}).get("iterator"))}
            for arc, _ in arcs_of(step.get("next"), ()):
                if isinstance(arc, dict):
                    # Below `else` nobody has looked at what stands there.
                    given = (arc.get("args"), arc.get("input"))
                    known |= {name for part in given if isinstance(part, dict) for name in part}
        return known

    def add_step(self, step: dict[str, Any], path: Path) -> None:
        own = {*(step.get("input") or {}), *(step.get("args") or {})}
        items = list(self.tasks.items(step, path))
        loop = [(*path, "loop", *keys) for keys in (("in",), ("cursor",), ("spec", "max_in_flight"))]
        read = list(self._find_read([(*path, "input"), (*path, "args"), *loop], set()))
        if items and not self._is_after(items[0]):
            read += self._find_read_by_task(items[0], own)
        if read:
            self._hand_over(step, read)
        for tools in items[1:]:
            # Where a task of the workbook is the first one of another step, its text cannot say
            # `_prev`.
            if not self._is_after(tools) and self.tasks.first.isdisjoint(tools):
                for place, chain in self._find_read_by_task(tools, own, _IN_ENVELOPES):
                    head = _head(chain)
                    self.texts[place] = expressions.rename_chain(self.text(place), head, "_prev")
                    message = f"`{'.'.join(head)}` is here the result of the task before"
                    self._report(place, chain, message, ".".join(("_prev", *chain[len(head) :])))

    def _is_after(self, tools: list[Path]) -> bool:
        return any(value_at(self.data, (*tool, "spec", "after")) for tool in tools)

    def _find_read_by_task(
        self, tools: list[Path], own: set[str], envelopes: Set[Chain] = frozenset()
    ) -> Iterator[tuple[Path, Chain]]:
        """What the templates of one task read, which is said at `tools`: a call and what it
        calls."""
        groups = [value_at(self.data, (*tool, group)) or {} for tool in tools for group in ("input", "args")]
        given = own.union(*groups)
        for tool in tools:
            for part in self.tasks.rendered_parts(tool):
                if part[-1] not in _LATER:
                    defined = own if part[-1] in ("input", "args") else given
                    yield from self._find_read([part], defined, envelopes)

    def _find_read(
        self, places: list[Path], defined: set[str], envelopes: Set[Chain] = frozenset()
    ) -> Iterator[tuple[Path, Chain]]:
        heads = {(name,) for name in _NAMES} | envelopes
        heads = {head for head in heads if head[0] not in self._known | defined}
        for place in places if heads else ():
            for path, text in texts(value_at(self.data, place), place):
                if any(head[0] in text for head in heads):
                    yield from ((path, chain) for chain in _chains(text) if _head(chain) in heads)

    def _hand_over(self, step: dict[str, Any], read: list[tuple[Path, Chain]]) -> None:
        """Arcs to `step` pass what it reads."""
        sources = []
        for index, source in enumerate(self.steps):
            for arc, where in arcs_of(source.get("next"), ("workflow", index, "next")):
                if target_of(arc) == step.get("step"):
                    sources.append(str(source.get("step")))
                    self._handed.setdefault(where, set()).update(chain[0] for _, chain in read)
        for place, chain in read if sources else ():
            is_shared = place[0] == "workbook" and self.tasks.calls[place[:-1]] != 1
            whose = sources[0] if len(set(sources)) == 1 and not is_shared else "<step>"
            message = f"`{chain[0]}` is here the result of the step whose arc led to {step.get('step')!r}"
            self._report(place, chain, message, ".".join((whose, *chain[1:])))

    def _report(self, place: Path, chain: Chain, message: str, new: str) -> None:
        # Several steps may call a task of the workbook.
        if (place, chain) not in self._reported:
            self._reported.add((place, chain))
            self.report.respell(place)
            self.warn(Code.UNNAMED_RESULT, place, message, chain, new, guard=False)

    def rewrite(self) -> Rewritten:
        """A copy of the data in which that is said."""
        if not self._handed and not self.texts:
            return None
        data = self.copy()
        origins: dict[Path, Path] = {}
        for path, names in self._handed.items():
            arc = value_at(data, path)
            if isinstance(arc, str):
                arc = value_at(data, path[:-1])[path[-1]] = {"step": arc}
                origins[*path, "step"] = path
            if not isinstance(args := arc.get("args") or {}, dict):
                continue
            handed = {name: f"{{{{ {name} }}}}" for name in sorted(names)}
            origins |= {(*path, "args", name): path for name in handed}
            arc["args"] = {**args, **handed}
        return data, origins


def _targets_in(value: Any) -> set[str]:
    """The names that `set` assigns at and below `value`, of ctx or plain: `total` of
    `ctx.total.x`."""
    match value:
        case dict():
            found = set[str]().union(*map(_targets_in, value.values()))
            assigned = value.get("set")
            names = assigned if isinstance(assigned, dict) else ()
            plain = (name.removeprefix("ctx.").removeprefix("vars.") for name in names)
            return found.union(name.partition(".")[0] for name in plain)
        case list():
            return set[str]().union(*map(_targets_in, value))
        case _:
            return set()


def _head(chain: Chain) -> Chain:
    """The part of what a template reads that says whose result it is."""
    return chain[:1] if chain[0] in _NAMES else chain[:2]


def _chains(text: str) -> list[Chain]:
    try:
        return sorted(expressions.names_used(text))
    except TemplateError:
        # The compiler reports it where it stands.
        return []
