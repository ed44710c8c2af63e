"""A mock of IonQ's API v0.4: it queues jobs, simulates their circuits, counts what would be paid,
and fails as it is told.

What it knows of the API: https://docs.ionq.com/api-reference/v0.4
"""

from __future__ import annotations

import itertools
import json
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from math import pi
from typing import Any
from urllib.parse import parse_qs, urlsplit

import cirq

from tests.httpd import Handler, Server

KEY = "key-of-the-mock-that-nobody-may-see"
CALIBRATION = {"id": "cal-1", "date": "2026-01-02T03:04:05Z"}
#: What may go wrong with a request: an action on its handler in the place of the right answer, or
#: after it.
Fault = str

_ONE: dict[str, cirq.Gate] = {
    "x": cirq.X,
    "y": cirq.Y,
    "z": cirq.Z,
    "h": cirq.H,
    "s": cirq.S,
    "si": cirq.S**-1,
    "t": cirq.T,
    "ti": cirq.T**-1,
    "v": cirq.X**0.5,
    "vi": cirq.X**-0.5,
    "swap": cirq.SWAP,
}
_TURNED: dict[str, Any] = {
    "rx": cirq.X,
    "ry": cirq.Y,
    "rz": cirq.Z,
    "xx": cirq.XX,
    "yy": cirq.YY,
    "zz": cirq.ZZ,
}


def probabilities(program: dict[str, Any]) -> dict[str, float]:
    """What the API answers for a circuit: state (qubit 0 is its lowest bit) → probability."""
    qubits = cirq.LineQubit.range(program["qubits"])
    circuit = cirq.Circuit(_operation(gate, qubits) for gate in program["circuit"])
    vector = circuit.final_state_vector(qubit_order=qubits[::-1])
    return {str(state): float(abs(one) ** 2) for state, one in enumerate(vector) if abs(one) ** 2 > 1e-9}


def _operation(gate: dict[str, Any], qubits: list[cirq.LineQubit]) -> cirq.Operation:
    name = gate["gate"]
    if name == "cnot":
        return cirq.CNOT(qubits[gate["control"]], qubits[gate["target"]])
    targets = [qubits[one] for one in gate.get("targets") or [gate["target"]]]
    if name in _TURNED:
        return (_TURNED[name] ** (gate["rotation"] / pi)).on(*targets)
    return _ONE[name].on(*targets)


@dataclass
class Job:
    id: str
    body: dict[str, Any]
    at: float
    cancelled_at: float | None = None
    fetched: int = 0
    failure: dict[str, str] | None = None


class IonQServer(Server):
    """`queue_s` and `run_s` are the times of a job by `clock`, `lag_s` how late it appears in
    lists, `page` the most jobs on one. `faults` are what happens to the next requests, by method
    and a pattern of the path."""

    def __init__(self, port: int = 0) -> None:
        super().__init__(port)
        self.RequestHandlerClass = _Handler
        self.clock: Callable[[], datetime] = lambda: datetime.now(UTC)
        self.lock = threading.RLock()
        self.jobs: dict[str, Job] = {}
        self.queue_s = self.run_s = self.lag_s = 0.0
        self.page = 100
        self.faults: list[tuple[str, str, Fault]] = []
        self.spoils: list[tuple[str, str, Callable[[Any], Any]]] = []
        #: Failure of every job, as the API tells it.
        self.failure: dict[str, str] | None = None
        self.asked: list[tuple[str, str]] = []
        self._numbers = itertools.count(1)

    def fail(self, method: str, path: str, *faults: Fault) -> None:
        """The next requests of this kind meet these faults, one each."""
        with self.lock:
            self.faults += [(method, path, fault) for fault in faults]

    def fault_of(self, method: str, path: str) -> Fault | None:
        with self.lock:
            self.asked.append((method, path))
            for number, (verb, pattern, fault) in enumerate(self.faults):
                if verb == method and re.fullmatch(pattern, path):
                    del self.faults[number]
                    return fault
        return None

    def spoil(self, method: str, path: str, how: Callable[[Any], Any]) -> None:
        """From now on right answers to requests of this kind are told as `how` makes them."""
        with self.lock:
            self.spoils.append((method, path, how))

    def spoilt(self, method: str, path: str, said: Any) -> Any:
        for verb, pattern, how in self.spoils:
            if verb == method and re.fullmatch(pattern, path):
                said = how(said)
        return said

    def count(self, method: str, path: str) -> int:
        """How many requests of this kind came."""
        with self.lock:
            return sum(1 for verb, one in self.asked if verb == method and re.fullmatch(path, one))

    def paid(self) -> list[Job]:
        """Jobs that cost something: those that were not cancelled while they waited."""
        with self.lock:
            return [
                job
                for job in self.jobs.values()
                if job.cancelled_at is None or job.cancelled_at > job.at + self.queue_s
            ]

    def tokens(self) -> list[str]:
        """The tokens of the paid jobs."""
        return sorted(job.body["metadata"]["noetl"] for job in self.paid())

    # --- what it answers -------------------------------------------------------------------------

    def now(self) -> float:
        return self.clock().timestamp()

    def made(self, body: dict[str, Any]) -> Job:
        with self.lock:
            job = Job(f"job-{next(self._numbers):04}", body, self.now(), failure=self.failure)
            self.jobs[job.id] = job
            return job

    def status(self, job: Job) -> str:
        now = self.now()
        if job.cancelled_at is not None:
            return "canceled"
        if now < job.at + self.queue_s:
            return "ready"
        if now < job.at + self.queue_s + self.run_s:
            return "started"
        return "failed" if job.failure else "completed"

    def told(self, job: Job) -> dict[str, Any]:
        status = self.status(job)
        begun, ended = job.at + self.queue_s, job.at + self.queue_s + self.run_s
        over = status in ("completed", "failed")
        return {
            "id": job.id,
            "status": status,
            "type": job.body["type"],
            "backend": job.body["backend"],
            "metadata": job.body.get("metadata"),
            "name": job.body.get("name"),
            "submitted_at": _iso(job.at),
            "started_at": _iso(begun) if status == "started" or over else None,
            "completed_at": _iso(ended) if over else None,
            "execution_duration_ms": int(self.run_s * 1000) if over else None,
            "failure": job.failure if status == "failed" else None,
            "shots": job.body["shots"],
        }

    def listed(self, asked: dict[str, list[str]]) -> dict[str, Any]:
        ids, size = asked.get("ids"), min(int(asked.get("limit", ["25"])[0]), self.page)
        with self.lock:
            known = sorted(self.jobs.values(), key=lambda job: (job.at, job.id), reverse=True)
        if ids:
            known = [job for job in known if job.id in ids]
        else:
            known = [job for job in known if self.now() >= job.at + self.lag_s]
        if target := asked.get("target"):
            known = [job for job in known if job.body["backend"] in target[0].split(",")]
        start = int(asked.get("next", ["0"])[0])
        more = str(start + size) if start + size < len(known) else None
        return {"jobs": [self.told(job) for job in known[start : start + size]], "next": more}


