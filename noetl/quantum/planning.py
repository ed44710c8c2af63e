"""From the keys of a task to its experiment: what goes together, and what a backend can do, before anything runs."""

from __future__ import annotations

from typing import Final

import cirq

from noetl.errors import ToolError
from noetl.quantum.circuits import checks, observables, params
from noetl.quantum.config import Action, QuantumConfig
from noetl.quantum.experiment import Experiment
from noetl.quantum.limits import free_memory_mb
from noetl.quantum.model import Capabilities
from noetl.quantum.reading import read
from noetl.quantum.session import Session
from noetl.quantum.simulation import sampling

#: How often a point is sampled where nobody says.
REPETITIONS: Final = 1000
#: Bytes of a state that every worker has room for.
_SMALL: Final = 16 * 1024 * 1024
#: Actions for which a circuit need not measure anything.
_UNMEASURED: Final[frozenset[Action]] = frozenset({"expect", "compile", "estimate", "submit"})


def planned(session: Session, capabilities: Capabilities) -> Experiment:
    """The experiment of a task, checked as far as it can be before anything runs. Raises ToolError."""
    config = session.config
    _check_asked(config, capabilities)
    found = read(session)
    loaded = found.loaded
    points = tuple(params.points(config.params))
    if config.action != "compile" or config.params is not None:
        checks.check_symbols(loaded.circuit, points)
    if config.observables:
        checks.check_numbered(loaded.circuit, loaded.idle)
    size = len(loaded.circuit.all_qubits())
    histogram = _wants_histogram(config, loaded.circuit)
    sampled = _samples(config, capabilities)
    asked = REPETITIONS if config.repetitions is None else config.repetitions
    experiment = Experiment(
        config=config,
        capabilities=capabilities,
        loaded=loaded,
        text=found.text,
        points=points,
        observables=tuple(observables.parse(config.observables, size)) if config.observables else (),
        histogram=histogram,
        sampled=sampled,
        repetitions=asked if histogram or sampled else 0,
        seed=sampling.drawn_seed(session.call.idempotency_key) if config.seed is None else config.seed,
    )
    _check_circuit(experiment, session)
    return experiment


def _wants_histogram(config: QuantumConfig, circuit: cirq.Circuit) -> bool:
    if config.action == "expect":
        return False
    if config.action in _UNMEASURED and config.observables:
        return cirq.is_measurement(circuit)
    return config.action != "compile"


def _samples(config: QuantumConfig, capabilities: Capabilities) -> bool:
    """Whether expectation values come from samples."""
    if not config.observables:
        return False
    if config.estimator is not None:
        return config.estimator == "sampled"
    return not capabilities.exact or config.repetitions is not None or config.target_stderr is not None


def _check_asked(config: QuantumConfig, capabilities: Capabilities) -> None:
    """Raises ToolError where keys do not go together, or the backend cannot do what they ask for."""
    provider = capabilities.provider
    if config.action == "expect" and not config.observables:
        raise _refused('`expect` needs `observables`, such as {zz: "Z0 Z1"}.', "NoObservables")
    if config.target_stderr is not None and (not config.observables or config.estimator == "exact"):
        raise _refused(
            "`target_stderr` is about sampled `observables`; it needs some, without `estimator: exact`.",
            "Estimator",
        )
    if config.estimator == "exact" and not capabilities.exact:
        raise _refused(
            f"{provider} cannot compute expectation values; use `estimator: sampled`.", "Estimator"
        )
    if config.noise is not None and not capabilities.noise:
        raise _refused(f"{provider} takes no `noise`: it is a model for simulators.", "NoiseError")
    states = {
        "state_vector": capabilities.exact and not capabilities.mixed,
        "density_matrix": capabilities.mixed,
    }
    for kept in config.keep:
        if not states.get(kept, True):
            raise _refused(f"{provider} has no {kept.replace('_', ' ')} to keep.", "NoState")


def _check_circuit(experiment: Experiment, session: Session) -> None:
    config, circuit = experiment.config, experiment.loaded.circuit
    if experiment.histogram:
        checks.check_measured(circuit)
    # What is small fits anywhere, and a loop of small circuits need not ask each time.
    needed = checks.state_bytes(len(experiment.qubits), experiment.capabilities) or 0
    memory = free_memory_mb() if needed > _SMALL else None
    checks.check_size(circuit, experiment.capabilities, config.limits, memory)
    if experiment.capabilities.clifford_only and session.call.checkpoint is None:
        for point in experiment.points:
            for setting in experiment.sent(point):
                checks.check_clifford(setting.circuit)


def _refused(message: str, type_: str) -> ToolError:
    return ToolError("client_error", message, type=type_)
