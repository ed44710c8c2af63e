"""Arcs that wait (`next: {arcs: [{step: ship, wait: {signal: payment}}]}`): deferred choice.

The first of what the arcs of a router wait for chooses. They become the arcs of a further step
behind theirs, which has one task, a wait for any of it; what is found there is said of the arcs.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from noetl.dsl.dialects.canonical.shapes import Rewritten
from noetl.dsl.dialects.parts import NewNames
from noetl.dsl.document.arcs import ArcWait
from noetl.dsl.document.base import canonical_keys
from noetl.dsl.document.identifiers import MAX_LENGTH
from noetl.dsl.problems import Code, Path
from noetl.dsl.read.origins import Rewritten as Moved
from noetl.dsl.read.origins import Tree, settle
from noetl.dsl.read.report import ProblemReport
from noetl.facts.json import Json

_SUFFIX: Final = ".choice"
#: What an arc that waits hands on to the one behind the wait.
_KEPT: Final = ("args", "input", "set", "desc", "times")


def rewrite(data: dict[str, Json], report: ProblemReport) -> Rewritten:
    """`data` with a step behind each whose arcs wait; None where no arc does."""
    steps: list[dict[str, Any]] = [one for one in data.get("workflow") or [] if isinstance(one, dict)]
    names = NewNames({str(step.get("step")) for step in steps}, ".")
    made: list[Tree] = []
    for index, step in enumerate(steps):
        path: Path = ("workflow", index)
        arcs = list(_arcs_of(step.get("next"), (*path, "next")))
        if not any(arc.waits for arc in arcs) or not _is_choice(step, path, arcs, report):
            made.append(Moved(step, path))
            continue
        name = names.new(f"{str(step.get('step'))[: MAX_LENGTH - 16]}{_SUFFIX}")
        onward = Moved({"arcs": [{"step": name}]}, (*path, "next"))
        made += [Moved({**step, "next": onward}, path), _choice(step, name, (*path, "next"), arcs)]
    if len(made) == len(steps):
        return None
    return settle({**data, "workflow": made})


@dataclass(frozen=True, slots=True)
class _WrittenArc:
    """An arc as it is written, and where."""

    value: Any
    path: Path
    in_list: bool

    @property
    def waits(self) -> bool:
        return isinstance(self.value, dict) and self.value.get("wait") is not None

    def get(self, key: str) -> Any:
        return self.value.get(key) if isinstance(self.value, dict) else None


def _arcs_of(form: Any, path: Path) -> Iterator[_WrittenArc]:
    match form:
        case {"arcs": list() as arcs}:
            yield from _arcs_in(arcs, (*path, "arcs"))
        case list():
            yield from _arcs_in(form, path)
        case {"step": _} | {"wait": _}:
            yield _WrittenArc(form, path, False)


def _arcs_in(arcs: Iterable[Any], path: Path) -> Iterator[_WrittenArc]:
    for index, arc in enumerate(arcs):
        if isinstance(arc, list):
            yield from (_WrittenArc(one, (*path, index, at), True) for at, one in enumerate(arc))
        else:
            yield _WrittenArc(arc, (*path, index), False)


def _is_choice(step: dict[str, Any], path: Path, arcs: list[_WrittenArc], report: ProblemReport) -> bool:
    """Whether the arcs of the step can be a choice; adds problems where not."""
    found = [fault for arc in arcs for fault in _faults_of(arc)]
    spec = step["next"].get("spec") if isinstance(step["next"], dict) else None
    mode = spec.get("mode") if isinstance(spec, dict) else None
    if mode not in (None, "exclusive"):
        at = (*path, "next", "spec", "mode")
        found.append((at, f"mode is {mode}, and of arcs that wait the first one is taken", "remove mode"))
    for at, message, hint in found:
        report.add(Code.MISPLACED, at, message, hint)
    return not found


def _faults_of(arc: _WrittenArc) -> Iterator[tuple[Path, str, str]]:
    if not arc.waits:
        hint = "give it a wait as well, or take the others' away"
        yield arc.path, "the arc does not wait, and others of the router do", hint
        return
    if arc.in_list:
        hint = "give it an arc of its own"
        yield (*arc.path, "wait"), "an arc that waits stands in a list of arcs that are taken together", hint
    if arc.get("step") is None:
        yield (*arc.path, "wait"), "the arc waits and leads to no step", "add step:, or remove wait"
    yield from _faults_of_wait(arc.get("wait"), (*arc.path, "wait"))
    if arc.get("when") is not None:
        hint = "write wait: {signal: {name: ..., when: ...}}, or put the guard on an arc behind the step"
        yield (*arc.path, "when"), "when stands beside wait, which chooses the arc", hint


def _faults_of_wait(wait: Any, at: Path) -> Iterator[tuple[Path, str, str]]:
    if not isinstance(wait, dict):
        return  # What the step behind waits for says it, with the place and an example.
    keys = canonical_keys(ArcWait)
    given = [key for key in keys if wait.get(key) is not None]
    if len(given) != 1:
        found = " and ".join(given) or "nothing"
        yield at, f"the arc waits for {found}", f"write one of {', '.join(keys[:-1])} and {keys[-1]}"
    signal = wait.get("signal")
    if isinstance(signal, dict) and not signal.get("name"):
        yield (*at, "signal"), "the signal has no name", "add name: <the name of the signal>"


def _choice(step: dict[str, Any], name: str, path: Path, arcs: list[_WrittenArc]) -> Tree:
    """The step called `name` that waits for any of what the `arcs` wait for."""
    keys = NewNames(set(), ".")
    named = [(keys.new(str(arc.get("step"))), arc) for arc in arcs]
    awaited = {key: Moved(arc.get("wait"), (*arc.path, "wait")) for key, arc in named}
    made: dict[str, Tree] = {
        "step": name,
        "tool": {"kind": "wait", "any": awaited},
        "next": {"arcs": [_arc(key, arc) for key, arc in named]},
    }
    if step.get("iteration") is not None:
        made["iteration"] = step["iteration"]
    return Moved(made, path)


def _arc(key: str, arc: _WrittenArc) -> Tree:
    kept = {name: arc.get(name) for name in _KEPT if arc.get(name) is not None}
    came = f"{{{{ result.name == {json.dumps(key, ensure_ascii=False)} }}}}"
    # What was written of the arc stands where it stood.
    return Moved({"step": arc.get("step"), "when": Moved(came, arc.path), **kept}, arc.path)
