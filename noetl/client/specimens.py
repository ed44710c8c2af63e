"""Executions as files: what the clients' methods for them are made from."""

from __future__ import annotations

from typing import Final

from noetl.client.core import TIMEOUT_S, Operation, Request, ask, execution_path, read, send
from noetl.facts.json import JsonMap

#: Seconds that a whole execution may take on its way.
FILE_S: Final = 4 * TIMEOUT_S


def export_execution(execution_id: str) -> Operation[str]:
    """An execution as a file, which `import_execution` reads at another server. Raises NotFound."""
    reply = yield from send(Request("GET", execution_path(execution_id, "/export"), timeout_s=FILE_S))
    if reply.status != 200:
        read(reply)
    return reply.text


def fixture(execution_id: str) -> Operation[str]:
    """A file for `noetl test` that the execution would pass. Raises NotFound, BadRequest for one
    that still runs or was cancelled."""
    reply = yield from send(Request("GET", execution_path(execution_id, "/fixture"), timeout_s=FILE_S))
    if reply.status != 200:
        read(reply)
    return reply.text


def import_execution(file: str) -> Operation[JsonMap]:
    """Has the server keep such a file, to be looked at: `{execution_id, status, is_new, ...}`, as
    `POST /api/executions/import` answers. Raises BadRequest for what is none, Conflict where other
    events are there under its id."""
    headers = {"Content-Type": "application/x-ndjson"}
    return ask(
        Request("POST", "/api/executions/import", content=file.encode(), headers=headers, timeout_s=FILE_S)
    )
