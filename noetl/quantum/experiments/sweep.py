"""Runs a sweep on a simulator of the worker, point after point, and resumes it."""

from __future__ import annotations

import itertools
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from noetl.facts import json
from noetl.facts.json import Json, JsonMap
from noetl.facts.reference import plain
from noetl.pipeline.model import Later
from noetl.quantum.backends.local import Simulator
from noetl.quantum.experiments.experiment import CircuitVariant, Experiment
from noetl.quantum.experiments.kept import KeptTables, Parts
from noetl.quantum.experiments.limits import PointBudget
from noetl.quantum.experiments.reading import without_preview
from noetl.quantum.model import CircuitRun, Point, Samples
from noetl.quantum.session import TaskSession, now
from noetl.quantum.simulation import mitigation, sampling
from noetl.quantum.simulation.means import Mean, from_samples, more_repetitions
from noetl.quantum.simulation.mitigation import ConfusionMatrices
from noetl.tools.kit.large import retention_of
from noetl.tools.kit.references import load_reference

#: Finished points are kept about this often, in seconds of work; in long sweeps, after this part of
#: the time spent.
KEEP_EVERY_S: Final = 10.0
_PART: Final = 0.05


@dataclass(frozen=True, slots=True)
class SweepProgress:
    """How far a sweep has come: the next point, the repetitions that ran, and references to what is
    kept."""

    next: int
    shots: int = 0
    spent_s: float = 0.0
    started_at: str = ""
    points: tuple[JsonMap, ...] = ()
    tables: Parts = field(default_factory=dict)

    def checkpoint(self, of: int, identity: str) -> JsonMap:
        # References as text: those in a checkpoint would be opened when it is handed back.
        kept = json.dumps({"points": self.points, "tables": self.tables}, typed=True)
        return {
            "phase": "sweep",
            "done": self.next,
            "of": of,
            "shots": self.shots,
            "spent_s": round(self.spent_s, 3),
            "started_at": self.started_at,
            "identity": identity,
            "kept": kept,
        }


def begin(checkpoint: Json, identity: str, first: int, tables: Parts) -> SweepProgress:
    """Where the sweep goes on: behind its last checkpoint, if that is of the same experiment, else
    at `first`."""
    if not isinstance(checkpoint, Mapping) or checkpoint.get("identity") != identity:
        return SweepProgress(first, started_at=now(), tables=tables)
    kept = json.loads(checkpoint["kept"])
    return SweepProgress(
        checkpoint["done"],
        checkpoint["shots"],
        checkpoint["spent_s"],
        checkpoint["started_at"],
        tuple(kept["points"]),
        kept["tables"],
    )


@dataclass(frozen=True, slots=True)
class SweepPoints:
    """All points that were to run. `next` is the first one that did not, and `stopped` why, where
    the repetitions ran out."""

    points: list[dict[str, Any]]
    tables: Mapping[str, Json]
    shots: int
    next: int
    stopped: JsonMap | None
    started_at: str
    run_s: float


@dataclass(frozen=True, slots=True)
class Sweep:
    """One call of a sweep. `first` is the point that it begins with, `room` how many may run;
    `tables` are parts of what is kept that were there before."""

    session: TaskSession
    experiment: Experiment
    backend: Simulator
    first: int
    room: PointBudget
    tables: Parts = field(default_factory=dict)
    _began: float = field(default_factory=time.monotonic)

    def run(self, identity: str) -> SweepPoints | Later:
        """Runs until all is done, or until it is time to keep what is. Raises ToolError."""
        session, experiment = self.session, self.experiment
        before = begin(session.call.checkpoint, identity, self.first, self.tables)
        end = self.first + self.room.points
        fresh: list[dict[str, Any]] = []
        shots, stopped = before.shots, None
        calibrated = [self.backend.sample(order) for order in experiment.calibrations()]
        readout = experiment.readout(calibrated)
        with KeptTables(session, before.tables) as keeper:
            for number in range(before.next, end):
                is_time = self._spent > max(KEEP_EVERY_S, _PART * before.spent_s)
                if fresh and is_time and session.services.results is not None:
                    progress = self._keep(before, fresh, shots, keeper)
                    return Later(0.0, progress.checkpoint(end, identity))
                left = self._remaining_shots(shots)
                if left is not None and left < experiment.shots:
                    stopped = {"limit": "max_shots", "at": experiment.config.limits.max_shots, "of": None}
                    break
                point = PointRun(
                    session, experiment, self.backend, keeper, readout, experiment.points[number]
                )
                fresh.append(found := point.run(left))
                shots += found["repetitions"]
            tables = keeper.tables()
        pages = [
            plain(load_reference(page, session.services.results, "The checkpoint")) for page in before.points
        ]
        points = [*itertools.chain(*pages), *fresh]
        return SweepPoints(
            points,
            tables,
            shots,
            self.first + len(points),
            stopped,
            before.started_at,
            before.spent_s + self._spent,
        )

    @property
    def _spent(self) -> float:
        return time.monotonic() - self._began

    def _keep(
        self, before: SweepProgress, fresh: list[dict[str, Any]], shots: int, keeper: KeptTables
    ) -> SweepProgress:
        services = self.session.services
        results = services.results
        assert results is not None  # see `run`
        page = results.put(fresh, retention_of(self.session.call, services))
        return SweepProgress(
            before.next + len(fresh),
            shots,
            before.spent_s + self._spent,
            before.started_at,
            (*before.points, without_preview(page)),
            {name: [without_preview(part) for part in parts] for name, parts in keeper.parts().items()},
        )

    def _remaining_shots(self, shots: int) -> int | None:
        """Repetitions that may still run; None where there is no bound but `room`'s."""
        most = self.experiment.config.limits.max_shots
        if most is None or self.experiment.config.target_stderr is None:
            return None
        return most - shots


