"""`end`, to which no arc leads: steps without `next` lead there."""

from __future__ import annotations

import copy
from typing import Any, Final

from noetl.dsl.dialects.canonical.shapes import arcs_of, at, target_of
from noetl.dsl.document.parts import Parts
from noetl.dsl.problems import Code
from noetl.dsl.read.origins import Origins
from noetl.dsl.read.report import ProblemReport
from noetl.facts.json import Json

_END: Final = "end"


def rewrite(
    _parts: Parts, data: dict[str, Json], report: ProblemReport
) -> tuple[dict[str, Json], Origins] | None:
    """`data` with arcs to its step `end`; None where it needs none."""
    steps: list[Any] = data.get("workflow") or []
    names = [step.get("step") for step in steps]
    if names.count(_END) != 1 or at(data, ("executor", "spec", "final_step")) == _END:
        return None
    first = at(data, ("executor", "spec", "entry_step")) or ("start" if "start" in names else names[0])
    leading = {name: set(_targets(step)) for name, step in zip(names, steps, strict=True)}
    if first == _END or any(_END in targets for targets in leading.values()):
        return None
    reached = _reached(first, leading)
    last = [i for i, step in enumerate(steps) if names[i] in reached and not step.get("next")]
    if not last:
        return None
    written = copy.deepcopy(data)
    for index in last:
        at(written, ("workflow", index))["next"] = _END
    message = "no arc leads to `end`: steps without next do"
    report.add(Code.UNREACHABLE, ("workflow", names.index(_END), "step"), message, "write next: end")
    return written, {("workflow", index, "next"): ("workflow", index) for index in last}


def _targets(step: dict[str, Any]) -> list[str]:
    return [target for arc, _ in arcs_of(step.get("next"), ()) if (target := target_of(arc)) is not None]


def _reached(first: str, leading: dict[Any, set[str]]) -> set[str]:
    reached, left = set[str](), [first]
    while left:
        name = left.pop()
        if name not in reached:
            reached.add(name)
            left += leading.get(name, ())
    return reached
