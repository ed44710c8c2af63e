"""Samples of one checkout for `benchmarks.compare`, which runs this file in that checkout: for each
workload named on a line of stdin a line of JSON, with seconds and the processes' CPU seconds."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import psutil

sys.path.insert(0, os.getcwd())

# Those of the checkout, whose release may be an older one.
from benchmarks.servers import Servers
from benchmarks.stack import Stack, stack
from benchmarks.workloads import BY_NAME


def read_cpu(running: Stack) -> dict[str, float]:
    """CPU seconds of each process, with its children's."""
    return {name: sum(map(_seconds, _family(pid))) for name, pid in running.pids.items()}


def _family(pid: int) -> list[psutil.Process]:
    parent = psutil.Process(pid)
    return [parent, *parent.children(recursive=True)]


def _seconds(process: psutil.Process) -> float:
    try:
        times = process.cpu_times()
    except psutil.Error:
        return 0.0
    return float(times.user + times.system)


def main(database_url: str, redis_url: str, home: str) -> None:
    with stack(Servers(database_url, redis_url, {}), Path(home)) as running:
        print("ready", flush=True)
        for line in sys.stdin:
            before = read_cpu(running)
            seconds = BY_NAME[line.strip()].noetl(running)
            after = read_cpu(running)
            cpu = {name: after[name] - before[name] for name in before}
            print(json.dumps({"seconds": seconds, "cpu": cpu}), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
