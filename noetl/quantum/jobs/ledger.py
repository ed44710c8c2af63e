"""The ledger of a task's jobs: what its checkpoint holds."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Final

import cirq
import numpy
from pydantic import TypeAdapter

from noetl.facts.json import Json, JsonMap
from noetl.quantum.circuits.measurements import readout
from noetl.quantum.model import CircuitRun, JobState, Samples

#: Of a job that has not ended.
LIVE: Final = frozenset({"queued", "running"})
#: Of a job that counts no more.
DEAD: Final = frozenset({"failed", "cancelled"})


@dataclass(frozen=True, slots=True)
class JobLedger:
    """`orders` is their hash. `sending` are the orders that the holder of `ticket` may send;
    `doubted` those that may have been sent by somebody who is not there any more, which `missed_at`
    were looked for in vain. `contested_at`: since then two may have sent the same, and a last look
    is due. `changed_at` is when something was last heard of the jobs, `troubled_at` since when
    nothing could be; instants are ISO 8601 in UTC, empty: none. `samples` are results by order (see
    `samples_as_json`), `error` what the next call fails with; `surplus` are ids of jobs that are
    one too many, to be cancelled; `resent` are orders that were sent again in this attempt though
    they could not be looked for; `leaving_at`: since then its jobs are being cancelled."""

    orders: str
    attempt: int
    since: str
    changed_at: str
    reserve_s: float = 0.0
    ticket: str = ""
    sending: tuple[str, ...] = ()
    doubted: tuple[str, ...] = ()
    missed_at: str = ""
    contested_at: str = ""
    troubled_at: str = ""
    jobs: Mapping[str, JobState] = field(default_factory=dict)
    samples: Mapping[str, Json] = field(default_factory=dict)
    error: JsonMap | None = None
    leaving_at: str = ""
    surplus: tuple[str, ...] = ()
    resent: tuple[str, ...] = ()

    def those(self, statuses: Collection[str]) -> dict[str, JobState]:
        """The jobs of these statuses, by order."""
        return {name: job for name, job in self.jobs.items() if job.status in statuses}

    def with_job(self, name: str, job: JobState, now: str) -> JobLedger:
        if self.jobs.get(name) == job:
            return self
        return replace(self, jobs={**self.jobs, name: job}, changed_at=now, troubled_at="")

    def as_json(self) -> JsonMap:
        """Without what is as it is by default, so that it is short in the log."""
        phase = "submit" if self.sending or self.doubted or not self.jobs else "wait"
        said = {"phase": phase, **_LEDGERS.dump_python(self, mode="json", exclude_defaults=True)}
        return {**said, "jobs": {name: short(job) for name, job in self.jobs.items()}} if self.jobs else said


_LEDGERS: Final = TypeAdapter(JobLedger)


def read_ledger(checkpoint: Json) -> JobLedger | None:
    """What `as_json` wrote; None where there is nothing yet."""
    if not isinstance(checkpoint, Mapping):
        return None
    return _LEDGERS.validate_python({name: value for name, value in checkpoint.items() if name != "phase"})


def short(job: JobState) -> JsonMap:
    """The state as JSON, without what is unknown."""
    return {name: value for name, value in asdict(job).items() if value not in ("", None, {}, False)}


def hash_of(orders: Sequence[CircuitRun]) -> str:
    """Tells these orders from others. Of the circuits it is the first and the last: enough to see
    that another version builds other ones, at a price that does not grow with a sweep."""
    places = [[one.name, one.point, one.repetitions, one.seed] for one in orders]
    circuits = [cirq.to_json(one.circuit, indent=None) for one in (*orders[:1], *orders[-1:])]
    return hashlib.sha256(json.dumps([places, circuits]).encode()).hexdigest()


def samples_as_json(samples: Samples) -> JsonMap:
    """Samples as JSON, without what the order says of them."""
    said: dict[str, Json] = {"counts": dict(samples.counts)}
    if samples.bits is not None:
        said["bits"] = base64.b64encode(numpy.packbits(samples.bits).tobytes()).decode("ascii")
        said["shape"] = list(samples.bits.shape)
    return said


def samples_from_json(said: JsonMap, order: CircuitRun) -> Samples:
    """What `samples_as_json` was given."""
    bits = None
    if "bits" in said:
        rows, columns = said["shape"]
        packed = numpy.frombuffer(base64.b64decode(said["bits"]), dtype=numpy.uint8)
        bits = numpy.unpackbits(packed, count=rows * columns).reshape(rows, columns)
    return Samples(readout(order.circuit).measured, said["counts"], bits)
