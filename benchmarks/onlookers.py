"""Whether browsers that have pages open slow starts down: `python -m benchmarks.onlookers
[--browsers N] [--reps N] [--seconds S]`.

The API server runs as `benchmarks.starts` has it, on PostgreSQL and Redis. Executions are started
over HTTP, one each tenth of a second, in rounds without and with `benchmarks.browsers`, in turn; in
both some other executions go on, for somebody to look at. The browsers take their share of this
machine's cores, as they would not from elsewhere: that share is measured as well.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg2.extensions

from benchmarks import machine
from benchmarks.browsers import middle
from benchmarks.cpu import read_seconds
from benchmarks.report import onlookers as table
from benchmarks.servers import NotDurable, servers
from benchmarks.stack import open_watcher, wait_until_ended
from benchmarks.starts import PATH, PLAYBOOK, Api, Client, serving, wait_for_completed
from tests.services import Missing

BROWSERS, SECONDS = 200, 20.0
#: Places that a server has for streams unless its settings say otherwise, less a few that those of
#: the round before may still have: a server notices that a browser has left when it writes to it.
MOST = 250
#: Seconds between two starts, at least.
PACE_S = 0.1
#: Seconds of starts that do not count, at the beginning of each round.
SETTLE_S = 10.0
#: Seconds within which all browsers have come.
COME_S = 60.0
#: Executions that go on meanwhile, each with a change every second.
GOING_ON, GOING_ON_PATH = 10, "benchmarks/going_on"
_GOING_ON = {
    "apiVersion": "noetl.io/v2",
    "kind": "Playbook",
    "metadata": {"name": "going_on", "path": GOING_ON_PATH},
    "workload": {"seconds": 1},
    "workflow": [
        {
            "step": "ticks",
            "loop": {"in": "{{ range(workload.seconds) | list }}", "iterator": "tick"},
            "tool": {"kind": "wait", "timer": 1},
        }
    ],
}


@dataclass
class Starter:
    """Starts executions, and waits for each. `started` counts those that were measured."""

    api: Api
    database_url: str
    watcher: psycopg2.extensions.connection
    started: int = 0

    def sample(self, seconds: float) -> dict[str, Any]:
        """Seconds until a start was answered, and until the execution had ended; milliseconds of
        CPU that the server took for each."""
        answered, ended = [], []
        cpu_before, until = read_seconds(self.api.pids["server"]), time.perf_counter() + seconds
        while (began := time.perf_counter()) < until:
            execution_id = self._start(PATH, {"n": self.started})
            answered.append(time.perf_counter() - began)
            wait_until_ended(self.watcher, execution_id)
            ended.append(time.perf_counter() - began)
            time.sleep(max(0.0, began + PACE_S - time.perf_counter()))
        cpu_ms = (read_seconds(self.api.pids["server"]) - cpu_before) * 1000
        self.started += len(ended)
        return {
            "answered": middle(answered),
            "completed": middle(ended),
            "server_cpu_ms": round(cpu_ms / len(ended), 1),
        }

    @contextlib.contextmanager
    def going_on(self, seconds: float) -> Iterator[None]:
        """Others go on while the block runs, and change at different moments. Raises RuntimeError
        where the block took longer than `seconds`."""
        ids = []
        for _ in range(GOING_ON):
            ids.append(self._start(GOING_ON_PATH, {"seconds": round(seconds)}))
            time.sleep(1 / GOING_ON)
        yield
        for one in ids:
            Client(self.api.port).send("POST", f"/api/executions/{one}/cancel", {"reason": "seen enough"})
            wait_until_ended(self.watcher, one)

    def _start(self, path: str, payload: dict[str, int]) -> str:
        # On a connection of its own: starts come from many callers.
        answer = Client(self.api.port).send("POST", "/api/executions", {"path": path, "payload": payload})
        return str(answer["execution_id"])


def measure(browsers: int, reps: int, seconds: float) -> dict[str, Any]:
    """`reps` rounds without and with so many browsers. Raises services.Missing, NotDurable, and
    RuntimeError where a browser was refused."""
    with (
        servers() as ours,
        tempfile.TemporaryDirectory(prefix="noetl-bench-") as home,
        serving(ours, Path(home)) as api,
        contextlib.closing(open_watcher(ours.database_url)) as watcher,
    ):
        for playbook in (PLAYBOOK, _GOING_ON):
            Client(api.port).send("POST", "/api/catalog", {"content": json.dumps(playbook)})
        starter = Starter(api, ours.database_url, watcher)
        rounds = []
        for _ in range(reps):
            load1 = machine.load()
            with starter.going_on(COME_S + SETTLE_S + seconds):
                starter.sample(SETTLE_S)
                without = starter.sample(seconds)
            with starter.going_on(COME_S + SETTLE_S + seconds):
                seen = _seen_sample(starter, seconds, browsers)
            rounds.append({"load1": load1, "without": without, "with": seen})
            print(f"onlookers: round {len(rounds)} measured, load {machine.load()}", flush=True)
        wait_for_completed(api.port, starter.started)
        return {"browsers": browsers, "seconds": seconds, "rounds": rounds}


def _seen_sample(starter: Starter, seconds: float, browsers: int) -> dict[str, Any]:
    """A sample while all browsers look, with what they saw."""
    argv = [sys.executable, "-m", "benchmarks.browsers", str(starter.api.port), starter.database_url]
    with subprocess.Popen(
        [*argv, str(browsers)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        # Leaving closes its stdin, and so ends it.
        assert process.stdin is not None
        assert process.stdout is not None
        if process.stdout.readline() != "ready\n":
            raise RuntimeError("The browsers did not come to see a page: see above.")
        starter.sample(SETTLE_S)
        process.stdin.write("\n")
        process.stdin.flush()
        sample = starter.sample(seconds)
        said, _ = process.communicate()
    if process.returncode != 0:
        raise RuntimeError("A browser lost its page: see above.")
    return {**sample, **json.loads(said)}


def _count(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= MOST:
        raise argparse.ArgumentTypeError(f"{text!r} is no number from 1 to {MOST}")
    return int(text)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--browsers", type=_count, default=BROWSERS, help=f"onlookers, up to {MOST} (default: %(default)s)"
    )
    parser.add_argument(
        "--seconds", type=float, default=SECONDS, help="of each round of onlookers (default: %(default)s)"
    )


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.onlookers", description=__doc__)
    parser.add_argument("--reps", type=int, default=3, help="rounds of each (default: %(default)s)")
    add_arguments(parser)
    args = parser.parse_args(argv)
    try:
        print(table(measure(args.browsers, args.reps, args.seconds)))
    except (Missing, NotDurable) as error:
        print(f"Cannot measure: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
