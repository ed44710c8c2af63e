"""Rows in bulk: `python -m benchmarks.rows [--rows N] [--reps N]`.

PostgreSQL → a table of the result store → DuckDB and Parquet, as a playbook in `noetl run`, in turn
with a script that does the same by hand (`benchmarks/rows_by_hand.py`: psycopg2's COPY into a file,
which DuckDB reads). Both are processes of their own; the time is that of the execution, and of the
script behind its imports; the memory is the most that the process and its children had. The raw
data go to `benchmarks/results/latest.json` under `rows`.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import psutil
import psycopg2
from sqlalchemy import make_url

from benchmarks import machine, report
from benchmarks.servers import NotDurable, servers
from tests.services import Missing

PLAYBOOK = Path(__file__).parent / "playbooks" / "rows.yaml"
TABLE = """CREATE TABLE bench AS SELECT n AS id, 'customer ' || n %% 5000 AS name,
    (n %% 100000 / 100.0)::numeric(12, 2) AS amount,
    timestamptz '2026-01-01' + n * interval '1 second' AS at, n %% 3 = 0 AS paid, md5(n::text) AS digest
    FROM generate_series(1, %s) AS n"""


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.rows", description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000, help="rows of the table (default: 1000000)")
    parser.add_argument("--reps", type=int, default=3, help="samples of each (default: 3)")
    args = parser.parse_args(argv)
    latest = report.RESULTS / "latest.json"
    try:
        measured = _measured(args.rows, args.reps)
    except (Missing, NotDurable) as error:
        print(f"Cannot measure: {error}", file=sys.stderr)
        return 2
    found = json.loads(latest.read_text()) if latest.exists() else {}
    found["rows"] = {
        "command": " ".join(["python -m benchmarks.rows", *map(machine.bare, argv or sys.argv[1:])]),
        "at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        **measured,
    }
    latest.write_text(json.dumps(found, indent=1) + "\n")
    print(report.rows(found["rows"]))
    return 0


def _measured(rows: int, reps: int) -> dict[str, Any]:
    samples: dict[str, list[dict[str, float]]] = {"by_hand": [], "noetl": []}
    loads: list[float] = []
    with servers() as ours, tempfile.TemporaryDirectory(prefix="noetl-bench-rows-") as folder:
        dsn = make_url(ours.database_url).set(drivername="postgresql").render_as_string(hide_password=False)
        with psycopg2.connect(dsn) as connection, connection.cursor() as cursor:
            cursor.execute(TABLE, (rows,))
        runs: dict[str, Callable[[Path], dict[str, float]]] = {
            "by_hand": lambda home: _by_hand(dsn, home, rows),
            "noetl": lambda home: _noetl(dsn, home, rows),
        }
        for number in range(reps):
            loads.append(machine.load())
            for name, run in runs.items():
                home = Path(folder, f"{name}-{number}")
                home.mkdir()
                samples[name].append(run(home))
                print(f"{name}: {samples[name][-1]}, load {machine.load()}", flush=True)
    return {"rows": rows, "samples": samples, "load1": loads, "settings": dict(ours.settings)}


def _by_hand(dsn: str, home: Path, rows: int) -> dict[str, float]:
    said, peak = _watched([sys.executable, "-m", "benchmarks.rows_by_hand", dsn, str(home)], home)
    return _sample(said["seconds"], peak, said["rows"], rows, home)


def _noetl(dsn: str, home: Path, rows: int) -> dict[str, float]:
    playbook = home / "rows.yaml"
    playbook.write_text(PLAYBOOK.read_text())
    argv = [sys.executable, "-m", "noetl", "run", str(playbook), "--json", "--set", f"dsn={dsn}"]
    said, peak = _watched(argv, home)
    if said["status"] != "completed":
        raise RuntimeError(f"The playbook is {said['status']}: {said['error']}")
    return _sample(said["duration_ms"] / 1000, peak, said["result"]["rows"][0]["rows"], rows, home)


def _sample(seconds: float, peak_mb: float, came: int, rows: int, home: Path) -> dict[str, float]:
    if came != rows or not (home / "rows.parquet").exists():
        raise RuntimeError(f"{came} rows came, not {rows}.")
    return {"seconds": round(seconds, 3), "peak_mb": round(peak_mb, 1)}


def _watched(argv: Sequence[str], home: Path) -> tuple[Any, float]:
    """What a process prints as JSON, and the most memory (PSS, MB) that it and its children had at
    a time."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("NOETL_")}
    environment = {**kept, "NOETL_HOME": str(home / "home")}
    said = home / "said.json"
    # A file: nobody reads while the process is watched, and a pipe would fill.
    with said.open("w") as out, subprocess.Popen(argv, stdout=out, env=environment) as process:
        peak = 0.0
        while process.poll() is None:
            peak = max(peak, _pss(process.pid))
            time.sleep(0.05)
    return json.loads(said.read_text()), peak


def _pss(pid: int) -> float:
    total = 0
    for one in machine.family(pid):
        try:
            total += one.memory_full_info().pss
        except psutil.Error:
            continue
    return total / 1e6


if __name__ == "__main__":
    sys.exit(main())
