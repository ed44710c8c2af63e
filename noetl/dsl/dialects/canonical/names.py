"""Names that authors from elsewhere read, and what they mean: `output.response`, `input.x` in the
workload, `iter.x` in a step without a loop, the step's own name in its rules."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from noetl import expressions
from noetl.dsl.dialects.canonical.shapes import Tools, at, rules_in, texts
from noetl.dsl.document.parts import Parts
from noetl.dsl.problems import Code, Path, shown
from noetl.dsl.read.origins import Origins
from noetl.dsl.read.report import ProblemReport
from noetl.errors import TemplateError
from noetl.facts.json import Json
from noetl.net.model import KindInfo

Chain = tuple[str, ...]
#: What a chain that a template reads is renamed to: the part of it that goes, and what comes; None:
#: it stays.
Renames = Callable[[Chain], tuple[Chain, str] | None]

_INPUTS: Final = frozenset({"input", "args"})
_OF_ITERATIONS: Final = frozenset({"index", "parent"})
#: Names that steps cannot be read by.
_TAKEN: Final = frozenset(
    {"outcome", "output", "result", "response", "error", "event", "step", "iter", "ctx"}
)


def rewrite(
    kinds: Mapping[str, KindInfo], _parts: Parts, data: dict[str, Json], report: ProblemReport
) -> tuple[dict[str, Json], Origins] | None:
    """`data` with the names that it means; None where there is nothing to rename."""
    renaming = _Renaming(data, report, kinds)
    renaming.workload()
    for path in rules_in(data, ()):
        renaming.rename(path, _response_of({"outcome", "output"}))
    for index, step in enumerate(data.get("workflow") or []):
        renaming.step(step, ("workflow", index))
    return renaming.result()


def _response_of(names: set[str]) -> Renames:
    """`output.response` is `output.data`."""

    def renames(chain: Chain) -> tuple[Chain, str] | None:
        known = len(chain) > 1 and chain[0] in names and chain[1] == "response"
        return (chain[:2], f"{chain[0]}.data") if known else None

    return renames


@dataclass(frozen=True, slots=True)
class _Told:
    """The warning of a name that was renamed; `{old}` and `{new}` stand for the two."""

    code: Code
    message: str


class _Renaming:
    """What is to be renamed in a document's data."""

    def __init__(self, data: dict[str, Any], report: ProblemReport, kinds: Mapping[str, KindInfo]) -> None:
        self._data = data
        self._report = report
        self._tools = Tools(data, kinds)
        #: Where a text stands → the text instead; where targets stand → old target → new one.
        self._texts: dict[Path, str] = {}
        self._targets: dict[Path, dict[str, str]] = {}

    def result(self) -> tuple[dict[str, Json], Origins] | None:
        """A copy of the data with other names, and where its parts came from; None where nothing
        was renamed."""
        if not self._texts and not self._targets:
            return None
        written = copy.deepcopy(self._data)
        for path, text in self._texts.items():
            at(written, path[:-1])[path[-1]] = text
        origins: dict[Path, Path] = {}
        for path, found in self._targets.items():
            targets = at(written, path)
            items = [(found.get(key, key), value) for key, value in targets.items()]
            targets.clear()
            targets.update(items)
            origins |= {(*path, new): (*path, old) for old, new in found.items()}
        return written, origins

    def workload(self) -> None:
        """`input.x` of the workload is `payload.x`, unless a value is called so."""
        workload = self._data.get("workload") or {}
        names = _INPUTS - workload.keys()
        self.rename(("workload",), lambda chain: (chain[:1], "payload") if chain[0] in names else None)

    def step(self, step: dict[str, Any], path: Path) -> None:
        for key in ("set", "next"):
            self.rename((*path, key), _response_of({"outcome", "output"}))
        for place in self._tools.of_step(step, (*path, "tool")):
            self.rename((*place, "set"), _response_of({"outcome"}))
        if step.get("loop") is None:
            if step.get("iteration") is None:
                self._iteration(step, path)
            self._own_name(step, path)

    def _iteration(self, step: dict[str, Any], path: Path) -> None:
        """`iter.x`, which a task assigns, is `step.x`."""
        name = step.get("step")
        told = _Told(Code.OUTSIDE_OF_LOOP, f"step {shown(name)} has no loop: {{old}} is {{new}} here")
        tools = [
            place
            for place in self._tools.of_step(step, (*path, "tool"))
            if self._tools.only_without_loops(place) and at(self._data, place).get("loop") is None
        ]
        targets = [place for tool in tools for place in self._targets_of(tool)]
        targets += [
            place for rules in rules_in(step.get("spec"), (*path, "spec")) for place in self._sets(rules)
        ]
        assigned: set[str] = set()
        for place in targets:
            assigned |= self._retarget(place, told)
        if not assigned:
            return

        def renames(chain: Chain) -> tuple[Chain, str] | None:
            known = chain[0] == "iter" and len(chain) > 1 and chain[1] in assigned
            return (chain[:2], f"step.{chain[1]}") if known else None

        rest = [(*path, key) for key in step if key not in ("tool", "step", "desc")]
        for place in [*rest, *(part for tool in tools for part in self._tools.rendered(tool))]:
            self.rename(place, renames, told)

    def _targets_of(self, tool: Path) -> Iterator[Path]:
        """The mappings that assign in the task at `tool`: its `set`, and those of its rules."""
        yield (*tool, "set")
        for rules in rules_in(at(self._data, tool), tool):
            yield from self._sets(rules)

    def _sets(self, rules: Path) -> Iterator[Path]:
        found = [(at(self._data, rules) or [], rules)]
        while found:
            value, path = found.pop()
            items = value.items() if isinstance(value, dict) else enumerate(value)
            for key, one in items:
                if key == "set" and isinstance(one, dict):
                    yield (*path, key)
                elif isinstance(one, dict | list):
                    found.append((one, (*path, key)))

    def _retarget(self, path: Path, told: _Told) -> set[str]:
        """Makes `iter.x` of the targets at `path` `step.x`; the names."""
        targets = at(self._data, path)
        if not isinstance(targets, dict):
            return set()
        found = {
            key: f"step.{key[5:]}"
            for key in targets
            if key.startswith("iter.") and key[5:].partition(".")[0] not in _OF_ITERATIONS
        }
        for old, new in found.items():
            self._tell((*path, old), told, old, new, at_key=True)
        if found:
            self._targets[path] = found
        return {new[5:].partition(".")[0] for new in found.values()}

    def _own_name(self, step: dict[str, Any], path: Path) -> None:
        """In the rules and the `set` of the only task the name of the step is the result that is
        judged."""
        name, tools = str(step.get("step")), list(self._tools.of_step(step, (*path, "tool")))
        if name in _TAKEN or not self._tools.is_one_task(step.get("tool")) or not tools:
            return
        said = [step, *(at(self._data, tool) for tool in tools)]
        defined = {
            key for part in said for group in ("input", "args", "set") for key in part.get(group) or {}
        }
        if name in defined or any(part.get("loop") is not None for part in said):
            return
        told = _Told(
            Code.UNNAMED_RESULT,
            f"step {shown(name)} has not ended here: {{old}} is {{new}}, the result that is judged",
        )
        own = [tool for tool in tools if self._tools.is_called_once(tool)]
        rules = list(rules_in(step.get("spec"), (*path, "spec")))
        for tool in own:
            rules += rules_in(at(self._data, tool), tool)
            self.rename((*tool, "set"), _renames_own(name, "output"), told)
        for place in rules:
            self.rename(place, _renames_own(name, "output.data"), told)

    def rename(self, path: Path, renames: Renames, told: _Told | None = None) -> None:
        """Renames what the texts at and below `path` read."""
        for place, written in texts(at(self._data, path), path):
            text = self._texts.get(place, written)
            new = self._renamed(place, text, renames, told, guard=place[-1] == "when")
            if new != text:
                self._texts[place] = new

    def _renamed(self, place: Path, text: str, renames: Renames, told: _Told | None, *, guard: bool) -> str:
        try:
            chains = expressions.names_used(text, guard=guard)
        except TemplateError:
            # The compiler reports it where it stands.
            return text
        found = {one for chain in chains if (one := renames(chain)) is not None}
        for old, new in sorted(found):
            alike = sorted(chain for chain in chains if chain[: len(old)] == old)
            written = expressions.renamed(text, old, new, guard=guard)
            if written != text and all(map(renames, alike)):
                rest = alike[0][len(old) :]
                self._tell(place, told, ".".join(alike[0]), ".".join((new, *rest)), guard=guard)
                text = written
        return text

    def _tell(
        self,
        place: Path,
        told: _Told | None,
        old: str,
        new: str,
        *,
        guard: bool = False,
        at_key: bool = False,
    ) -> None:
        self._report.respell(place)
        if told is None:
            return
        message = told.message.format(old=old, new=new)
        text = at(self._data, place)
        offset = None if at_key else expressions.place_of_name(text, tuple(old.split(".")), guard=guard)
        within = None if offset is None else (text, offset)
        self._report.add(told.code, place, message, f"write {new}", within=within, at_key=at_key)


def _renames_own(name: str, new: str) -> Renames:
    def renames(chain: Chain) -> tuple[Chain, str] | None:
        # Those of the tasks are results of an earlier run.
        return (chain[:1], new) if chain[0] == name and chain[1:2] != ("results",) else None

    return renames
