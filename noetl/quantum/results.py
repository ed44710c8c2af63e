"""What a task yields: its points, and what stands around them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from noetl.errors import ToolError
from noetl.facts.json import Json, JsonMap
from noetl.facts.reference import MANIFEST, plain
from noetl.quantum.circuits.observables import Mean
from noetl.quantum.model import Measured, Point, Samples
from noetl.quantum.session import Session
from noetl.quantum.simulation import sampling
from noetl.tools.kit.large import kept_for
from noetl.tools.kit.references import loaded
from noetl.usecases.ports import Results

#: The points of a result may take this part of what a result may be; of more, a page has so many characters of JSON.
_PART: Final = 4
_PAGE: Final = 1024 * 1024
#: What one point has, which stands at the top of a result of just one.
_OF_A_POINT = ("params", "histogram", "mitigated", "expectation", "means", "repetitions")


def point_result(
    point: Point,
    samples: Samples | None,
    means: Sequence[Mean],
    repetitions: int,
    mitigated: Mapping[str, float] | None = None,
) -> dict[str, Json]:
    """One of `points`. `repetitions` is how often the circuit ran for it; 0 where all of it is exact."""
    found: dict[str, Json] = {
        "index": point.index,
        "params": dict(point.params),
        "histogram": None if samples is None else sampling.histogram(samples),
        "expectation": [
            {"observable": one.observable, "mean": one.mean, "stderr": one.stderr} for one in means
        ],
        "means": {one.observable: one.mean for one in means},
        "repetitions": repetitions,
    }
    return found if mitigated is None else {**found, "mitigated": dict(mitigated)}


def bits(measured: Sequence[Measured]) -> dict[str, Json]:
    """How bitstrings are read."""
    return {
        "order": "big-endian",
        "measured": [{"key": one.key, "qubits": list(one.qubits)} for one in measured],
    }


def with_only_point(points: Sequence[JsonMap], result: dict[str, Any]) -> dict[str, Json]:
    """`result`, with its point at the top where there is just one."""
    if len(points) != 1:
        return result
    return {**{name: points[0][name] for name in _OF_A_POINT if name in points[0]}, **result}


def earlier(given: Json, results: Results | None, place: str) -> dict[str, Any]:
    """A result of this tool that a task was handed, opened as far as it is looked into; `place` is its key. Raises
    ToolError where it is none."""
    found = plain(loaded(given, results, f"`{place}`"))
    if not isinstance(found, Mapping) or not {"points", "provenance"} <= found.keys():
        raise _no_result(place, "it needs `points` and `provenance`")
    points, story = (
        plain(loaded(found[name], results, f"`{place}.{name}`")) for name in ("points", "provenance")
    )
    if not isinstance(points, list) or not isinstance(story, Mapping):
        # What `submit` yields says how many points were sent.
        raise _no_result(place, "its `points` are a list, as `run`, `expect` and `fetch` yield them")
    opened = [plain(loaded(one, results, f"`{place}.points`")) for one in points]
    if not all(isinstance(one, Mapping) for one in opened):
        raise _no_result(place, "each of its `points` is a mapping")
    return {**found, "points": opened, "provenance": story}


def _no_result(place: str, why: str) -> ToolError:
    return ToolError(
        "client_error",
        f"`{place}` is no result of a quantum task with points: {why}. Hand over the whole result, as in"
        f' `{place}: "{{{{ step }}}}"`.',
        type="NotAResult",
    )


def held(points: Sequence[JsonMap], session: Session) -> Json:
    """`points` as a list; where they are more than a result may be, as a manifest of pages in the result store. Raises
    ToolError where the store takes nothing."""
    results, most = session.services.results, session.services.result_limit // _PART
    sizes = [len(json.dumps(point)) for point in points]
    if results is None or sum(sizes) <= most:
        return list(points)
    keep = kept_for(session.call)
    parts: list[JsonMap] = []
    page: list[JsonMap] = []
    size = 0
    for point, one in zip(points, sizes, strict=True):
        if page and size + one > _PAGE:
            parts.append({"count": len(page), "ref": results.put(page, keep)})
            page, size = [], 0
        page.append(point)
        size += one
    parts.append({"count": len(page), "ref": results.put(page, keep)})
    return {"kind": MANIFEST, "count": len(points), "parts": parts}


def bare(value: JsonMap) -> JsonMap:
    """A reference as a checkpoint may hold it: without what only people look at."""
    return {name: part for name, part in value.items() if name != "preview"}
