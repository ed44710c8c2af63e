"""Measures NoETL and raw Celery in turn: `python -m benchmarks.run [W1 W1p W3 W3e W4 W5 starts
onlookers scrolling promises memory]`.

Samples are interleaved (raw, NoETL, raw, NoETL ...), so that both meet the same weather; what
counts is their ratio. The raw data go to `benchmarks/results/latest.json`, from which `python -m
benchmarks.report` makes `benchmarks/README.md`. With `--profile` nothing is timed: what is found
out then is where the time goes.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from celery.exceptions import TimeoutError as CeleryTimeout

from benchmarks import machine, onlookers, promises, raw, report, scrolling, starts
from benchmarks.dbos import Dbos
from benchmarks.memory import idle_memory
from benchmarks.profile import Profiler
from benchmarks.report import RESULTS, profiles, table
from benchmarks.servers import NotDurable, Servers, process, servers
from benchmarks.stack import WORKERS, Stack, stack
from benchmarks.workloads import BY_NAME, Workload
from tests.services import Missing

LATEST = RESULTS / "latest.json"
#: What is measured beside the workloads.
OTHERS = ("starts", "onlookers", "scrolling", "promises", "memory")


def main(argv: Sequence[str] | None = None) -> int:
    args = _parser().parse_args(argv)
    chosen = args.what or [*BY_NAME, *OTHERS]
    workloads = [BY_NAME[name] for name in chosen if name in BY_NAME]
    told = {
        "command": " ".join(["python -m benchmarks.run", *map(machine.bare, argv or sys.argv[1:])]),
        "at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }
    about = {"machine": machine.facts(), "worker_processes": WORKERS, "reps": args.reps}
    found: dict[str, Any] = {**told, **about, "workloads": {}}
    try:
        if args.profile:
            found["profile"] = {**told, "workloads": _profiled(workloads)}
        else:
            _measure(found, workloads, args)
    except (Missing, NotDurable) as error:
        print(f"Cannot measure: {error}", file=sys.stderr)
        return 2
    if not args.profile:
        _measure_others(found, told, chosen, args)
    print(profiles(found) if args.profile else table(found))
    args.output.parent.mkdir(exist_ok=True)
    args.output.write_text(json.dumps(_merged(found, args.output), indent=1) + "\n")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.run", description=__doc__)
    parser.add_argument("what", nargs="*", choices=[[], *BY_NAME, *OTHERS], help="default: everything")
    parser.add_argument("--reps", type=int, default=3, help="samples of each (default: 3)")
    onlookers.add_arguments(parser)
    parser.add_argument("-o", "--output", type=Path, default=LATEST, help="raw data (default: %(default)s)")
    parser.add_argument("--profile", action="store_true", help="say where the time goes (needs py-spy)")
    parser.add_argument("--dbos", metavar="PYTHON", help="a Python that has dbos: pairs W1p with it")
    return parser


def _measure(found: dict[str, Any], workloads: list[Workload], args: argparse.Namespace) -> None:
    if not workloads:
        return
    with contextlib.ExitStack() as running:
        ours = running.enter_context(servers())
        found["postgresql"] = dict(ours.settings)
        print("PostgreSQL: " + ", ".join(f"{name} = {value}" for name, value in ours.settings.items()))
        home = Path(running.enter_context(tempfile.TemporaryDirectory(prefix="noetl-bench-")))
        running.enter_context(_raw_worker(ours, home))
        noetl = running.enter_context(stack(ours, home))
        dbos = running.enter_context(Dbos(args.dbos, ours, home)) if args.dbos else None
        for workload in workloads:
            found["workloads"][workload.name] = _sampled(workload, noetl, args.reps, dbos)


def _measure_others(
    found: dict[str, Any], told: dict[str, str], chosen: Sequence[str], args: argparse.Namespace
) -> None:
    """Where something cannot be had, the rest is measured all the same."""
    ways: dict[str, tuple[Callable[[], dict[str, Any]], Callable[[dict[str, Any]], str]]] = {
        "starts": (partial(starts.measure, args.reps), report.starts),
        "onlookers": (
            partial(onlookers.measure, args.browsers, args.reps, args.seconds),
            report.onlookers,
        ),
        "scrolling": (partial(scrolling.measure, args.reps), report.scrolling),
        "promises": (partial(promises.measure, args.reps), report.promises),
    }
    for name, (measure, tabulate) in ways.items():
        if name not in chosen:
            continue
        try:
            found[name] = {**told, **measure()}
        except (Missing, NotDurable) as error:
            print(f"Cannot measure {name}: {error}", file=sys.stderr)
        else:
            print(tabulate(found[name]))
    if "memory" in chosen:
        found["memory"] = idle_memory()


def _profiled(workloads: list[Workload]) -> dict[str, Any]:
    with (
        servers() as ours,
        tempfile.TemporaryDirectory(prefix="noetl-bench-") as home,
        stack(ours, Path(home)) as noetl,
    ):
        profiler = Profiler(noetl, ours)
        return {workload.name: profiler.profile(workload) for workload in workloads}


@contextlib.contextmanager
def _raw_worker(ours: Servers, home: Path) -> Iterator[None]:
    """The yardstick's worker: as many processes as NoETL has for steps."""
    os.environ["BENCH_REDIS_URL"] = ours.redis_url
    raw.app.conf.update(broker_url=f"{ours.redis_url}/2", result_backend=f"{ours.redis_url}/3")
    argv = ["celery", "-A", "benchmarks.raw", "worker", "-P", "prefork", "-c", str(WORKERS), "-l", "WARNING"]
    with process(argv, home / "raw.log", os.environ):
        raw.w5()
        yield


def _sampled(workload: Workload, noetl: Stack, reps: int, dbos: Dbos | None) -> dict[str, Any]:
    """`reps` samples of each engine, in turn, after one that does not count."""
    engines: dict[str, Callable[[], list[float]]] = {}
    if workload.raw is not None:
        engines["raw"] = workload.raw
    engines["noetl"] = lambda: workload.noetl(noetl)
    if dbos is not None and workload.name == "W1p":
        engines["dbos"] = dbos.w1
    for run in engines.values():
        run()
    samples: dict[str, list[float]] = {name: [] for name in engines}
    weather = []
    lost: list[str] = []
    resent = noetl.resent()
    for _ in range(reps):
        weather.append({"load1": machine.load(), "others": machine.others()})
        for name, run in engines.items():
            samples[name] += [round(seconds, 5) for seconds in _ended(run, name, lost)]
    print(f"{workload.name}: measured, load {machine.load()}", flush=True)
    return {"samples": samples, "weather": weather, "lost": lost, "resent": noetl.resent() - resent}


def _ended(run: Callable[[], list[float]], name: str, lost: list[str]) -> list[float]:
    """A sample that came to its end. Raises TimeoutError where the third one in a row did not."""
    for _ in range(2):
        try:
            return run()
        except (CeleryTimeout, TimeoutError):
            print(f"A sample of {name} did not end and is repeated.", file=sys.stderr)
            lost.append(name)
    return run()


def _merged(found: dict[str, Any], path: Path) -> dict[str, Any]:
    """What an earlier run on the same machine measured and this one did not stays."""
    if not path.exists():
        return found
    before = json.loads(path.read_text())
    if before["machine"] != found["machine"]:
        return found
    if "profile" not in found:
        return {**before, **found, "workloads": {**before["workloads"], **found["workloads"]}}
    known = before.get("profile", {}).get("workloads", {})
    profile = {**found["profile"], "workloads": {**known, **found["profile"]["workloads"]}}
    return {**before, "profile": profile}


if __name__ == "__main__":
    sys.exit(main())
