"""Running a playbook on a server, over its REST API."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlencode

import click
import requests

from noetl.cli.complaints import warn_of_playbook, word
from noetl.cli.follow import PAGE, Page, follow
from noetl.cli.printed import CALLS, LAST, Verbose, with_last_lines
from noetl.cli.progress import Progress
from noetl.cli.services import queues_of
from noetl.dsl import load_playbook
from noetl.errors import BadRequest, Conflict, NoetlError, NotFound, PlaybookInvalid, Unavailable
from noetl.facts.events import Event
from noetl.facts.json import Json, JsonMap
from noetl.store.envelope import from_json
from noetl.tools.registry import kinds as installed_kinds
from noetl.usecases.ports import ENDED

#: Seconds that one answer may take.
TIMEOUT_S = 30.0

#: Between two questions, where the server does not let them wait.
POLL_S = 0.1

#: How long one question waits for news, in seconds, and how long the next one is kept back behind some: many come together.
WAIT_S = 25.0
BREATH_S = 0.02

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

    def register(self, content: str, *, strict: bool = False) -> JsonMap:
        body: JsonMap = {"content": content, **({"strict": True} if strict else {})}
        row: JsonMap = self._call("POST", "/api/catalog", body)
        return row

    def playbook(self, path: str) -> str | None:
        """The text of the newest version; None where the catalog does not know the path."""
        try:
            return str(self._call("GET", f"/api/catalog/{quote(path)}")["content"])
        except NotFound:
            return None

    def start(
        self,
        path: str,
        version: int | None,
        payload: JsonMap,
        overrides: JsonMap,
        directories: Sequence[str] = (),
    ) -> str:
        """The execution's id. `directories` are where relative names start; the server may refuse any."""
        body: dict[str, Json] = {"path": path, "version": version, "payload": payload, "overrides": overrides}
        # Left out where there are none: servers refuse some, and older ones do not know the key.
        body |= {"directories": list(directories)} if directories else {}
        return str(self._call("POST", "/api/executions", body)["execution_id"])

    def report(self, execution_id: str) -> JsonMap:
        report: JsonMap = self._call("GET", f"/api/executions/{execution_id}?resolve=true")
        return report

    def cancel(self, execution_id: str, reason: str) -> None:
        self._call("POST", f"/api/executions/{execution_id}/cancel", {"reason": reason})

    def events(self, execution_id: str, after: int, wait_s: float = 0.0, *, until_idle: bool = False) -> Page:
        """A page of events; with `wait_s` it waits for one, or for the end (`until_idle`: or to be idle)."""
        until = "idle" if until_idle else "end"
        query = f"after={after}&limit={PAGE}&wait={wait_s:g}&until={until}"
        body = self._call("GET", f"/api/executions/{execution_id}/events?{query}", wait_s=wait_s)
        events = [from_json(one) for one in body["events"]]
        return Page(events, body["status"], body["version"], body["idle"])

    def logs(self, execution_id: str, after: int, limit: int) -> list[JsonMap]:
        body = self._call("GET", f"/api/executions/{execution_id}/logs?after={after}&limit={limit}")
        chunks: list[JsonMap] = body["chunks"]
        return chunks

    def calls(self, execution_id: str, after: int) -> list[Event]:
        """The events behind version `after` that tell of children."""
        query = urlencode({"after": after, "type": CALLS}, doseq=True)
        body = self._call("GET", f"/api/executions/{execution_id}/events?{query}")
        return [from_json(one) for one in body["events"]]

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

    def health(self) -> JsonMap:
        """How the server, its database and its broker are. Raises Unavailable."""
        found: JsonMap = self._call("GET", "/api/health")
        return found

    def healthy(self) -> bool:
        """Whether the server answers."""
        try:
            self.health()
        except NoetlError:
            return False
        return True

    def _call(self, method: str, path: str, body: JsonMap | None = None, wait_s: float = 0.0) -> Any:
        timeout = TIMEOUT_S + wait_s
        try:
            answer = self._session.request(method, self._url + path, json=body, timeout=timeout)
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

    def page(self, after: int, wait_s: float, *, until_idle: bool) -> Page:
        began = time.monotonic()
        try:
            page = self.client.events(self.execution_id, after, wait_s, until_idle=until_idle)
        except Unavailable:
            # Perhaps the server has no place left for those who wait.
            page = self.client.events(self.execution_id, after)
        if page.status not in ENDED and not (until_idle and page.idle):
            pause = BREATH_S if page.events else min(wait_s, POLL_S) - (time.monotonic() - began)
            time.sleep(max(pause, 0.0))
        return page

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
    strict: bool = False,
    warn_as: str | None = None,
    verbose: bool = False,
) -> JsonMap:
    """Registers, starts and follows. Ctrl-C cancels the execution; a second one leaves it running.

    `strict` refuses a playbook with warnings; `warn_as` is what its file is called where they are printed, None prints none.
    """
    with Client(server) as client:
        row = client.register(content, strict=strict)
        if warn_as is not None:
            # Servers of older versions tell of none.
            warn_of_playbook(row.get("warnings", ()), warn_as)
        execution_id = client.start(row["path"], row["version"], payload, overrides)
        _warn_of_waiting(client, content)
        there = There(client, execution_id)
        with Verbose(progress, client, execution_id) if verbose else progress as shown:
            follow(there, shown, wait=wait, wait_s=WAIT_S)
        return with_last_lines(client.report(execution_id), client.last_lines)


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
