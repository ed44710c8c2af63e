"""From the keys of a task to its backend and its experiment, checked before anything runs."""

from __future__ import annotations

from typing import Final

import cirq

from noetl.errors import ToolError
from noetl.facts.nearest import did_you_mean
from noetl.quantum.backends.local import Simulator, simulator
from noetl.quantum.backends.ports import RemoteBackend
from noetl.quantum.circuits import checks, observables, params
from noetl.quantum.config.task import LOCAL, REMOTE, Action, QuantumConfig
from noetl.quantum.experiments.experiment import Experiment
from noetl.quantum.experiments.limits import free_memory_mb
from noetl.quantum.experiments.reading import read_circuit
from noetl.quantum.model import Capabilities
from noetl.quantum.session import TaskSession
from noetl.quantum.simulation import sampling
from noetl.quantum.simulation.mitigation import parse

#: How often a point is sampled unless the task says.
REPETITIONS: Final = 1000
#: Bytes of a state that every worker has room for.
_SMALL: Final = 16 * 1024 * 1024
#: Actions for which a circuit need not measure anything.
_UNMEASURED: Final[frozenset[Action]] = frozenset({"expect", "compile", "estimate", "submit"})


def choose_backend(session: TaskSession) -> Simulator | RemoteBackend:
    """The backend of a task. Raises ToolError where there is none of that name, where its package
    is not installed, or where it does not know an option."""
    config = session.config.backend
    if found := simulator(config):
        return found
    vendor = parse(session.config.mitigation or {}).vendor
    # Imported where they are asked for: simulators need no vendor's package.
    if config.provider == "ionq":
        from noetl.quantum.backends.ionq import IonQ

        return IonQ(config, session.services, session.held.client(), vendor)
    if config.provider in ("aqt", "google") and vendor:
        raise _refusal(f"mitigation.vendor: {config.provider} has no such options.", "MitigationError")
    if config.provider == "aqt":
        from noetl.quantum.backends.aqt import Aqt

        return Aqt(config, session.services, session.held.client())
    if config.provider == "google":
        from noetl.quantum.backends.google import Google

        return Google(config)
    known = (*LOCAL, *REMOTE)
    there_are = f"there are {', '.join(known)}.{did_you_mean(config.provider, known)}"
    raise _refusal(f"There is no backend '{config.provider}'; {there_are}", "NoBackend")


def plan(session: TaskSession) -> tuple[Experiment, Simulator | RemoteBackend]:
    """The experiment of a task, checked as far as it can be before anything runs, and its backend.
    Raises ToolError."""
    config, backend = session.config, choose_backend(session)
    capabilities = backend.capabilities()
    _check_keys(config, capabilities)
    loaded = read_circuit(session)
    points = tuple(params.points(config.params))
    if config.action != "compile" or config.params is not None:
        checks.check_symbols(loaded.circuit, points)
    if config.observables:
        checks.check_numbering(loaded.circuit, loaded.idle)
    size = len(loaded.circuit.all_qubits())
    histogram = _wants_histogram(config, loaded.circuit)
    sampled = _samples(config, capabilities)
    asked = REPETITIONS if config.repetitions is None else config.repetitions
    experiment = Experiment(
        config=config,
        capabilities=capabilities,
        loaded=loaded,
        points=points,
        observables=tuple(observables.parse(config.observables, size)) if config.observables else (),
        histogram=histogram,
        sampled=sampled,
        repetitions=asked if histogram or sampled else 0,
        seed=sampling.draw_seed(session.call.idempotency_key) if config.seed is None else config.seed,
    )
    _check_circuit(experiment, session)
    return experiment, backend


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


def _check_keys(config: QuantumConfig, capabilities: Capabilities) -> None:
    """Raises ToolError where keys do not go together, or the backend cannot do what they ask
    for."""
    provider = capabilities.provider
    if config.action == "expect" and not config.observables:
        raise _refusal('`expect` needs `observables`, such as {zz: "Z0 Z1"}.', "NoObservables")
    if config.target_stderr is not None and (not config.observables or config.estimator == "exact"):
        raise _refusal(
            "`target_stderr` is about sampled `observables`; it needs some, without `estimator: exact`.",
            "Estimator",
        )
    if config.estimator == "exact" and not capabilities.exact:
        raise _refusal(
            f"{provider} cannot compute expectation values; use `estimator: sampled`.", "Estimator"
        )
    if config.noise is not None and not capabilities.noise:
        raise _refusal(f"{provider} takes no `noise`: it is a model for simulators.", "NoiseError")
    states = {
        "state_vector": capabilities.exact and not capabilities.mixed,
        "density_matrix": capabilities.mixed,
    }
    for kept in config.keep:
        if not states.get(kept, True):
            raise _refusal(f"{provider} has no {kept.replace('_', ' ')} to keep.", "NoState")


def _check_circuit(experiment: Experiment, session: TaskSession) -> None:
    config, circuit = experiment.config, experiment.loaded.circuit
    if experiment.histogram:
        checks.check_measures(circuit)
    # What is small fits anywhere, and a loop of small circuits need not ask each time.
    needed = checks.state_bytes(len(experiment.qubits), experiment.capabilities) or 0
    memory = free_memory_mb() if needed > _SMALL else None
    checks.check_size(circuit, experiment.capabilities, config.limits, memory)
    if experiment.capabilities.clifford_only and session.call.checkpoint is None:
        for point in experiment.points:
            for setting in experiment.compile_variants(point):
                checks.check_clifford(setting.circuit)


def _refusal(message: str, type_: str) -> ToolError:
    return ToolError("client_error", message, type=type_)
