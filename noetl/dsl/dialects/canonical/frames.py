"""Loops over claimed rows as others write them: `mode: cursor`, and `row_concurrency` of a frame.

Both say how many iterations run at once, so each is a matter of several keys, and no spelling of a
single one.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

from noetl import expressions
from noetl.dsl.document import Loop
from noetl.dsl.document.parts import Parts
from noetl.dsl.document.texts import is_template
from noetl.dsl.problems import Code, Path, shown
from noetl.dsl.read.origins import Origins
from noetl.dsl.read.report import ProblemReport
from noetl.errors import TemplateError
from noetl.facts.json import Json


def rewrite(
    parts: Parts, data: dict[str, Json], report: ProblemReport
) -> tuple[dict[str, Json], Origins] | None:
    """`data`, whose document has these `parts`, without them; None where nothing changes."""
    found = list(_found(parts))
    if not found:
        return None
    written = copy.deepcopy(data)
    for part, path in found:
        _rewrite(part, written, (*path, "spec"), report)
    # What is decided when it runs stays as it is.
    return (written, {}) if written != data else None


def _found(parts: Parts) -> Iterator[tuple[Loop, Path]]:
    for part, path in parts:
        if isinstance(part, Loop) and part.spec is not None:
            frame = part.spec.frame
            counts = frame is not None and "row_concurrency" in frame.model_fields_set
            if counts or (part.spec.mode == "cursor" and part.cursor is not None):
                yield part, path


def _rewrite(part: Loop, data: Any, path: Path, report: ProblemReport) -> None:
    spec = data
    for key in path:
        spec = spec[key]
    rows = _rows(spec, path, report)
    if part.cursor is None:
        return
    mode = spec.get("mode")
    if rows is not None and mode in ("cursor", "parallel") and spec.get("max_in_flight") is not None:
        spec["max_in_flight"] = _times(spec["max_in_flight"], rows, (*path, "max_in_flight"), report)
    if mode == "cursor" or (mode == "parallel" and rows is not None):
        spec["mode"] = _mode(spec)
    if mode == "cursor" != spec["mode"]:
        report.respell((*path, "mode"))


def _mode(spec: dict[str, Json]) -> str:
    """How a loop runs that is sequential where it has a width of 1. What is reduced is so whatever
    the width: a sequential loop has no reducers."""
    width = spec.get("max_in_flight")
    if spec.get("reduce"):
        return "parallel"
    if is_template(width) and _number(width) is None:
        return "cursor"
    return "sequential" if _number(width) == 1 else "parallel"


def _rows(spec: dict[str, Json], path: Path, report: ProblemReport) -> Json:
    """Takes `row_concurrency` out of the frame of `spec`; None where it says nothing, or nothing
    that can be meant."""
    frame = spec.get("frame")
    if not isinstance(frame, dict) or "row_concurrency" not in frame:
        return None
    at = (*path, "frame", "row_concurrency")
    report.respell(at)
    rows = frame.pop("row_concurrency")
    if not frame:
        del spec["frame"]
    if rows is None or is_template(rows) or _number(rows) is not None:
        return rows
    hint = "write a whole number from 1, or a template"
    report.add(Code.VALUE, at, f"row_concurrency is {shown(rows)}", hint)
    return None


def _times(width: Json, rows: Json, path: Path, report: ProblemReport) -> Json:
    """`width` times `rows`: a number where both are, else a template."""
    counts = _number(width), _number(rows)
    if counts[0] is not None and counts[1] is not None:
        return counts[0] * counts[1]
    if not is_template(width) and counts[0] is None:
        # The compiler reports it where it stands.
        return width
    factors = [expressions.inside(one) if isinstance(one, str) else str(one) for one in (width, rows)]
    if None in factors:
        message = "`max_in_flight` is multiplied with `row_concurrency`, and is not one expression"
        report.add(Code.VALUE, path, message, 'write each as one: "{{ a }}"')
        return width
    return "{{ " + " * ".join(f"({factor}) | int" for factor in factors) + " }}"


def _number(value: Json) -> int | None:
    """The whole number from 1 that `value` says, whatever a run is given; None where it says
    none."""
    if is_template(value) and not expressions.names_used(value):
        value = _rendered(value)
    if isinstance(value, str) and value.strip().isdecimal() and len(value) < 9:
        value = int(value)
    is_count = isinstance(value, int) and not isinstance(value, bool) and value >= 1
    return value if is_count else None


def _rendered(template: Json) -> Json:
    """What a template comes to that reads no names."""
    try:
        return expressions.evaluate(template, {})
    except TemplateError:
        # The compiler reports it where it stands.
        return None
