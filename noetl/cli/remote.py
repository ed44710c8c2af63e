"""Running a playbook on a server, over its REST API."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import requests

from noetl.cli.progress import Progress
from noetl.errors import BadRequest, Conflict, NoetlError, NotFound, Unavailable
from noetl.facts.events import Event
from noetl.facts.json import JsonMap
from noetl.store.envelope import from_json
from noetl.usecases.ports import ENDED

#: Seconds that one answer may take.
TIMEOUT_S = 30.0


@dataclass(frozen=True, slots=True)
class Page:
    """Events, and where the execution was when they were read."""

    events: list[Event]
    status: str
    version: int


class Client:
    """The few calls that the command line needs. `url` is the server's, without `/api`."""

    def __init__(self, url: str) -> None:
        if not url.startswith(("http://", "https://")):
            raise BadRequest(f"The server {url!r} is not a URL; write it as http://host:port.")
        self._url = url.rstrip("/")
        self._session = requests.Session()

    def register(self, content: str) -> JsonMap:
        row: JsonMap = self._call("POST", "/api/catalog", {"content": content})
        return row

    def start(self, path: str, version: int | None, payload: JsonMap, overrides: JsonMap) -> str:
        body = {"path": path, "version": version, "payload": payload, "overrides": overrides}
        return str(self._call("POST", "/api/executions", body)["execution_id"])

    def report(self, execution_id: str) -> JsonMap:
        report: JsonMap = self._call("GET", f"/api/executions/{execution_id}?resolve=true")
        return report

    def cancel(self, execution_id: str, reason: str) -> None:
        self._call("POST", f"/api/executions/{execution_id}/cancel", {"reason": reason})

    def events(self, execution_id: str, after: int) -> Page:
        body = self._call("GET", f"/api/executions/{execution_id}/events?after={after}&limit=1000")
        return Page([from_json(one) for one in body["events"]], body["status"], body["version"])

    def healthy(self) -> bool:
        """Whether the server answers."""
        try:
            self._call("GET", "/api/health")
        except NoetlError:
            return False
        return True

    def _call(self, method: str, path: str, body: JsonMap | None = None) -> Any:
        try:
            answer = self._session.request(method, self._url + path, json=body, timeout=TIMEOUT_S)
        except requests.RequestException as error:
            raise Unavailable(f"The server at {self._url} does not answer: {error}.") from error
        if answer.status_code >= 400:
            raise _refused(answer)
        return answer.json()


def _refused(answer: requests.Response) -> NoetlError:
    try:
        detail = str(answer.json().get("detail") or answer.reason)
    except (ValueError, AttributeError):
        detail = answer.reason
    kinds = {404: NotFound, 409: Conflict, 503: Unavailable}
    return kinds.get(answer.status_code, BadRequest)(f"{detail} (HTTP {answer.status_code})")


def run_remote(
    server: str, content: str, payload: JsonMap, overrides: JsonMap, progress: Progress, *, wait: bool
) -> JsonMap:
    """Registers, starts and follows. Ctrl-C cancels the execution; a second one leaves it running."""
    client = Client(server)
    row = client.register(content)
    execution_id = client.start(row["path"], row["version"], payload, overrides)
    with progress:
        follow(client, execution_id, progress, wait=wait)
    return client.report(execution_id)


def follow(
    client: Client,
    execution_id: str,
    progress: Progress,
    *,
    wait: bool,
    meanwhile: Callable[[], None] = lambda: None,
) -> None:
    """Tells `progress` every event until the execution ends, and calls `meanwhile` in between."""
    seen, interrupted = 0, False
    while True:
        try:
            meanwhile()
            page = client.events(execution_id, seen)
            for event in page.events:
                progress.on(event)
                seen = event.version
            settled = page.status in ENDED or (page.status in ("waiting", "paused") and not wait)
            if settled and seen >= page.version:
                return
            progress.tick()
            time.sleep(0.1)
        except KeyboardInterrupt:
            if interrupted:
                raise
            interrupted = True
            client.cancel(execution_id, "interrupted from the keyboard")
