"""Running a playbook on a server, over its REST API."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlencode

import click
import requests

from noetl.cli.complaints import word
from noetl.cli.follow import PAGE, Page, follow
from noetl.cli.printed import LAST, Verbose, with_last_lines
from noetl.cli.progress import Progress
from noetl.cli.services import queues_of
from noetl.dsl import load_playbook
from noetl.errors import BadRequest, Conflict, NoetlError, NotFound, PlaybookInvalid, Unavailable
from noetl.facts.json import JsonMap
from noetl.store.envelope import from_json
from noetl.tools.registry import kinds as installed_kinds

#: Seconds that one answer may take.
TIMEOUT_S = 30.0

#: Between two questions.
POLL_S = 0.1

#: How long workers may take to be seen before somebody is told that there is none, in seconds.
WORKERS_S = 3.0

#: Bytes of a large result that are fetched at once.
BLOCK = 256 * 1024


class Client:
    """The few calls that the command line needs. `url` is the server's, without `/api`."""

    def __init__(self, url: str) -> None:
        if not url.startswith(("http://", "https://")):
            raise BadRequest(f"The server {url!r} is not a URL; write it as http://host:port.")
        self._url = url.rstrip("/")
        self._session = requests.Session()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        """Gives its connections back: a server that stops waits for those that are kept alive."""
        self._session.close()

    def register(self, content: str) -> JsonMap:
        row: JsonMap = self._call("POST", "/api/catalog", {"content": content})
        return row

    def playbook(self, path: str) -> str | None:
        """The text of the newest version; None where the catalog does not know the path."""
        try:
            return str(self._call("GET", f"/api/catalog/{quote(path)}")["content"])
        except NotFound:
            return None

    def start(self, path: str, version: int | None, payload: JsonMap, overrides: JsonMap) -> str:
        body = {"path": path, "version": version, "payload": payload, "overrides": overrides}
        return str(self._call("POST", "/api/executions", body)["execution_id"])

    def report(self, execution_id: str) -> JsonMap:
        report: JsonMap = self._call("GET", f"/api/executions/{execution_id}?resolve=true")
        return report

    def cancel(self, execution_id: str, reason: str) -> None:
        self._call("POST", f"/api/executions/{execution_id}/cancel", {"reason": reason})

    def events(self, execution_id: str, after: int) -> Page:
        body = self._call("GET", f"/api/executions/{execution_id}/events?after={after}&limit={PAGE}")
        events = [from_json(one) for one in body["events"]]
        return Page(events, body["status"], body["version"], body["idle"])

    def logs(self, execution_id: str, after: int, limit: int) -> list[JsonMap]:
        body = self._call("GET", f"/api/executions/{execution_id}/logs?after={after}&limit={limit}")
        chunks: list[JsonMap] = body["chunks"]
        return chunks

    def last_lines(self, execution_id: str, error: JsonMap) -> list[str]:
        """The last lines of what failed with `error`."""
        given = {
            name: error[name] for name in ("step", "iteration", "attempt") if error.get(name) is not None
        }
        body = self._call("GET", f"/api/executions/{execution_id}/logs?{urlencode(given)}&last={LAST}")
        return "".join(chunk["text"] for chunk in body["chunks"]).splitlines()[-LAST:]

    def served(self) -> set[str]:
        """The queues of the workers that were seen within a minute."""
        return {queue for one in self._call("GET", "/api/runtime")["workers"] for queue in one["queues"]}

    def result_page(self, name: str, limit: int) -> JsonMap:
        page: JsonMap = self._call("GET", f"/api/results/{quote(name)}?limit={limit}")
        return page

    def result(self, name: str, *, raw: bool) -> Iterator[bytes]:
        """The value's JSON, or the bytes that were kept, in pieces."""
        path = f"{self._url}/api/results/{quote(name)}"
        try:
            with self._session.get(path, params={"raw": int(raw)}, stream=True, timeout=TIMEOUT_S) as answer:
                if answer.status_code >= 400:
                    raise _refused(answer.status_code, _said(answer), answer.reason)
                yield from answer.iter_content(BLOCK)
        except requests.RequestException as error:
            raise Unavailable(f"The server at {self._url} does not answer: {_cause(error)}.") from error

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
            raise Unavailable(f"The server at {self._url} does not answer: {_cause(error)}.") from error
        said = _said(answer)
        if answer.status_code >= 400:
            raise _refused(answer.status_code, said, answer.reason)
        return said


def _said(answer: requests.Response) -> Any:
    try:
        return answer.json()
    except ValueError as error:
        raise BadRequest(
            f"{answer.url} is not the API of NoETL: it answered {answer.status_code} without JSON."
        ) from error


def _cause(error: BaseException) -> str:
    """The innermost reason, without the layers of libraries around it."""
    inner: object = error
    while isinstance(inner, BaseException):
        if isinstance(inner, OSError) and inner.strerror:
            return inner.strerror
        inner = next((one for one in (inner.__cause__, inner.__context__) if one is not None), None)
    return (
        f"no answer within {TIMEOUT_S:g} s" if isinstance(error, requests.Timeout) else type(error).__name__
    )


def _refused(status: int, said: Any, reason: str) -> NoetlError:
    detail = str(said.get("detail") or reason) if isinstance(said, dict) else reason
    kinds = {404: NotFound, 409: Conflict, 503: Unavailable}
    return kinds.get(status, BadRequest)(f"{detail} (HTTP {status})")


@dataclass(frozen=True, slots=True)
class There:
    """An execution on a server, as `follow` sees it."""

    client: Client
    execution_id: str

    def page(self, after: int) -> Page:
        return self.client.events(self.execution_id, after)

    def logs(self, after: int, limit: int) -> list[JsonMap]:
        return self.client.logs(self.execution_id, after, limit)

    def cancel(self, reason: str) -> None:
        self.client.cancel(self.execution_id, reason)


def run_remote(
    server: str,
    content: str,
    payload: JsonMap,
    overrides: JsonMap,
    progress: Progress,
    *,
    wait: bool,
    verbose: bool,
) -> JsonMap:
    """Registers, starts and follows. Ctrl-C cancels the execution; a second one leaves it running."""
    with Client(server) as client:
        row = client.register(content)
        execution_id = client.start(row["path"], row["version"], payload, overrides)
        _warn_of_waiting(client, content)
        there = There(client, execution_id)
        with Verbose(progress, there) if verbose else progress as shown:
            follow(there, shown, wait=wait, pause_s=POLL_S)
        return with_last_lines(
            client.report(execution_id), lambda error: client.last_lines(execution_id, error)
        )


def _warn_of_waiting(client: Client, content: str) -> None:
    """Says which steps nobody would run: their queue has no worker."""
    try:
        net = load_playbook(content, file="", kinds=installed_kinds())
    except PlaybookInvalid:
        # The server took it: it has tools that are not installed here.
        return
    for queue in sorted(_unserved(client, queues_of(net))):
        steps = ", ".join(step.name for step in net.transitions if step.calls and step.queue == queue)
        click.echo(
            f"{word('warning', 'yellow')}: no worker of that server serves the queue {queue}, and {steps} would wait there until one"
            f" does: `noetl worker -Q {queue}`, or `noetl up -Q {queue}`.",
            err=True,
        )


def _unserved(client: Client, queues: set[str]) -> set[str]:
    """Those that no worker serves; workers that are about to start have a moment."""
    give_up = time.monotonic() + WORKERS_S
    while (left := queues - client.served()) and time.monotonic() < give_up:
        time.sleep(POLL_S)
    return left
