"""What the stack spends on a workload: CPU seconds of its processes, PostgreSQL and Redis among
them."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import psutil
import redis

from benchmarks import machine
from benchmarks.servers import Servers
from benchmarks.stack import Stack


@dataclass(frozen=True)
class Meter:
    """Reads the clocks of all processes of a stack. `postgres` and `redis` are the servers' process
    ids."""

    stack: Stack
    postgres: int
    redis: int

    @classmethod
    def of(cls, stack: Stack, servers: Servers) -> Meter:
        """Raises psutil.NoSuchProcess where a server does not run on this machine."""
        backend = psutil.Process(stack.watcher.info.backend_pid)
        with redis.Redis.from_url(servers.redis_url) as client:
            return cls(stack, backend.ppid(), int(client.info("server")["process_id"]))

    def read(self) -> Counter[str]:
        """CPU seconds since each process began, by its name in the report."""
        code, watcher = self.stack.pids["code"], self.stack.watcher.info.backend_pid
        pool = self.stack.workers()
        return Counter(
            {
                "scheduler": read_seconds(self.stack.pids["scheduler"]),
                "worker (parent)": _own([code]),
                "worker (children)": _own(pool) + _ended_below([code]),
                "user code": read_seconds(code) - _own([code, *pool]) - _ended_below([code]),
                "sweeper": read_seconds(self.stack.pids["sweeper"]),
                "PostgreSQL": read_seconds(self.postgres) - _own([watcher]),
                "Redis": read_seconds(self.redis),
            }
        )

    def since(self, before: Counter[str], steps: int) -> dict[str, float]:
        """CPU milliseconds per step since `before` was read."""
        now = self.read()
        return {name: round((now[name] - before[name]) / steps * 1000, 2) for name in now}


def read_seconds(pid: int) -> float:
    """CPU seconds of a process and its descendants, those that have ended included."""
    family = [one.pid for one in machine.family(pid)]
    return _own(family) + _ended_below(family)


def _own(pids: Iterable[int]) -> float:
    return sum(times.user + times.system for times in _times(pids))


def _ended_below(pids: Iterable[int]) -> float:
    return sum(times.children_user + times.children_system for times in _times(pids))


def _times(pids: Iterable[int]) -> Iterator[psutil._ntp.pcputimes]:
    for pid in pids:
        with contextlib.suppress(psutil.NoSuchProcess):  # its parent has its times now
            yield psutil.Process(pid).cpu_times()
