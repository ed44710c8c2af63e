"""One point of a sweep: what comes of its samples, and on a simulator the samples themselves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from noetl.quantum.circuits import observables
from noetl.quantum.circuits.observables import Mean
from noetl.quantum.experiment import Experiment, Setting
from noetl.quantum.kept import Keeper
from noetl.quantum.model import LocalBackend, Order, Point, Samples
from noetl.quantum.results import point_result
from noetl.quantum.session import Session
from noetl.quantum.simulation import mitigation, sampling
from noetl.quantum.simulation.mitigation import Readout


def means_of(experiment: Experiment, sampled: Mapping[int, Samples], readout: Readout | None) -> list[Mean]:
    """Expectation values from samples, by number of setting."""
    if not experiment.sampled:
        return []
    by_basis = [(basis, sampled[number]) for number, basis in enumerate(experiment.bases, 1)]
    return observables.from_samples(experiment.observables, by_basis, readout)


def assembled(
    point: Point,
    settings: Sequence[Setting],
    sampled: Mapping[int, Samples],
    means: Sequence[Mean],
    readout: Readout | None,
) -> dict[str, Any]:
    """The result of a point whose samples, by number of setting, are all there."""
    own = sampled.get(0)
    clean = None if own is None or readout is None else mitigation.mitigated(own, readout)
    found = point_result(point, own, means, sum(one.repetitions for one in sampled.values()), clean)
    return {**found, "compiled_sha256": settings[0].sha256} if settings[0].sha256 else found


@dataclass(slots=True)
class PointRun:
    """Runs one point on a simulator. Between two circuits it looks whether the call is to end."""

    session: Session
    experiment: Experiment
    backend: LocalBackend
    keeper: Keeper
    readout: Readout | None
    point: Point
    _parts: dict[int, list[Samples]] = field(default_factory=dict)

    def run(self, left: int | None) -> dict[str, Any]:
        """The point's result; with `target_stderr` at most `left` repetitions run for it. Raises ToolError."""
        settings = self.experiment.at(self.point)
        for setting in settings:
            self._sample(setting.number, self.experiment.orders(self.point, setting))
        means = self._exact(settings[0]) if self.experiment.exact else self._sampled(settings, left)
        if self.experiment.keeps_state:
            self.session.check()
            self.keeper.state(self.point.index, self.backend.state(settings[0].circuit, settings[0].qubits))
        return assembled(self.point, settings, self._merged(), means, self.readout)

    def _sample(self, setting: int, orders: Sequence[Order]) -> None:
        for order in orders:
            self.session.check()
            samples = self.backend.sample(order)
            self.keeper.samples(self.point.index, order.name, samples)
            # What is counted is enough from here on, however many repetitions there are.
            self._parts.setdefault(setting, []).append(replace(samples, bits=None))

    def _merged(self) -> dict[int, Samples]:
        return {setting: sampling.merged(parts) for setting, parts in self._parts.items()}

    def _exact(self, own: Setting) -> list[Mean]:
        self.session.check()
        values = self.backend.expect(own.circuit, self.experiment.observables, own.qubits)
        pairs = zip(self.experiment.observables, values, strict=True)
        return [Mean(observable.name, value, 0.0) for observable, value in pairs]

    def _sampled(self, settings: Sequence[Setting], left: int | None) -> list[Mean]:
        means = means_of(self.experiment, self._merged(), self.readout)
        target = self.experiment.config.target_stderr
        while target is not None and (more := self._more(means, target, left)) > 0:
            for setting in settings:
                if setting.number:
                    parts = len(self._parts[setting.number])
                    self._sample(setting.number, self.experiment.more(self.point, setting, parts, more))
            means = means_of(self.experiment, self._merged(), self.readout)
        return means

    def _more(self, means: Sequence[Mean], target: float, left: int | None) -> int:
        """How many repetitions of each basis run next: those that are missing, as far as they may."""
        bases = len(self.experiment.bases)
        if not bases:
            return 0
        merged = self._merged()
        wanted = observables.more_repetitions(means, merged[1].repetitions, target)
        if left is None:
            return wanted
        spent = sum(samples.repetitions for samples in merged.values())
        return min(wanted, (left - spent) // bases)
