"""A sweep on a simulator: point after point, resumable, in the worker."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from noetl.facts.json import Json, JsonMap
from noetl.facts.reference import plain
from noetl.pipeline.model import Later
from noetl.quantum.experiment import Experiment
from noetl.quantum.kept import Keeper, Parts
from noetl.quantum.limits import Room
from noetl.quantum.model import LocalBackend
from noetl.quantum.results import bare
from noetl.quantum.session import Session, now
from noetl.quantum.simulation.mitigation import Readout
from noetl.quantum.simulation.point import PointRun
from noetl.tools.kit.large import kept_for
from noetl.tools.kit.references import loaded

#: Finished points are kept about this often, in seconds of work; in long sweeps, after this part of the time spent.
KEEP_EVERY_S: Final = 10.0
_PART: Final = 0.05


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a sweep has come: the next point, the repetitions that ran, and references to what is kept."""

    next: int
    shots: int = 0
    spent_s: float = 0.0
    started_at: str = ""
    points: tuple[JsonMap, ...] = ()
    tables: Parts = field(default_factory=dict)

    def checkpoint(self, of: int, identity: str) -> JsonMap:
        # References as text: those in a checkpoint would be opened when it is handed back.
        kept = json.dumps({"points": self.points, "tables": self.tables})
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


def begun(checkpoint: Json, identity: str, first: int, tables: Parts) -> Progress:
    """Where the sweep goes on: behind its last checkpoint, if that is of the same experiment, else at `first`."""
    if not isinstance(checkpoint, Mapping) or checkpoint.get("identity") != identity:
        return Progress(first, started_at=now(), tables=tables)
    kept = json.loads(checkpoint["kept"])
    return Progress(
        checkpoint["done"],
        checkpoint["shots"],
        checkpoint["spent_s"],
        checkpoint["started_at"],
        tuple(kept["points"]),
        kept["tables"],
    )


@dataclass(frozen=True, slots=True)
class Finished:
    """All points that were to run. `next` is the first one that did not, and `stopped` why, where the repetitions ran out."""

    points: list[dict[str, Any]]
    tables: Mapping[str, Json]
    shots: int
    next: int
    stopped: JsonMap | None
    started_at: str
    run_s: float


@dataclass(frozen=True, slots=True)
class Sweep:
    """One call of a sweep. `first` is the point that it begins with, `room` how many may run; `tables` are parts of what is
    kept that were there before."""

    session: Session
    experiment: Experiment
    backend: LocalBackend
    first: int
    room: Room
    tables: Parts = field(default_factory=dict)
    _began: float = field(default_factory=time.monotonic)

    def run(self, identity: str) -> Finished | Later:
        """Runs until all is done, or until it is time to keep what is. Raises ToolError."""
        session, experiment = self.session, self.experiment
        before = begun(session.call.checkpoint, identity, self.first, self.tables)
        end = self.first + self.room.points
        fresh: list[dict[str, Any]] = []
        shots, stopped = before.shots, None
        readout = self._readout()
        with Keeper(session, before.tables) as keeper:
            for number in range(before.next, end):
                if fresh and self._is_time(before):
                    progress = self._kept(before, fresh, shots, keeper)
                    return Later(0.0, progress.checkpoint(end, identity))
                left = self._left(shots)
                if left is not None and left < experiment.shots:
                    stopped = self._out_of_shots()
                    break
                point = PointRun(
                    session, experiment, self.backend, keeper, readout, experiment.points[number]
                )
                fresh.append(found := point.run(left))
                shots += found["repetitions"]
            tables = keeper.tables()
        points = [*self._loaded(before), *fresh]
        return Finished(
            points,
            tables,
            shots,
            self.first + len(points),
            stopped,
            before.started_at,
            before.spent_s + self._spent,
        )

    def _readout(self) -> Readout | None:
        orders = self.experiment.calibrations()
        return self.experiment.readout([self.backend.sample(order) for order in orders])

    @property
    def _spent(self) -> float:
        return time.monotonic() - self._began

    def _is_time(self, before: Progress) -> bool:
        if self.session.services.results is None:
            return False
        return self._spent > max(KEEP_EVERY_S, _PART * before.spent_s)

    def _kept(self, before: Progress, fresh: list[dict[str, Any]], shots: int, keeper: Keeper) -> Progress:
        results, call = self.session.services.results, self.session.call
        assert results is not None  # see `_is_time`
        page = results.put(fresh, kept_for(call))
        return Progress(
            before.next + len(fresh),
            shots,
            before.spent_s + self._spent,
            before.started_at,
            (*before.points, bare(page)),
            {name: [bare(part) for part in parts] for name, parts in keeper.parts().items()},
        )

    def _loaded(self, before: Progress) -> list[dict[str, Any]]:
        results = self.session.services.results
        return [point for page in before.points for point in plain(loaded(page, results, "The checkpoint"))]

    def _left(self, shots: int) -> int | None:
        """Repetitions that may still run; None where there is no bound but `room`'s."""
        most = self.experiment.config.limits.max_shots
        if most is None or self.experiment.config.target_stderr is None:
            return None
        return most - shots

    def _out_of_shots(self) -> JsonMap:
        limits = self.experiment.config.limits
        return {"limit": "max_shots", "at": limits.max_shots, "of": None}
