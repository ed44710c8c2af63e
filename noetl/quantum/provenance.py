"""What ran, so that it can be said later and done again."""

from __future__ import annotations

import json
import platform
from collections.abc import Mapping
from typing import Any, Final

import cirq
import numpy
from pydantic import ValidationError

from noetl import __version__
from noetl.errors import ToolError
from noetl.facts.json import Json, JsonMap
from noetl.quantum.circuits import canonical
from noetl.quantum.config import CIRCUITS, QuantumConfig
from noetl.quantum.experiment import Experiment
from noetl.quantum.reading import kept_text
from noetl.quantum.session import Session
from noetl.quantum.simulation import noise

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
    "resolved_sha256", "sweep_sha256", "noise_sha256", "seed", "repetitions", "provider", "target", "compiler",
    "observables", "estimator", "mitigation", "split", "precision", "options",
)  # fmt: skip


def provenance(session: Session, experiment: Experiment) -> dict[str, Any]:
    """What is known before anything ran."""
    config, circuit = experiment.config, experiment.loaded
    where = session.call.where
    return {
        "source": {"form": circuit.form, "sha256": circuit.sha256},
        "resolved_sha256": canonical.sha256(experiment.text),
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
        "versions": versions(experiment),
        "execution_id": where.execution_id,
        "run_id": where.run_id,
        "step": where.step,
        "iteration": where.iteration,
        "event": where.event or None,
        "task": repeatable(session, experiment),
    }


def repeatable(session: Session, experiment: Experiment) -> dict[str, Json]:
    """The task without what only its call knew: `{name, circuit, config}`. `circuit` is canonical JSON of Cirq, by
    reference where it is long; `config` are the keys that it needs besides. Passwords are never among them."""
    circuit = kept_text(session, experiment.text)
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


def repeated(task: JsonMap, place: str) -> QuantumConfig:
    """The configuration of a task that `repeatable` told of; its circuit has to be opened. Raises ToolError."""
    try:
        return QuantumConfig.model_validate({**task["config"], "cirq_json": task["circuit"]})
    except (KeyError, TypeError, ValidationError) as error:
        raise ToolError(
            "client_error",
            f"`{place}` does not say what is to be run: it is no result of a quantum task, or of a newer NoETL.",
            type="NotAResult",
        ) from error


def noise_sha256(spec: Json) -> str | None:
    """The hash of a noise model as it was understood; None where there is none."""
    return None if spec is None else canonical.sha256(json.dumps(noise.parse(spec).canonical, sort_keys=True))


def versions(experiment: Experiment) -> dict[str, str]:
    return {
        "cirq": cirq.__version__,
        "numpy": numpy.__version__,
        "python": platform.python_version(),
        "noetl": __version__,
        **experiment.capabilities.versions,
    }


def differing(was: JsonMap, now: JsonMap) -> list[str]:
    """Those names in `IDENTITY` whose values differ."""
    return [name for name in IDENTITY if was.get(name) != now.get(name)]
