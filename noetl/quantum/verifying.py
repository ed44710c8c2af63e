"""`verify`: an earlier result is made again, and compared."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, Final

from noetl.errors import ToolError
from noetl.facts.json import Json, JsonMap
from noetl.facts.outcome import Outcome, succeeded
from noetl.pipeline.model import Later
from noetl.quantum.backends.choice import choose_backend
from noetl.quantum.backends.ports import LocalBackend
from noetl.quantum.experiments.experiment import Experiment
from noetl.quantum.experiments.limits import PointBudget
from noetl.quantum.experiments.planning import plan
from noetl.quantum.experiments.results import earlier, open_task, provenance, repeat_config
from noetl.quantum.experiments.running import compiled_sha256, identity
from noetl.quantum.experiments.sweep import Sweep
from noetl.quantum.session import TaskSession

#: Differences that are told one by one.
_MOST_TOLD: Final = 20
#: How far exact expectation values may be apart: amplitudes of 8 bytes have seven digits, and
#: processors differ in the last.
_TOLERANCE: Final = 1e-5
#: Hashes that have to be equal.
_HASHES: Final = ("resolved_sha256", "compiled_sha256", "sweep_sha256", "noise_sha256")


def verify(session: TaskSession) -> Outcome | Later:
    """Runs the experiment of `of` again, as many points as that has. Raises ToolError
    (`Differs`)."""
    of = earlier(session.config.of, session.services.results, "of")
    task = open_task(of["provenance"].get("task"), session, "of.provenance.task")
    inner = replace(session, config=repeat_config(task, "of.provenance.task"))
    backend = choose_backend(inner)
    experiment = plan(inner, backend.capabilities())
    story = provenance(inner, experiment)
    was: list[Any] = of["points"]
    if isinstance(backend, LocalBackend):
        came = Sweep(inner, experiment, backend, 0, PointBudget(len(was))).run(identity(story))
        if isinstance(came, Later):
            return came
        points: list[dict[str, Any]] | None = came.points
    else:
        # What a machine measured cannot be measured again, and every try is paid for.
        points = None
    now = {**story, "compiled_sha256": _compile(experiment, was, points)}
    return _judge(session, of["provenance"], now, was, points)


def _compile(experiment: Experiment, was: Sequence[JsonMap], points: Sequence[JsonMap] | None) -> str:
    if points is None and experiment.compiles:
        points = [
            {"compiled_sha256": experiment.compiled_sha256(point)} for point in experiment.points[: len(was)]
        ]
    return compiled_sha256(experiment, points or [])


def _judge(
    session: TaskSession,
    before: JsonMap,
    now: JsonMap,
    was: Sequence[JsonMap],
    points: Sequence[JsonMap] | None,
) -> Outcome:
    differences = [_difference(name, before.get(name), now.get(name)) for name in _HASHES]
    found = [one for one in differences if one is not None]
    if points is not None:
        found += [one for pair in zip(was, points, strict=True) for one in _differing(*pair)]
    result: dict[str, Json] = {
        "verified": not found,
        "repeated": points is not None,
        "points": len(was),
        "differences": found[:_MOST_TOLD],
        "differing": len(found),
        "versions_differ": [
            {"name": name, "was": old, "is": now["versions"].get(name)}
            for name, old in (before.get("versions") or {}).items()
            if now["versions"].get(name) != old
        ],
    }
    if found and session.config.on_difference == "fail":
        raise ToolError("client_error", _sentence(result), type="Differs", extras={"quantum": result})
    return succeeded(result)


def _difference(what: str, was: Json, now: Json) -> JsonMap | None:
    return None if was == now else {"what": what, "was": was, "is": now}


def _differing(was: JsonMap, now: JsonMap) -> Iterator[JsonMap]:
    place = f"points[{was.get('index')}]"
    for name in ("params", "histogram", "repetitions"):
        if (found := _difference(f"{place}.{name}", was.get(name), now[name])) is not None:
            yield found
    means = was.get("means") or {}
    for name, mean in now["means"].items():
        if not _close(means.get(name), mean):
            yield {"what": f"{place}.means.{name}", "was": means.get(name), "is": mean}


def _close(was: Json, now: float) -> bool:
    return isinstance(was, int | float) and math.isclose(was, now, rel_tol=_TOLERANCE, abs_tol=_TOLERANCE)


def _sentence(result: JsonMap) -> str:
    first, versions = result["differences"][0]["what"], result["versions_differ"]
    others = f" and {result['differing'] - 1} more" if result["differing"] > 1 else ""
    why = ", ".join(f"{one['name']} {one['was']} then, {one['is']} now" for one in versions)
    return (
        f"The result could not be repeated: {first}{others} differ. "
        + (
            f"Versions differ: {why}."
            if why
            else "The versions are the same, so the result was changed or its seed is another one."
        )
        + " `on_difference: report` tells the differences as a result."
    )
