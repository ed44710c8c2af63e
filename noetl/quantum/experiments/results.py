"""Results of tasks: their points, and their provenance (what ran, so that it can be run again)."""

from __future__ import annotations

import platform
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any, Final

import cirq
import numpy
from pydantic import ValidationError

from noetl import __version__
from noetl.errors import ToolError
from noetl.facts import json
from noetl.facts.json import Json, JsonMap
from noetl.facts.reference import MANIFEST, plain
from noetl.quantum.circuits import canonical
from noetl.quantum.circuits.drawing import Diagram, draw
from noetl.quantum.config.task import CIRCUITS, QuantumConfig
from noetl.quantum.experiments.experiment import Experiment
from noetl.quantum.experiments.reading import RecentCache, keep_text
from noetl.quantum.model import LoadedCircuit
from noetl.quantum.session import TaskSession
from noetl.quantum.simulation import noise
from noetl.tools.kit.large import retention_of
from noetl.tools.kit.references import load_reference
from noetl.usecases.ports import Results

#: The points of a result may take this part of what a result may be; of more, a page has so many
#: characters of JSON.
_PART: Final = 4
_PAGE: Final = 1024 * 1024
#: What one point has, which stands at the top of a result of just one.
_OF_A_POINT = ("params", "histogram", "mitigated", "expectation", "means", "repetitions")

#: Diagrams by the hash of their circuit: tasks that wait are called often, and iterations have one
#: circuit.
_drawn: Final = RecentCache[Diagram | None](16)


def with_only_point(points: Sequence[JsonMap], result: dict[str, Any]) -> dict[str, Json]:
    """`result`, with its point at the top where there is just one."""
    if len(points) != 1:
        return result
    return {**{name: points[0][name] for name in _OF_A_POINT if name in points[0]}, **result}


def earlier(given: Json, results: Results | None, place: str) -> dict[str, Any]:
    """A result of this tool that a task was handed, opened as far as it is looked into; `place` is
    its key. Raises ToolError where it is none."""
    found = plain(load_reference(given, results, f"`{place}`"))
    if not isinstance(found, Mapping) or not {"points", "provenance"} <= found.keys():
        raise _no_result(place, "it needs `points` and `provenance`")
    points, story = (
        plain(load_reference(found[name], results, f"`{place}.{name}`")) for name in ("points", "provenance")
    )
    if not isinstance(points, list) or not isinstance(story, Mapping):
        # What `submit` yields says how many points were sent.
        raise _no_result(place, "its `points` are a list, as `run`, `expect` and `fetch` yield them")
    opened = [plain(load_reference(one, results, f"`{place}.points`")) for one in points]
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


def keep_points(points: Sequence[JsonMap], session: TaskSession) -> Json:
    """`points` as a list; where they are more than a result may be, as a manifest of pages in the
    result store. Raises ToolError where the store takes nothing."""
    results, most = session.services.results, session.services.result_limit // _PART
    sizes = [len(json.dumps(point)) for point in points]
    if results is None or sum(sizes) <= most:
        return list(points)
    keep = retention_of(session.call, session.services)
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


#: Keys of a task that say nothing of what runs.
_NOT_REPEATED: Final = frozenset(
    {
        *CIRCUITS,
        "action",
        "measure",
        "seed",
        "repetitions",
        "polling",
        "keep",
        "job",
        "of",
        "resume",
        "on_difference",
    }
)
#: What has to be the same in two results for their points to belong together.
IDENTITY: Final = (
    "resolved_sha256", "sweep_sha256", "noise_sha256", "seed", "repetitions", "provider", "target",
    "compiler", "observables", "estimator", "mitigation", "split", "precision", "options",
)  # fmt: skip


