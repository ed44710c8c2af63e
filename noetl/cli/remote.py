"""Running a playbook on a server, over its REST API."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Self

from noetl.cli.complaints import naming, warn, warn_of_playbook
from noetl.cli.console import Assigned, overrides_of
from noetl.cli.follow import (
    CALLS,
    LAST,
    LOG_PAGE,
    PAGE,
    EventBatch,
    find_failed_step,
    follow,
    follow_attempts,
)
from noetl.cli.printed import ShownProgress
from noetl.cli.sent_token import token_for
from noetl.cli.services import queues_of
from noetl.client import Client
from noetl.config import Settings
from noetl.dsl import compile_playbook
from noetl.facts.business_key import OnConflict
from noetl.facts.events import Event
from noetl.facts.json import JsonMap
from noetl.net.model import Net
from noetl.store.envelope import from_json
from noetl.store.running import find
from noetl.tools.kit.registry import kinds as installed_kinds
from noetl.usecases.ports import ENDED

#: Between two questions, where the server does not let them wait.
POLL_S = 0.1

#: How long one question waits for news, in seconds, and how long the next one is kept back behind
#: some: many come together.
WAIT_S = 25.0
BREATH_S = 0.02

#: Seconds between two questions about the next attempt of what has failed.
RETRY_LOOK_S = 1.0

#: How long workers may take to be seen before a warning says that there is none, in seconds.
WORKERS_S = 3.0

#: A person waits for the command: a server that is away is asked once more, a moment later.
TRIES = 2


def connect(server: str) -> Client:
    """A client of the server at that URL, with the token that is meant for it. Raises BadRequest,
    and ConfigError where that cannot be read."""
    return Client(server, token_for(server, Settings.from_env()), tries=TRIES)


def own_server(settings: Settings) -> str:
    """The stack that runs on this home; without one, where a server of these settings would be."""
    stack = find(settings.home_dir)
    if stack is not None:
        return stack.api
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    return f"http://{host}:{settings.port}"


@dataclass(frozen=True, slots=True)
class RemoteExecution:
    """An execution on a server."""

    client: Client
    execution_id: str
    is_here: bool = False

    def page(self, after: int, wait_s: float, *, until_idle: bool) -> EventBatch:
        began = time.monotonic()
        found = self.client.event_page(
            self.execution_id, after, limit=PAGE, wait_s=wait_s, until_idle=until_idle
        )
        page = EventBatch(
            [from_json(one.data) for one in found.events], found.status, found.version, found.idle
        )
        if page.status not in ENDED and not (until_idle and page.idle):
            # Without a free place to wait in the answer comes at once.
            pause = BREATH_S if page.events else min(wait_s, POLL_S) - (time.monotonic() - began)
            time.sleep(max(pause, 0.0))
        return page

    def cancel(self, reason: str) -> None:
        self.client.cancel(self.execution_id, reason)

    def waits(self) -> Sequence[JsonMap]:
        found: list[JsonMap] = self.client.report(self.execution_id, resolve=False)["waits"]
        return found

    def next_attempt(self) -> JsonMap | None:
        found: JsonMap | None = self.client.report(self.execution_id).get("retry")
        return found

    def another(self, execution_id: str) -> Self:
        return replace(self, execution_id=execution_id)

    def logs(self, execution_id: str, after: int) -> list[JsonMap]:
        return [chunk.data for chunk in self.client.log_page(execution_id, after, limit=LOG_PAGE).chunks]

    def calls(self, execution_id: str, after: int) -> list[Event]:
        return [from_json(one.data) for one in self.client.event_page(execution_id, after, CALLS).events]

    def report(self) -> JsonMap:
        """With `last_lines`, where a step failed: what it had printed at last."""
        found = self.client.report(self.execution_id)
        error = find_failed_step(found)
        if error is None:
            return found
        where = {name: error.get(name) for name in ("step", "iteration", "attempt")}
        return {**found, "last_lines": self.client.last_lines(self.execution_id, LAST, **where)}


def run_remote(
    server: str,
    content: str,
    payload: JsonMap,
    assigned: Sequence[Assigned],
    shown: ShownProgress,
    *,
    key: str | None,
    on_conflict: OnConflict | None,
    labels: JsonMap,
    wait: bool,
    strict: bool = False,
    warn_as: str | None = None,
    began: Callable[[str], object] | None = None,
) -> JsonMap:
    """Registers, starts and follows, to the last attempt where there are several. Ctrl-C cancels
    the execution; a second one leaves it running.

    `began` is told which execution it is. `strict` refuses a playbook with warnings; `warn_as` is
    what its file is called where they are printed, None prints none.
    """
    with connect(server) as client:
        registered = client.register(content, strict=strict)
        if warn_as is not None:
            warn_of_playbook(registered.warnings, warn_as)
        compiled = compile_playbook(content, file="", kinds=installed_kinds())
        overrides = overrides_of(assigned, compiled.inputs)
        with naming(warn_as):
            started = client.start(
                registered.path,
                payload,
                version=registered.version,
                overrides=overrides,
                key=key,
                on_conflict=on_conflict,
                labels=labels,
            )
        if began is not None:
            began(started.execution_id)
        if started.existing:
            warn(f"execution {started.execution_id} was there before, and Ctrl-C here cancels it.")
        if compiled.net is not None:
            # Otherwise the server took it because it has tools that are not installed here.
            _warn_of_waiting(client, compiled.net)

        def follow_one(one: RemoteExecution) -> None:
            with shown.of(one) as progress:
                follow(one, progress, wait=wait, wait_s=WAIT_S)

        there = RemoteExecution(client, started.execution_id)
        return follow_attempts(there, follow_one, wait_s=RETRY_LOOK_S, quiet=shown.quiet).report()


def _warn_of_waiting(client: Client, net: Net) -> None:
    """Names the steps that no worker would run: none serves their queue."""
    for queue in sorted(_find_unserved(client, queues_of(net))):
        steps = ", ".join(step.name for step in net.transitions if step.calls and step.queue == queue)
        warn(
            f"no worker of that server serves the queue {queue}, and {steps} would wait there until one "
            f"does: `noetl worker -Q {queue}`, or `noetl up -Q {queue}`."
        )


def _find_unserved(client: Client, queues: set[str]) -> set[str]:
    """Those that no worker serves; workers that are about to start have a moment."""
    give_up = time.monotonic() + WORKERS_S
    while True:
        served = {queue for worker in client.runtime()["workers"] for queue in worker["queues"]}
        left = queues - served
        if not left or time.monotonic() >= give_up:
            return left
        time.sleep(POLL_S)
