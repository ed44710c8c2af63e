"""`result` of nobody in particular, where no result is there yet: that of the step whose arc led
here, or of the task before."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Set
from typing import Any, Final

from noetl import expressions
from noetl.dsl.dialects.canonical.shapes import Tools, arcs_of, at, target_of, targets_in, texts
from noetl.dsl.document.parts import Parts
from noetl.dsl.problems import Code, Path
from noetl.dsl.read.origins import Origins
from noetl.dsl.read.report import ProblemReport
from noetl.errors import TemplateError
from noetl.facts.json import Json
from noetl.net.model import KindInfo

Chain = tuple[str, ...]

_NAMES: Final = ("result", "response")
#: The result in how the task before ended, which has another name besides.
_IN_ENVELOPES: Final = frozenset(
    (name, key) for name in ("output", "outcome") for key in ("data", "result", "response")
)
#: Keys of a task whose templates know how it ended, or are none.
_LATER: Final = frozenset({"set", "spec", "repeat", "pagination", "kind", "name", "label", "desc", "assert"})


def rewrite(
    kinds: Mapping[str, KindInfo], _parts: Parts, data: dict[str, Json], report: ProblemReport
) -> tuple[dict[str, Json], Origins] | None:
    """`data` with what says whose result is meant; None where every result is read by a name of its
    own."""
    found = _Results(kinds, data, report)
    for index, step in enumerate(found.steps):
        found.step(step, ("workflow", index))
    return found.written()


class _Results:
    """What is to be said in a document's data."""

    def __init__(self, kinds: Mapping[str, KindInfo], data: dict[str, Any], report: ProblemReport) -> None:
        self.steps: list[dict[str, Any]] = data.get("workflow") or []
        self._data = data
        self._report = report
        self._tools = Tools(data, kinds)
        self._known = self._defined()
        #: Where an arc stands → the names that it hands over; where a text stands → the text
        #: instead.
        self._handed: dict[Path, set[str]] = {}
        self._texts: dict[Path, str] = {}
        self._told: set[tuple[Path, Chain]] = set()

    def _defined(self) -> set[str]:
        """Which of the names something else in the document gives a value, which wins wherever it
        stands."""
        known = {str(step.get("step")) for step in self.steps} | set(self._data.get("workload") or {})
        known |= set(self._data.get("ctx") or {}) | targets_in(self._data.get("workbook"))
        for step in self.steps:
            known |= targets_in(step) | {str((step.get("loop") or {}).get("iterator"))}
            for arc, _ in arcs_of(step.get("next"), ()):
                if isinstance(arc, dict):
                    known |= {*(arc.get("args") or {}), *(arc.get("input") or {})}
        return known

    def step(self, step: dict[str, Any], path: Path) -> None:
        own = {*(step.get("input") or {}), *(step.get("args") or {})}
        items = list(self._tools.items(step, (*path, "tool")))
        read = list(self._read([(*path, "input"), (*path, "args"), *_of_loop(path)], set()))
        if items and not _is_after(items[0], self._data):
            read += self._read_by_task(items[0], own)
        if read:
            self._hand_over(step, read)
        for tools in items[1:]:
            # Where a task of the workbook is the first one of another step, its text cannot say
            # `_prev`.
            if not _is_after(tools, self._data) and not any(map(self._tools.is_ever_first, tools)):
                for place, chain in self._read_by_task(tools, own, _IN_ENVELOPES):
                    self._of_task_before(place, chain)

    def _read_by_task(
        self, tools: list[Path], own: set[str], envelopes: Set[Chain] = frozenset()
    ) -> Iterator[tuple[Path, Chain]]:
        """What the templates of one task read, which is said at `tools`: a call and what it
        calls."""
        said = {
            key
            for tool in tools
            for group in ("input", "args")
            for key in at(self._data, tool).get(group) or {}
        }
        for tool in tools:
            for part in self._tools.rendered(tool):
                if part[-1] not in _LATER:
                    defined = own if part[-1] in ("input", "args") else own | said
                    yield from self._read([part], defined, envelopes)

    def _read(
        self, places: list[Path], defined: set[str], envelopes: Set[Chain] = frozenset()
    ) -> Iterator[tuple[Path, Chain]]:
        heads = {(name,) for name in _NAMES} | envelopes
        heads = {head for head in heads if head[0] not in self._known | defined}
        for place in places if heads else ():
            for path, text in texts(at(self._data, place), place):
                if any(head[0] in text for head in heads):
                    yield from ((path, chain) for chain in _chains(text) if _head(chain) in heads)

    def _hand_over(self, step: dict[str, Any], read: list[tuple[Path, Chain]]) -> None:
        """Arcs to `step` hand over what it reads."""
        sources = []
        for index, source in enumerate(self.steps):
            for arc, where in arcs_of(source.get("next"), ("workflow", index, "next")):
                if target_of(arc) == step.get("step"):
                    sources.append(str(source.get("step")))
                    self._handed.setdefault(where, set()).update(chain[0] for _, chain in read)
        for place, chain in read if sources else ():
            is_shared = place[0] == "workbook" and not self._tools.is_called_once(place[:-1])
            whose = sources[0] if len(set(sources)) == 1 and not is_shared else "<step>"
            message = f"`{chain[0]}` is here the result of the step whose arc led to {step.get('step')!r}"
            self._tell(place, chain, message, ".".join((whose, *chain[1:])))

    def _of_task_before(self, place: Path, chain: Chain) -> None:
        text = self._texts.get(place, at(self._data, place))
        head = _head(chain)
        self._texts[place] = expressions.renamed(text, head, "_prev")
        message = f"`{'.'.join(head)}` is here the result of the task before"
        self._tell(place, chain, message, ".".join(("_prev", *chain[len(head) :])))

    def _tell(self, place: Path, chain: Chain, message: str, new: str) -> None:
        if (place, chain) in self._told:
            return  # several steps call this task of the workbook
        self._told.add((place, chain))
        self._report.respell(place)
        text = at(self._data, place)
        offset = expressions.place_of_name(text, chain)
        within = None if offset is None else (text, offset)
        self._report.add(Code.UNNAMED_RESULT, place, message, f"write {new}", within=within)

    def written(self) -> tuple[dict[str, Json], Origins] | None:
        """A copy of the data in which that is said."""
        if not self._handed and not self._texts:
            return None
        data: Any = copy.deepcopy(self._data)
        for path, text in self._texts.items():
            at(data, path[:-1])[path[-1]] = text
        origins: dict[Path, Path] = {}
        for path, names in self._handed.items():
            arc = at(data, path)
            if isinstance(arc, str):
                arc = at(data, path[:-1])[path[-1]] = {"step": arc}
                origins[*path, "step"] = path
            handed = {name: f"{{{{ {name} }}}}" for name in sorted(names)}
            origins |= {(*path, "args", name): path for name in handed}
            arc["args"] = {**(arc.get("args") or {}), **handed}
        return data, origins


def _head(chain: Chain) -> Chain:
    """The part of what a template reads that says whose result it is."""
    return chain[:1] if chain[0] in _NAMES else chain[:2]


def _of_loop(path: Path) -> list[Path]:
    return [(*path, "loop", "in"), (*path, "loop", "cursor"), (*path, "loop", "spec", "max_in_flight")]


def _is_after(tools: list[Path], data: Any) -> bool:
    return any(at(data, (*tool, "spec", "after")) for tool in tools)


def _chains(text: str) -> list[Chain]:
    try:
        return sorted(expressions.names_used(text))
    except TemplateError:
        # The compiler reports it where it stands.
        return []
