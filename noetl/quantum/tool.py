"""kind: quantum - circuits on simulators and on machines elsewhere, with all that is needed to
repeat them."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Final

from noetl.errors import ToolError
from noetl.facts.json import Json
from noetl.facts.outcome import Outcome
from noetl.pipeline.model import Call, Suspension
from noetl.quantum.config.task import LATER, LOCAL, REMOTE, SENDING, QuantumConfig, as_mapping
from noetl.quantum.config.written import WrittenQuantum
from noetl.quantum.session import Clocks, SharedResources, TaskSession
from noetl.tools.kit import effects
from noetl.tools.kit.base import Services, Tool
from noetl.tools.kit.calls import RunningCalls
from noetl.tools.kit.declaration import ToolDeclaration

#: Actions that reach the vendor, in words.
_DOES: Final[Mapping[str, str]] = {
    "run": "jobs on",
    "expect": "jobs on",
    "submit": "jobs on",
    "poll": "asks for a job of",
    "fetch": "asks for a job of",
    "cancel": "cancels a job of",
    "estimate": "asks for prices and queue of",
}


class Quantum(Tool):
    """Runs circuits of Cirq: samples them, yields expectation values, sweeps over parameters, on a
    simulator in the worker or on a machine elsewhere. [Quantum experiments](../quantum.md) is the
    tutorial.

    **Circuit.** Exactly one of `qasm` (OpenQASM 2 or 3; may hold templates), `cirq_json`, `ref`
    (what another task made), `builder` (`ghz`, `qft`, `grover`, `qaoa_maxcut`,
    `hardware_efficient`, `random`) and `code` (Python that yields a `cirq.Circuit`, run like a
    [python](python.md) task with the same inputs and isolation).

    **Sweeps.** `params` gives values to the circuit's symbols: one mapping (`{theta: 0.3}`), or
    `product`, `zip` or `list` of them, in which an axis is a list or `{linspace: [start, stop,
    count]}`; numbers may be texts such as `pi/4`. All points run in one task. About every 10 s of
    work (in long sweeps after a twentieth of the time spent) the finished points are kept, and the
    task's checkpoint says how many; a worker that dies, and a task that is tried again, go on
    behind them.

    **Randomness.** The same `seed` yields the same histograms: across restarts and replays, on any
    number of workers, in one task or in parts. Each point and basis draws from a separate stream.
    A task without `seed` draws one from its idempotency key, so that all tries of a command agree,
    and its result says which.

    **Expectation values.** `observables` are Pauli strings or sums of them over the circuit's
    qubits in Cirq's order, from 0: `{zz: "Z0 Z1", energy: {"Z0": 0.4, "X0 X1": 0.2}}`. They are
    exact on simulators, unless `repetitions`, `target_stderr` or `estimator: sampled` ask for
    samples: then terms that commute qubit by qubit are measured together, and every mean has its
    standard error.

    **Limits** are checked before anything runs or is sent. A sweep that meets `max_points`,
    `max_shots` or `max_cost` runs the points that fit: its result has `complete: false`, where to
    go on (`next`) and why it ended (`stopped`), and `resume: "{{ that_result }}"` runs the others.
    A state that needs more than `max_memory_mb` (by default what the machine has free) is refused.

    **Elsewhere.** On `ionq` and `aqt` a task submits its circuits as jobs, waits for them without a
    worker, and fetches what they measured. What was submitted is in the log before anything is
    waited for, and jobs carry a token of their command: a worker that dies finds them again, and
    none is paid for twice. A task whose time is over, or that is cancelled with its execution,
    cancels its jobs. `google` simulates a processor (`target: willow_pink`), with its
    noise, in the worker. `submit`, `poll`, `fetch` and `cancel` are the parts of this as separate
    tasks; a simulator has no queue, so there `submit` only holds what is to run, and `fetch`
    runs it.

    **Provenance.** Every result says what ran: hashes of the source, of the circuit and of what was
    sent, of sweep and noise; seed, repetitions, machine and its calibration, versions, execution
    and step. `diagram` in it is the circuit as text, to be looked at. `verify` with
    `of: "{{ result }}"` runs it again and compares: on a simulator histograms must be equal.

    Work for different machines is separated by `spec.queue`, such as `quantum.ionq` for a pool of
    workers with that credential."""

    declaration = ToolDeclaration(
        kind="quantum",
        queue="quantum",
        sections=("jobs", "py", "quantum"),
        effects="external",
        description="Runs quantum circuits and sweeps on simulators and vendors' machines, with provenance.",
        result="""
            Of `run`, `expect` and `fetch`: `{points, bits, seed, complete, next, stopped, job, provenance}`.
            Each of `points` is `{index, params, histogram, expectation, means, repetitions}`: `histogram` is
            bitstring → count, big-endian, the bits of all measurements in the order of `bits.measured`
            (`{key, qubits}`); `expectation` is a list of `{observable, mean, stderr}`, and `means` the same
            means by name. Exactly one point stands at the top as well. With mitigation of readout `mitigated`
            stands beside the histogram. What `keep` names is a reference to Parquet: `samples` (`point,
            order, key, repetition, bits`), `state_vector` (`point, state, re, im`), `density_matrix` (`point,
            row_state, column_state, re, im`).

            Of `estimate`: `{points, orders, repetitions, qubits, depth, operations, report, bytes, cost,
            currency, queue, queue_s, fits, stopped}`; what a vendor does not tell is null. Of `compile`:
            `{circuit, report, qubits, depth, operations, sha256}` (with several points, `points` of such),
            which `ref` of another task takes. `report` has the circuit as it was given and as it is sent,
            `before` and `after`: `{operations, depth, two_qubit, two_qubit_depth, gates}`, where `depth` are
            moments, `two_qubit` gates of two qubits or more, `two_qubit_depth` moments with such gates, and
            `gates` how many operations there are of each kind. That of `compile` also says `gateset`,
            `placement`, `optimize`, and under `mapping` where each qubit was placed, `initial` and `final`.
            Of `submit`: `{job, points, stopped, provenance}`; of `poll` and `cancel`: `{status, ready, job}`.
            Of `verify`: `{verified, repeated, differences, versions_differ, points}`.
        """,
        errors="""
            What the author can mend is of kind `client_error`, and its type says what: `QasmError` (with
            line), `UnresolvedSymbols`, `NoMeasurement`, `NotClifford`, `BadCircuit`, `BadParams`... A bound
            is of kind `limit`: `TooManyQubits`, `TooMuchMemory`, `OverPoints`, `OverShots`, `OverCost`,
            `OverQueue`. Errors of code are those of [python](python.md#errors); vendors' are of kind `auth`,
            `rate_limit`, `server_error` or `connection`, as of [http](http.md#errors). `verify` fails with
            `Differs` where results differ, unless `on_difference: report`.
        """,
        example="""
            - step: bell
              tool:
                kind: quantum
                seed: 7
                repetitions: 200
                qasm: |
                  OPENQASM 2.0;
                  include "qelib1.inc";
                  qreg q[2];
                  creg c[2];
                  h q[0];
                  cx q[0], q[1];
                  measure q -> c;
                observables: {zz: "Z0 Z1"}
                estimator: exact
              next: end
            - step: end
              tool:
                kind: noop
                input:
                  seen: "{{ bell.histogram.keys() | list | sort }}"
                  zz: "{{ bell.means.zz | round(3) }}"
        """,
        config_model=QuantumConfig,
        written_model=WrittenQuantum,
        verbatim=("code",),
        python_keys=("code",),
        suspends=True,
        abandons=True,
        by_reference=("ref", "of", "resume", "job"),
        credentials=("backend.auth",),
    )

    def __init__(self, services: Services, clocks: Clocks | None = None) -> None:
        super().__init__(services)
        self._running = RunningCalls()
        self._held = SharedResources(services, clocks or Clocks(services.clock))

    def run(self, call: Call, config: QuantumConfig) -> Outcome | Suspension:
        if call.abandoned and not (config.action in SENDING and config.backend.provider in REMOTE):
            # It has sent no jobs.
            raise ToolError("cancelled", "The task is not waited for any more.", type="Abandoned")
        # Imported here: Cirq takes seconds, and the compiler reads this module without calling it.
        from noetl.quantum.actions import act

        deadline_s = self.deadline(call)
        with self._running.enter(call) as stop:
            ends = time.monotonic() + deadline_s
            return act(TaskSession(call, config, self.services, self._held, stop, deadline_s, ends))

    def interrupt(self, call: Call) -> None:
        self._running.interrupt(call)
        self._held.runners.interrupt(call)

    def close(self) -> None:
        self._held.close()

    @classmethod
    def touches(cls, config: Mapping[str, Json]) -> tuple[str, ...]:
        given = config.get("backend")
        backend = as_mapping(given) or {"provider": given or "simulator"}
        provider, action = str(backend.get("provider", "simulator")), str(config.get("action", "run"))
        code = ("code",) if config.get("code") is not None else ()
        if action in LATER and given is None:
            # Of another task's job or result: which machine it is about is known only then.
            key = "of" if action == "verify" else "job"
            return (*code, f"the machine that its `{key}` is of, with that task's credential")
        if provider in LOCAL or action not in _DOES:
            return code
        target = backend.get("target")
        machine = f"{provider} {target}" if target else provider
        host = f" at {effects.address(backend['host'])}" if backend.get("host") else ""
        return (*code, f"{_DOES[action]} {effects.one_line(machine)}{host}")
