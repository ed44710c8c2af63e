"""What this installation is and whether its parts answer."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import Protocol, runtime_checkable

from noetl.errors import NoetlError
from noetl.facts.json import Json, JsonMap
from noetl.usecases.ports import WorkerRow
from noetl.usecases.runtime import Runtime

#: A worker that was not seen for so long is not shown.
SEEN = timedelta(seconds=60)


@runtime_checkable
class Reachable(Protocol):
    """A dispatcher whose messages leave the process."""

    def ping(self) -> None:
        """Raises Unavailable where the broker does not answer."""


def health(rt: Runtime) -> dict[str, Json]:
    """`{status: ok|degraded|down, database: {status, detail?}, broker: {status, detail?}}`.

    Without its database nothing is acknowledged (`down`); without its broker requests are recorded
    and run later (`degraded`). A broker's status is `none` where messages stay in the process.
    """
    broker: dict[str, Json] = {"status": "none"}
    if isinstance(rt.dispatcher, Reachable):
        broker = _probe(rt.dispatcher.ping)
    database = _probe(partial(_read_execution, rt))
    status = "ok" if broker["status"] != "down" else "degraded"
    return {
        "status": status if database["status"] == "ok" else "down",
        "database": database,
        "broker": broker,
    }


def _read_execution(rt: Runtime) -> None:
    with rt.store.read() as tx:
        tx.executions.find(limit=1)


def _probe(use: Callable[[], object]) -> dict[str, Json]:
    try:
        use()
    except NoetlError as error:
        return {"status": "down", "detail": error.message}
    return {"status": "ok"}


def dead_letters(rt: Runtime) -> list[JsonMap]:
    """Messages that no worker could read, newest first: `{source, reason, body, recorded_at}`."""
    with rt.store.read() as tx:
        return tx.dead_letters.newest()


def workers(rt: Runtime) -> list[WorkerRow]:
    """Those that were seen within the last minute."""
    with rt.store.read() as tx:
        return tx.workers.alive(rt.clock() - SEEN)