def _iso(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat().replace("+00:00", "Z")


class _Handler(Handler):
    server: IonQServer

    def _ask(self) -> None:
        body = self.receive()
        url = urlsplit(self.path)
        path = url.path.removeprefix("/v0.4/")
        fault = self.server.fault_of(self.command, path)
        try:
            if fault is None or fault == "drop":
                self._right(path, parse_qs(url.query), json.loads(body) if body else {}, drop=fault == "drop")
            else:
                self._wrong(fault)
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True

    do_GET = do_POST = do_PUT = do_DELETE = _ask  # noqa: N815 - the names of the base class

    def _wrong(self, fault: Fault) -> None:
        match fault:
            case "hang":
                self.server.stopping.wait()
            case "refuse":
                self.close_connection = True
            case "garbage":
                self.answer(b"<html>", content_type="application/json")
            case "truncated":
                self.answer(b'{"jobs": [{"id": "job-00', content_type="application/json")
            case "429":
                self.json({"message": "slow down"}, 429, retry_after="3600")
            case "busy":
                self.json({"message": "slow down"}, 429)
            case "301" | "302" | "307":
                self.answer(status=int(fault), location="https://elsewhere.example/v0.4/jobs?key=1")
            case _:
                self.json({"message": f"told to, with {KEY}"}, int(fault))

    def _right(self, path: str, asked: dict[str, list[str]], body: dict[str, Any], *, drop: bool) -> None:
        if self.headers.get("authorization") != f"apiKey {KEY}":
            return self.json({"message": "unauthorized"}, 401)
        status, said = self._said(path, asked, body)
        said = self.server.spoilt(self.command, path, said)
        if drop:
            self.close_connection = True
            return None
        return self.json(said, status)

    def _said(self, path: str, asked: dict[str, list[str]], body: dict[str, Any]) -> tuple[int, Any]:
        server = self.server
        if (self.command, path) == ("POST", "jobs"):
            job = server.made(body)
            return 201, {"id": job.id, "status": "submitted", "session_id": None}
        if path == "jobs":
            return 200, server.listed(asked)
        if path == "jobs/estimate":
            cost = int(asked["shots"][0]) * 0.01 + int(asked["2q_gates"][0])
            return 200, {
                "estimated_total_cost": cost,
                "estimated_unit": "usd",
                "current_predicted_queue_time": 90_000,
            }
        if path.startswith("backends/"):
            return 200, {"characterizations": [CALIBRATION]}
        parts = path.split("/")
        found = server.jobs.get(parts[1])
        return (404, {"message": "not found"}) if found is None else self._of_job(found, parts[2:])

    def _of_job(self, job: Job, rest: list[str]) -> tuple[int, Any]:
        match self.command, rest:
            case "GET", []:
                return 200, self.server.told(job)
            case "GET", ["cost"]:
                return 200, {"dry_run": False, "cost": {"value": 1.5, "unit": "usd"}}
            case "PUT", ["status", "cancel"]:
                # As the real one: also where it is completed, which loses the results.
                job.cancelled_at = self.server.now()
                return 200, {"id": job.id, "status": "canceled"}
            case "GET", ["results", "probabilities"]:
                if self.server.status(job) != "completed":
                    return 404, {"message": "no results"}
                job.fetched += 1
                return 200, probabilities(job.body["input"])
            case _:
                return 404, {"message": "no such route"}


@contextmanager
def serving(make: Callable[[], Server] = IonQServer) -> Iterator[Any]:
    """A mock on a port of its own."""
    server = make()
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
    try:
        yield server
    finally:
        server.stopping.set()
        server.shutdown()
        server.server_close()
