"""What a worker of the stack was at work on when it died: a task that takes its worker with it is
no fault of the stack, and its commands are given up after their deliveries."""

from __future__ import annotations

import os
import socket
from collections.abc import Sequence

from noetl import bootstrap
from noetl.cli.supervisor import Service
from noetl.config import Settings
from noetl.errors import NoetlError
from noetl.usecases.ports import CommandRow
from noetl.usecases.sweep import BATCH, LATEST


class WorkInHand:
    """Knows it from the leases in the settings' database that nobody gave back."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        #: Deliveries that died before, which excuse no second death.
        self._lost: frozenset[tuple[str, int]] = frozenset()

    def find(self, service: Service, pid: int) -> Sequence[str]:
        """The commands that `service`, whose process `pid` has died, held then; none where the
        database does not say."""
        if not service.queues:
            return ()
        try:
            rows = self._read_claimed()
        except NoetlError:
            return ()
        mine = [row for row in rows if row.queue in service.queues and _is_lost(row.owner or "", pid)]
        found = {(row.command_id, row.attempt) for row in mine} - self._lost
        self._lost = frozenset((row.command_id, row.attempt) for row in rows) & (self._lost | found)
        return sorted(command_id for command_id, _ in found)

    def _read_claimed(self) -> Sequence[CommandRow]:
        with bootstrap.read_database(self._settings) as tx:
            return [] if tx is None else tx.commands.expired(LATEST, BATCH)


def find_pid(name: str) -> int | None:
    """The process of this machine that leases and signs of life call `name`; None where it is none
    of this machine."""
    host, _, pid = name.rpartition(":")
    return int(pid) if host == socket.gethostname() and pid.isdecimal() else None


def _is_lost(owner: str, pid: int) -> bool:
    """Whether the owner of a lease died with the process `pid` of a service, or outlives it as a
    child of its pool: it is in its session, and nobody hears it any more."""
    owner_pid = find_pid(owner)
    if owner_pid is None:
        return False
    try:
        return os.getsid(owner_pid) == pid
    except ProcessLookupError:
        return True
    except PermissionError:
        return False
