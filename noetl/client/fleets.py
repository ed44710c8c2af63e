"""Many executions at once: what they failed of, and operations that run them again."""

from __future__ import annotations

from urllib.parse import quote

from noetl.client.core import TIMEOUT_S, Operation, Request, ask, make_params
from noetl.facts.json import Json, JsonMap


def failures(where: str | None = None) -> Operation[JsonMap]:
    """Failed executions, grouped by what they failed of, as `GET /api/executions/failures`
    answers."""
    return ask(Request("GET", "/api/executions/failures", make_params(where=where)))


def plan_retries(where: str, **how: Json) -> Operation[JsonMap]:
    """What retries of all executions of which `where` is true would do, summed up, as `POST
    /api/operations` with `dry_run` answers. `how` as for `plan_retry`, and `concurrency`,
    `limit` and `reason`."""
    body = {"where": where, **how}
    return ask(Request("POST", "/api/operations", {"dry_run": "true"}, body=body, timeout_s=4 * TIMEOUT_S))


def retry_all(where: str, *, confirm: bool = False, **how: Json) -> Operation[str]:
    """Runs all executions again of which `where` is true; returns the id of the operation. `how` as
    for `plan_retries`. Raises BadRequest where there is none, and Conflict where calls that may
    have had effects would be made again and `confirm` does not say that they may."""
    params = {"confirm": "true"} if confirm else {}
    body = {"where": where, **how}
    said = yield from ask(
        Request("POST", "/api/operations", params, body=body, timeout_s=4 * TIMEOUT_S, again=False)
    )
    return str(said["operation_id"])


def list_operations(*, limit: int = 50) -> Operation[list[JsonMap]]:
    """The newest operations, newest first, as `GET /api/operations` lists them."""
    said = yield from ask(Request("GET", "/api/operations", {"limit": str(limit)}))
    found: list[JsonMap] = said["operations"]
    return found


def operation(operation_id: str) -> Operation[JsonMap]:
    """How far an operation is, as `GET /api/operations/{id}` answers. Raises NotFound."""
    return ask(Request("GET", f"/api/operations/{quote(operation_id, safe='')}"))


def operation_items(
    operation_id: str, *, state: str | None = None, after: int = -1, limit: int = 100
) -> Operation[list[JsonMap]]:
    """What becomes of an operation's executions, behind the position `after`, as `GET
    /api/operations/{id}/items` lists them. Raises NotFound."""
    params = make_params(state=state, after=after, limit=limit)
    said = yield from ask(Request("GET", f"/api/operations/{quote(operation_id, safe='')}/items", params))
    found: list[JsonMap] = said["items"]
    return found


def cancel_operation(operation_id: str, reason: str = "") -> Operation[str]:
    """Has an operation begin nothing more; returns its status. Raises Conflict where it has
    ended."""
    return _steer(operation_id, "cancel", {"reason": reason})


def pause_operation(operation_id: str, reason: str = "") -> Operation[str]:
    """Has an operation begin nothing until it is resumed; returns its status."""
    return _steer(operation_id, "pause", {"reason": reason})


def resume_operation(operation_id: str) -> Operation[str]:
    """Lets a paused operation go on; returns its status."""
    return _steer(operation_id, "resume", None)


def _steer(operation_id: str, verb: str, body: JsonMap | None) -> Operation[str]:
    path = f"/api/operations/{quote(operation_id, safe='')}/{verb}"
    said = yield from ask(Request("POST", path, body=body, again=False))
    return str(said["status"])
