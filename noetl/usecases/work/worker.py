"""The process that executes commands."""

from __future__ import annotations

from dataclasses import dataclass

from noetl.usecases.runtime import Runtime
from noetl.usecases.work.leases import Leases


@dataclass(frozen=True, slots=True)
class Worker:
    """A process that executes commands: its name in leases, and what keeps them alive."""

    rt: Runtime
    name: str
    leases: Leases