def means_of(
    experiment: Experiment, sampled: Mapping[int, Samples], readout: ConfusionMatrices | None
) -> list[Mean]:
    """Expectation values from samples, by number of setting."""
    if not experiment.sampled:
        return []
    by_basis = [(basis, sampled[number]) for number, basis in enumerate(experiment.bases, 1)]
    return from_samples(experiment.observables, by_basis, readout)


def assemble(
    point: Point,
    settings: Sequence[CircuitVariant],
    sampled: Mapping[int, Samples],
    means: Sequence[Mean],
    readout: ConfusionMatrices | None,
) -> dict[str, Any]:
    """The result of a point whose samples, by number of setting, are all there."""
    own = sampled.get(0)
    found: dict[str, Any] = {
        "index": point.index,
        "params": dict(point.params),
        "histogram": None if own is None else sampling.histogram(own),
        "expectation": [
            {"observable": one.observable, "mean": one.mean, "stderr": one.stderr} for one in means
        ],
        "means": {one.observable: one.mean for one in means},
        "repetitions": sum(one.repetitions for one in sampled.values()),
    }
    if own is not None and readout is not None:
        found["mitigated"] = mitigation.mitigate(own, readout)
    if settings[0].sha256:
        found["compiled_sha256"] = settings[0].sha256
    return found


@dataclass(slots=True)
class PointRun:
    """Runs one point on a simulator. Between two circuits it looks whether the call is to end."""

    session: TaskSession
    experiment: Experiment
    backend: Simulator
    keeper: KeptTables
    readout: ConfusionMatrices | None
    point: Point
    _parts: dict[int, list[Samples]] = field(default_factory=dict)

    def run(self, left: int | None) -> dict[str, Any]:
        """The point's result; with `target_stderr` at most `left` repetitions run for it. Raises
        ToolError."""
        settings = self.experiment.at(self.point)
        for setting in settings:
            self._sample(setting.number, self.experiment.orders(self.point, setting))
        means = self._exact(settings[0]) if self.experiment.exact else self._sample_means(settings, left)
        if self.experiment.keeps_state:
            self.session.check()
            self.keeper.state(self.point.index, self.backend.state(settings[0].circuit, settings[0].qubits))
        return assemble(self.point, settings, self._merge(), means, self.readout)

    def _sample(self, setting: int, orders: Sequence[CircuitRun]) -> None:
        for order in orders:
            self.session.check()
            samples = self.backend.sample(order)
            self.keeper.samples(self.point.index, order.name, samples)
            # What is counted is enough from here on, however many repetitions there are.
            self._parts.setdefault(setting, []).append(replace(samples, bits=None))

    def _merge(self) -> dict[int, Samples]:
        return {setting: sampling.merge(parts) for setting, parts in self._parts.items()}

    def _exact(self, own: CircuitVariant) -> list[Mean]:
        self.session.check()
        observables = self.experiment.observables
        values = self.backend.expect(own.circuit, observables, own.qubits)
        return [Mean(one.name, value, 0.0) for one, value in zip(observables, values, strict=True)]

    def _sample_means(self, settings: Sequence[CircuitVariant], left: int | None) -> list[Mean]:
        means = means_of(self.experiment, self._merge(), self.readout)
        target = self.experiment.config.target_stderr
        while target is not None and (more := self._more(means, target, left)) > 0:
            for setting in settings:
                if setting.number:
                    parts = len(self._parts[setting.number])
                    self._sample(setting.number, self.experiment.more(self.point, setting, parts, more))
            means = means_of(self.experiment, self._merge(), self.readout)
        return means

    def _more(self, means: Sequence[Mean], target: float, left: int | None) -> int:
        """How many repetitions of each basis run next: those that are missing, as far as they
        may."""
        bases = len(self.experiment.bases)
        if not bases:
            return 0
        merged = self._merge()
        wanted = more_repetitions(means, merged[1].repetitions, target)
        if left is None:
            return wanted
        spent = sum(samples.repetitions for samples in merged.values())
        return min(wanted, (left - spent) // bases)