def provenance(session: TaskSession, experiment: Experiment) -> dict[str, Any]:
    """What is known before anything ran."""
    config, circuit = experiment.config, experiment.loaded
    where = session.call.where
    resolved = canonical.sha256(circuit.text)
    return {
        "source": {"form": circuit.form, "sha256": circuit.sha256},
        "resolved_sha256": resolved,
        "compiled_sha256": None,
        "sweep_sha256": canonical.sweep_sha256(experiment.points),
        "seed": experiment.seed,
        "repetitions": experiment.repetitions,
        "provider": experiment.capabilities.provider,
        "target": config.backend.target,
        "calibration": None,
        "compiler": {"gateset": experiment.gateset, "options": config.compile or {}},
        "noise_sha256": noise_sha256(config.noise),
        "observables": config.observables,
        "estimator": ("exact" if experiment.exact else "sampled") if experiment.observables else None,
        "mitigation": config.mitigation,
        "split": config.split.max_per_job if config.split else None,
        "precision": config.backend.precision,
        "options": dict(config.backend.options),
        "versions": {
            "cirq": cirq.__version__,
            "numpy": numpy.__version__,
            "python": platform.python_version(),
            "noetl": __version__,
            **experiment.capabilities.versions,
        },
        "execution_id": where.execution_id,
        "run_id": where.run_id,
        "step": where.step,
        "iteration": where.iteration,
        "event": where.event or None,
        "task": repeatable(session, experiment),
        "diagram": _show_circuit(session, circuit, resolved),
    }


def _show_circuit(session: TaskSession, circuit: LoadedCircuit, sha256: str) -> JsonMap | None:
    """`{qubits, operations, depth, text}`, the text by reference where it is long. It is there to
    be looked at: no two results are told apart by it."""
    diagram = _drawn.get(sha256, lambda: draw(circuit))
    if diagram is None:
        return None
    text = None if diagram.text is None else keep_text(session, diagram.text)
    return {**asdict(diagram), "text": text}


def repeatable(session: TaskSession, experiment: Experiment) -> dict[str, Json]:
    """The task without what only its call knew: `{name, circuit, config}`. `circuit` is canonical
    JSON of Cirq, by reference where it is long; `config` are the keys that it needs besides.
    Passwords are never among them."""
    circuit = keep_text(session, experiment.loaded.text)
    return {"name": session.call.task, "circuit": circuit, "config": _config(experiment)}


def _config(experiment: Experiment) -> dict[str, Json]:
    dumped = experiment.config.model_dump(mode="json", exclude_defaults=True)
    config: dict[str, Any] = {key: value for key, value in dumped.items() if key not in _NOT_REPEATED}
    if isinstance(config.get("backend", {}).get("auth"), Mapping):
        del config["backend"]["auth"]
    config["action"] = "run" if experiment.histogram else "expect"
    config["seed"] = experiment.seed
    if experiment.repetitions:
        config["repetitions"] = experiment.repetitions
    if experiment.observables:
        config["estimator"] = "exact" if experiment.exact else "sampled"
    return config


def repeat_config(task: JsonMap, place: str) -> QuantumConfig:
    """The configuration of a task that `repeatable` wrote; its circuit has to be opened. Raises
    ToolError."""
    try:
        return QuantumConfig.model_validate({**task["config"], "cirq_json": task["circuit"]})
    except (KeyError, TypeError, ValidationError) as error:
        raise ToolError(
            "client_error",
            f"`{place}` does not say what is to be run: it is no result of a quantum task, or of "
            "a newer NoETL.",
            type="NotAResult",
        ) from error


def open_task(task: Json, session: TaskSession, place: str) -> JsonMap:
    """What `repeatable` wrote, with its circuit opened. Raises ToolError."""
    results = session.services.results
    found = load_reference(task, results, f"`{place}`")
    if not isinstance(found, Mapping):
        found = {}
    return {**found, "circuit": load_reference(found.get("circuit"), results, f"`{place}.circuit`")}


def noise_sha256(spec: Json) -> str | None:
    """The hash of a noise model as it was understood; None where there is none."""
    return None if spec is None else canonical.sha256(json.dumps(noise.parse(spec).canonical, sort_keys=True))
