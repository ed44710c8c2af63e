"""What people are asked, and their answers: what the methods for that are made from."""

from __future__ import annotations

from typing import Final

from noetl.client.core import Operation, Request, ask, execution_path, make_body, make_params
from noetl.facts.json import JsonMap

#: Approvals that are asked for at once.
_PAGE: Final = 1000


def approvals(*, mine: bool = False, limit: int = 1000) -> Operation[list[JsonMap]]:
    """Open approvals of all executions, as `GET /api/approvals` lists them, at most so many, the
    oldest execution first; with `mine` only those that this client may answer, and has not."""
    params = make_params(mine="true" if mine else None)
    found: list[JsonMap] = []
    while len(found) < limit:
        size = str(min(_PAGE, limit - len(found)))
        said = yield from ask(Request("GET", "/api/approvals", {**params, "limit": size}))
        found += said["approvals"]
        if said["next"] is None:
            break
        params["after"] = said["next"]
    return found


def approvals_of(execution_id: str) -> Operation[list[JsonMap]]:
    """The open approvals of an execution, as `GET /api/executions/{id}/approvals` lists them.
    Raises NotFound."""
    said = yield from ask(Request("GET", execution_path(execution_id, "/approvals")))
    found: list[JsonMap] = said["approvals"]
    return found


def approve(
    execution_id: str,
    step: str | None = None,
    *,
    values: JsonMap | None = None,
    reason: str = "",
    task: str | None = None,
    name: str | None = None,
    iteration: int | None = None,
    id: str | None = None,
) -> Operation[JsonMap]:
    """Approves what an execution asks, with the `values` of the form: `{execution_id, step,
    iteration, task, name, answer, version, existing}`. Which approval is meant has to be said as
    far as several are open; with its `id` the request may be sent twice. Raises Forbidden for who
    is not asked, NotFound, Conflict, BadRequest, InputsInvalid."""
    named = make_body(step=step, task=task, name=name, iteration=iteration, id=id, values=values)
    return _answer(execution_id, {"answer": "approve", "reason": reason, **named})


def reject(
    execution_id: str,
    step: str | None = None,
    *,
    reason: str = "",
    task: str | None = None,
    name: str | None = None,
    iteration: int | None = None,
    id: str | None = None,
) -> Operation[JsonMap]:
    """Rejects what an execution asks; else as `approve`."""
    named = make_body(step=step, task=task, name=name, iteration=iteration, id=id)
    return _answer(execution_id, {"answer": "reject", "reason": reason, **named})


def _answer(execution_id: str, body: JsonMap) -> Operation[JsonMap]:
    # Without its id the next approval might be taken for the one that was answered.
    again = "id" in body
    return ask(Request("POST", execution_path(execution_id, "/approvals"), body=body, again=again))
