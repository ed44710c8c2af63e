"""Sweeps of circuits: `python -m benchmarks.quantum [--points N] [--reps N]`.

The same points in plain Cirq (`benchmarks/quantum_by_hand.py`), as one task of kind quantum, and as
a parallel loop with one task for each point, the last two with `noetl run`. All are processes of
their own, from their start to their end, in turn; the circuit takes 10 ms or more. The raw data go
to `benchmarks/results/latest.json` under `quantum`.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import cirq

from benchmarks import machine, report
from benchmarks.quantum_by_hand import REPETITIONS, angles, circuit

_HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: sweep, path: sweep}\n"
_SWEEP = """workload: {points: [], circuit: ''}
workflow:
- step: start
  tool:
    kind: quantum
    cirq_json: "{{ workload.circuit }}"
    params: {product: {t: "{{ workload.points }}"}}
    repetitions: %d
  next: end
- step: end
  tool: {kind: noop, input: {points: "{{ start.points | length }}"}}
"""
_LOOP = """workload: {points: [], circuit: ''}
workflow:
- step: start
  loop: {in: "{{ workload.points }}", iterator: t, spec: {mode: parallel, max_in_flight: 2}}
  tool:
    kind: quantum
    cirq_json: "{{ workload.circuit }}"
    params: {t: "{{ iter.t }}"}
    repetitions: %d
  next: end
- step: end
  tool: {kind: noop, input: {points: "{{ start.results | length }}"}}
"""


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.quantum", description=__doc__)
    parser.add_argument("--points", type=int, default=1_000, help="points of the sweep (default: 1000)")
    parser.add_argument("--reps", type=int, default=3, help="samples of each (default: 3)")
    args = parser.parse_args(argv)
    latest = report.RESULTS / "latest.json"
    measured = _measured(args.points, args.reps)
    found = json.loads(latest.read_text()) if latest.exists() else {}
    found["quantum"] = {
        "command": " ".join(["python -m benchmarks.quantum", *map(machine.bare, argv or sys.argv[1:])]),
        "at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        **measured,
    }
    latest.write_text(json.dumps(found, indent=1) + "\n")
    print(report.quantum(found["quantum"]))
    return 0


def _measured(points: int, reps: int) -> dict[str, Any]:
    samples: dict[str, list[dict[str, float]]] = {"by_hand": [], "sweep": [], "loop": []}
    loads, circuits = [], []
    with tempfile.TemporaryDirectory(prefix="noetl-bench-quantum-") as folder:
        for number in range(reps):
            loads.append(machine.load())
            for name, argv in _runs(points, Path(folder, str(number))).items():
                seconds, cpu, said = _timed(argv, Path(folder, str(number), name))
                if name == "by_hand":
                    circuits.append(round(said["loop_s"] / points * 1000, 2))
                samples[name].append({"seconds": seconds, "cpu_s": cpu})
                print(f"{name}: {samples[name][-1]}, load {machine.load()}", flush=True)
    return {"points": points, "circuit_ms": circuits, "samples": samples, "load1": loads}


def _runs(points: int, folder: Path) -> dict[str, list[str]]:
    """What is started, by name."""
    folder.mkdir()
    payload = folder / "payload.json"
    payload.write_text(json.dumps({"points": angles(points), "circuit": cirq.to_json(circuit())}))
    runs = {"by_hand": [sys.executable, "-m", "benchmarks.quantum_by_hand", str(points)]}
    for name, body in (("sweep", _SWEEP), ("loop", _LOOP)):
        playbook = folder / f"{name}.yaml"
        playbook.write_text(_HEAD + body % REPETITIONS)
        runs[name] = [
            sys.executable,
            "-m",
            "noetl",
            "run",
            str(playbook),
            "--json",
            "--payload",
            str(payload),
        ]
    return runs


def _timed(argv: Sequence[str], home: Path) -> tuple[float, float, Any]:
    """Seconds and CPU seconds of a process, and what it printed as JSON. Raises RuntimeError where
    it went wrong."""
    home.mkdir()
    kept = {name: value for name, value in os.environ.items() if not name.startswith("NOETL_")}
    began = time.perf_counter()
    with (home / "said.json").open("w") as out:
        process = subprocess.Popen(argv, stdout=out, env={**kept, "NOETL_HOME": str(home)})
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    seconds = time.perf_counter() - began
    said = json.loads((home / "said.json").read_text())
    if process.returncode:
        raise RuntimeError(f"{argv} ended with {process.returncode}: {said.get('error')}")
    return round(seconds, 3), round(used.ru_utime + used.ru_stime, 3), said


if __name__ == "__main__":
    sys.exit(main())
