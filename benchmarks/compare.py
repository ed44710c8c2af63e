"""Two or more checkouts on one machine: `python -m benchmarks.compare ../before . W1 --reps 40`.

All stacks run at once, on one PostgreSQL and a Redis each, and are sampled in turn: what a machine
does to one, it does to the others. Runs one after another of the same tree were up to 40 % apart
where the ratios of pairs were within 4 %. Each checkout needs its own `.venv`.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import statistics
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.servers import durability
from benchmarks.workloads import BY_NAME
from tests import services

#: The interpreter of a checkout, with what it needs.
PYTHON = Path(".venv/bin/python")
#: Samples that do not count.
WARM_UP = 2


@dataclass
class Sampled:
    """One checkout, the process that samples it, and what came of it."""

    tree: Path
    process: subprocess.Popen[str]
    seconds: list[float] = field(default_factory=list)
    cpu: dict[str, list[float]] = field(default_factory=dict)

    def sample(self, workload: str) -> dict[str, Any]:
        """Raises SystemExit where the checkout's process has ended."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{workload}\n")
        self.process.stdin.flush()
        found: dict[str, Any] = json.loads(self._line())
        return found

    def _line(self) -> str:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"The samples of {self.tree} ended; what was wrong stands above.")
        return line

    def wait_until_ready(self) -> None:
        self._line()

    def keep(self, sample: dict[str, Any]) -> None:
        self.seconds += sample["seconds"]
        for name, seconds in sample["cpu"].items():
            self.cpu.setdefault(name, []).append(seconds)


@contextlib.contextmanager
def samplers(trees: list[Path]) -> Iterator[list[Sampled]]:
    """A running stack for each checkout. Raises services.Missing, NotDurable."""
    with contextlib.ExitStack() as running:
        home = Path(running.enter_context(tempfile.TemporaryDirectory(prefix="noetl-compare-")))
        postgres = running.enter_context(services.durable_postgres())
        started = []
        for number, tree in enumerate(trees):
            url, redis_url = postgres.create(), running.enter_context(services.broker())
            durability(url)
            (home / str(number)).mkdir()
            started.append(
                Sampled(tree, running.enter_context(_start(tree, url, redis_url, home / str(number))))
            )
        for one in started:
            one.wait_until_ready()
        yield started


@contextlib.contextmanager
def _start(tree: Path, *arguments: str | Path) -> Iterator[subprocess.Popen[str]]:
    sampler = Path(__file__).with_name("sampler.py")
    argv = [str(tree / PYTHON), str(sampler), *map(str, arguments)]
    with subprocess.Popen(
        argv, cwd=tree, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        # Leaving closes its stdin, and so ends it.
        yield process


def compare(compared: list[Sampled], workload: str, reps: int) -> None:
    """Takes the samples, in one order and then in the other."""
    for _ in range(WARM_UP):
        for one in compared:
            one.sample(workload)
    for number in range(reps):
        for one in compared if number % 2 else reversed(compared):
            one.keep(one.sample(workload))


def report(compared: list[Sampled]) -> None:
    first = compared[0]
    print("| checkout | median (min - max) | ratio of pairs | CPU per sample |\n|---|---|---|---|")
    for one in compared:
        ratio = statistics.median(own / its for own, its in zip(one.seconds, first.seconds, strict=True))
        cpu = ", ".join(f"{name} {statistics.mean(found) * 1000:.0f} ms" for name, found in one.cpu.items())
        low, middle, high = (f(one.seconds) * 1000 for f in (min, statistics.median, max))
        print(f"| {one.tree} | **{middle:.1f} ms** ({low:.1f} - {high:.1f}) | {ratio:.3f} | {cpu} |")


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.compare",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "trees", nargs="+", type=Path, metavar="CHECKOUT", help="the first one is compared with"
    )
    parser.add_argument("workload", choices=BY_NAME, metavar="WORKLOAD", help=", ".join(BY_NAME))
    parser.add_argument("--reps", type=int, default=40, help="samples of each (default: 40)")
    args = parser.parse_args()
    for tree in args.trees:
        if not (tree / PYTHON).exists():
            parser.error(f"{tree} has no {PYTHON}: run `make venv` there")
    with samplers([tree.resolve() for tree in args.trees]) as compared:
        compare(compared, args.workload, args.reps)
        report(compared)


if __name__ == "__main__":
    main()
