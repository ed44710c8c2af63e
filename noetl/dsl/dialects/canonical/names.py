"""Names that authors from elsewhere read, and what they mean: `output.response`, `input.x` in the
workload, `inputs.x`, `iter.x` in a step without a loop, the step's own name in its rules."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from noetl import expressions
from noetl.dsl.dialects.canonical.shapes import (
    Chain,
    Rewritten,
    TextRewriting,
    rules_in,
    sets_in,
    texts,
)
from noetl.dsl.document.base import Parts
from noetl.dsl.problems import Code, Path, quote_value
from noetl.dsl.read.origins import value_at
from noetl.dsl.read.report import ProblemReport
from noetl.errors import TemplateError
from noetl.facts.json import Json
from noetl.net.model import KindInfo

#: What chains begin with that templates read → what they begin with instead; where that is empty,
#: they stay.
Renames: TypeAlias = Mapping[Chain, str]

_RESPONSE_OF_RULES: Final[Renames] = {
    ("outcome", "response"): "outcome.data",
    ("output", "response"): "output.data",
}
_RESPONSE_OF_TASKS: Final[Renames] = {("outcome", "response"): "outcome.data"}
_INPUTS: Final = frozenset({"input", "args"})
_OF_ITERATIONS: Final = frozenset({"index", "parent"})
#: Root keys whose templates are rendered before the first step.
_BEFORE_STEPS: Final = ("inputs", "workload", "ctx", "keychain", "key")
#: Names that steps cannot be read by.
_TAKEN: Final = frozenset(
    {"outcome", "output", "result", "response", "error", "event", "step", "iter", "ctx"}
)


def rewrite(
    kinds: Mapping[str, KindInfo], _parts: Parts, data: dict[str, Json], report: ProblemReport
) -> Rewritten:
    """`data` with the names that it means; None where there is nothing to rename."""
    renaming = _Renaming(data, kinds, report)
    # In the workload, unless a value is called so.
    names = _INPUTS - (renaming.data.get("workload") or {}).keys()
    renaming.rename(("workload",), {(name,): "payload" for name in names})
    renaming.rename_declared()
    for path in rules_in(data, ()):
        renaming.rename(path, _RESPONSE_OF_RULES)
    for index, step in enumerate(renaming.data.get("workflow") or []):
        renaming.rename_in_step(step, ("workflow", index))
    return renaming.rewrite()


@dataclass(frozen=True, slots=True)
class _Warning:
    """The warning of a name that was renamed: what it is about, and what is said behind the two
    names."""

    code: Code
    about: str
    rest: str

    def say(self, old: str, new: str) -> str:
        """The whole sentence."""
        return f"{self.about}: {old} is {new}{self.rest}"


class _Renaming(TextRewriting):
    def __init__(self, data: dict[str, Any], kinds: Mapping[str, KindInfo], report: ProblemReport) -> None:
        super().__init__(data, kinds, report)
        #: Where targets stand → old target → new one.
        self._targets: dict[Path, dict[str, str]] = {}

    def rewrite(self) -> Rewritten:
        """A copy of the data with other names, and where its parts came from; None where nothing
        was renamed."""
        if not self.texts and not self._targets:
            return None
        written = self.copy()
        origins: dict[Path, Path] = {}
        for path, found in self._targets.items():
            targets = value_at(written, path)
            items = [(found.get(key, key), value) for key, value in targets.items()]
            targets.clear()
            targets.update(items)
            origins |= {(*path, new): (*path, old) for old, new in found.items()}
        return written, origins

    def rename_declared(self) -> None:
        """`inputs.x` of an input that is declared is `workload.x`, unless something else is called
        `inputs`."""
        names = _names_of(self.data.get("inputs"))
        steps = self.data.get("workflow") or []
        rest = {key: value for key, value in self.data.items() if key != "inputs"}
        if not names or _has_key(rest, "inputs") or any(step.get("step") == "inputs" for step in steps):
            return
        places: list[Path] = [(key,) for key in _BEFORE_STEPS if key in self.data]
        for index, step in enumerate(steps):
            path: Path = ("workflow", index)
            places += self._find_rendered(step, path, self.tasks.of_step(step, path))
        for place in places:
            self.rename(place, {("inputs", name): f"workload.{name}" for name in names})

    def _find_rendered(self, step: dict[str, Any], path: Path, tools: list[Path]) -> list[Path]:
        """What of a step may hold templates, and of `tools` of it."""
        own: list[Path] = [(*path, key) for key in step if key not in ("tool", "step", "desc")]
        return [*own, *(part for tool in tools for part in self.tasks.rendered_parts(tool))]

    def rename_in_step(self, step: dict[str, Any], path: Path) -> None:
        for key in ("set", "next", "retry"):
            self.rename((*path, key), _RESPONSE_OF_RULES)
        for place in self.tasks.of_step(step, path):
            self.rename((*place, "set"), _RESPONSE_OF_TASKS)
            self.rename((*place, "retry"), _RESPONSE_OF_RULES)
        if step.get("loop") is None:
            if step.get("iteration") is None:
                self._rename_iteration(step, path)
            self._rename_step(step, path)

    def _rename_iteration(self, step: dict[str, Any], path: Path) -> None:
        """`iter.x`, which a task assigns, is `step.x`."""
        about = f"step {quote_value(step.get('step'))} has no loop"
        warning = _Warning(Code.OUTSIDE_OF_LOOP, about, " here")
        tools = [
            place
            for place in self.tasks.of_step(step, path)
            if place not in self.tasks.looped and value_at(self.data, (*place, "loop")) is None
        ]
        targets = [(*tool, "set") for tool in tools]
        for place in (*tools, (*path, "spec")):
            for rules in rules_in(value_at(self.data, place), place):
                targets += sets_in(value_at(self.data, rules), rules)
        renames: dict[Chain, str] = {}
        for place in targets:
            renames |= self._rename_targets(place, warning)
        if not renames:
            return
        for place in self._find_rendered(step, path, tools):
            self.rename(place, renames, warning)

    def _rename_targets(self, path: Path, warning: _Warning) -> Renames:
        """Makes `iter.x` of the targets at `path` `step.x`."""
        targets = value_at(self.data, path)
        names = [key[5:] for key in targets if key.startswith("iter.")] if isinstance(targets, dict) else []
        found = {
            f"iter.{name}": f"step.{name}" for name in names if name.partition(".")[0] not in _OF_ITERATIONS
        }
        for old, new in found.items():
            self.report.respell((*path, old))
            message = warning.say(old, new)
            self.report.add(warning.code, (*path, old), message, f"write {new}", at_key=True)
        if found:
            self._targets[path] = found
        heads = {new.split(".")[1] for new in found.values()}
        return {("iter", head): f"step.{head}" for head in heads}

    def _rename_step(self, step: dict[str, Any], path: Path) -> None:
        """In the rules and the `set` of the only task the name of the step is the result that is
        judged."""
        name, tools, form = str(step.get("step")), self.tasks.of_step(step, path), step.get("tool")
        if name in _TAKEN or (isinstance(form, list) and len(form) != 1) or not tools:
            return
        said = [step, *(value_at(self.data, tool) for tool in tools)]
        defined = {
            key for part in said for group in ("input", "args", "set") for key in part.get(group) or {}
        }
        if name in defined or any(part.get("loop") is not None for part in said):
            return
        about = f"step {quote_value(name)} has not ended here"
        warning = _Warning(Code.UNNAMED_RESULT, about, ", the result that is judged")
        # Those of the tasks are results of an earlier run.
        earlier: Renames = {(name, "results"): ""}
        rules = [*rules_in(step.get("spec"), (*path, "spec")), (*path, "retry")]
        for tool in (tool for tool in tools if self.tasks.calls[tool] == 1):
            rules += [*rules_in(value_at(self.data, tool), tool), (*tool, "retry")]
            self.rename((*tool, "set"), {(name,): "output", **earlier}, warning)
        for place in rules:
            self.rename(place, {(name,): "output.data", **earlier}, warning)

    def rename(self, path: Path, renames: Renames, warning: _Warning | None = None) -> None:
        """Renames what the texts at and below `path` read."""
        for place, _ in texts(value_at(self.data, path), path):
            text, guard = self.text(place), place[-1] == "when"
            try:
                chains = expressions.names_used(text, guard=guard)
            except TemplateError:
                # The compiler reports it where it stands.
                continue
            for old in sorted({head for chain in chains if (head := _head(chain, renames))}):
                alike = sorted(chain for chain in chains if chain[: len(old)] == old)
                written = expressions.rename_chain(text, old, renames[old], guard=guard)
                if written != text and all(_head(chain, renames) for chain in alike):
                    text = self.texts[place] = written
                    self._report(place, alike[0], ".".join((renames[old], *alike[0][len(old) :])), warning)

    def _report(self, place: Path, old: Chain, new: str, warning: _Warning | None) -> None:
        self.report.respell(place)
        if warning is not None:
            message = warning.say(".".join(old), new)
            self.warn(warning.code, place, message, old, new, guard=place[-1] == "when")


def _names_of(inputs: Json) -> list[str]:
    """What declared inputs are called."""
    match inputs:
        case dict():
            return list(inputs)
        case list():
            return [str(one.get("name")) for one in inputs]
        case _:
            return []


def _has_key(value: Json, key: str) -> bool:
    match value:
        case dict():
            return key in value or any(_has_key(inner, key) for inner in value.values())
        case list():
            return any(_has_key(inner, key) for inner in value)
        case _:
            return False


def _head(chain: Chain, renames: Renames) -> Chain | None:
    """The beginning of `chain` that is to be renamed."""
    head = chain[:2] if chain[:2] in renames else chain[:1]
    return head if renames.get(head) else None
