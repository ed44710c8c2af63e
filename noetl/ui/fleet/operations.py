"""The page of an operation: how far it is, what becomes of each execution, and its steering."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, Self, TypeAlias, assert_never

from flask import Response, redirect, request, url_for
from werkzeug.wrappers import Response as AnyResponse

from noetl.errors import BadRequest
from noetl.ui.charts import WIDTH, Share, make_shares
from noetl.ui.site import Visitor, here, is_part, show
from noetl.usecases.fleet import operations
from noetl.usecases.fleet.operations import Operation
from noetl.usecases.ports import ItemState, OperationRow, OperationStatus

#: Executions of one page.
PAGE: Final = 100
#: Different reasons for refusals that are shown.
REASONS: Final = 20
#: Height of the bar that shows how far it is.
BAR: Final = 10

#: What becomes of executions, in the order of the bar, and the shape and colour that stands for it.
STATES: Final[Mapping[ItemState, str]] = {
    "completed": "completed",
    "partial": "partial",
    "failed": "failed",
    "refused": "refused",
    "cancelled": "cancelled",
    "dropped": "dropped",
    "started": "running",
    "pending": "pending",
}
_STATUSES: Final[Mapping[OperationStatus, str]] = {"cancelling": "waiting"}

Steer: TypeAlias = Literal["pause", "resume", "cancel"]

#: What each does, in words of a button.
STEERS: Final[Mapping[Steer, str]] = {"pause": "Pause", "resume": "Resume", "cancel": "Cancel"}
_ABOUT: Final[Mapping[Steer, str]] = {
    "pause": "It begins nothing more until it is resumed; what it has begun goes on to its end.",
    "resume": "It goes on with the executions that are left.",
    "cancel": "It begins nothing more, and cannot be resumed; what it has begun goes on to its end.",
}


@dataclass(frozen=True, slots=True)
class ShownOperation:
    """An operation as pages show it. `begun`: how many of its executions are not left alone any
    more."""

    row: OperationRow
    status: str
    total: int
    begun: int
    counts: Mapping[ItemState, int]
    shares: Sequence[Share]

    @classmethod
    def of(cls, found: Operation) -> Self:
        counts = {state: found.counts.get(state, 0) for state in STATES}
        return cls(
            found.row,
            _STATUSES.get(found.row.status, found.row.status),
            found.total,
            found.total - counts["pending"],
            {state: count for state, count in counts.items() if count},
            make_shares(counts.items()),
        )

    @property
    def goes_on(self) -> bool:
        return self.row.ended_at is None


def find_operations(
    visitor: Visitor, limit: int, before: str | None = None
) -> tuple[list[ShownOperation], str | None]:
    """The newest that the visitor may see, behind the operation `before`, and where the next ones
    begin. Raises BadRequest where `before` is no id."""
    whose = None if visitor.principal.may("read") else visitor.principal.name
    found = operations.operations(visitor.rt, principal=whose, before=before, limit=limit + 1)
    page = found[:limit]
    return [ShownOperation.of(one) for one in page], page[-1].row.operation_id if len(found) > limit else None


def list_operations() -> Response:
    """All operations, newest first."""
    found, after = find_operations(here().find_visitor(), PAGE, request.args.get("before") or None)
    return show("fleet/operations.html", operations=found, next=after, states=STATES, bar=(WIDTH, BAR))


def show_operation(operation_id: str) -> Response:
    """How far it is, or the part of the page that changes."""
    visitor, state = here().find_visitor(), _read_state()
    after = _read_after()
    found = ShownOperation.of(operations.operation(visitor.rt, operation_id))
    items = operations.items(visitor.rt, operation_id, state=state, after=after, limit=PAGE + 1)
    page = items[:PAGE]
    return show(
        "fleet/progress.html" if is_part() else "fleet/operation.html",
        operation=found,
        items=page,
        state=state,
        after=after,
        next=page[-1].position if len(items) > PAGE else None,
        refusals=_find_refusals(visitor, found),
        acts={} if not _may_steer(visitor, found.row) else _find_steers(found.row),
        states=STATES,
        bar=(WIDTH, BAR),
    )


def _find_refusals(visitor: Visitor, found: ShownOperation) -> list[tuple[str, int]]:
    if not found.counts.get("refused"):
        return []
    return operations.refusals(visitor.rt, found.row.operation_id).most_common(REASONS)


def _read_state() -> ItemState | None:
    given = request.args.get("state", "")
    for known in STATES:
        if known == given:
            return known
    if given:
        raise BadRequest(f"{given[:40]!r} is no state of an execution in an operation: {', '.join(STATES)}.")
    return None


def _read_after() -> int:
    """The position behind which the items begin."""
    text = request.args.get("after", "")
    if text and not (text.isascii() and text.isdecimal() and len(text) < 10):
        raise BadRequest(f"The address says after={text[:40]!r}, which is no number.")
    return int(text) if text else -1


# --- steering -------------------------------------------------------------------------------------


def steer(operation_id: str) -> AnyResponse:
    """Asks whether that is meant, or does it and shows the operation. Raises Conflict where it has
    ended."""
    visitor, which = here().find_visitor(), _read_steer()
    if request.form.get("sure") != "yes":
        found = ShownOperation.of(operations.operation(visitor.rt, operation_id))
        word, about = STEERS[which], _ABOUT[which]
        return show("fleet/steer.html", operation=found, act=which, word=word, about=about)
    _steer(visitor, operation_id, which, request.form.get("reason", "").strip())
    return lead_to(operation_id)


def _steer(visitor: Visitor, operation_id: str, which: Steer, reason: str) -> None:
    match which:
        case "pause":
            operations.pause(visitor.rt, operation_id, reason)
        case "resume":
            operations.resume(visitor.rt, operation_id)
        case "cancel":
            operations.cancel(visitor.rt, operation_id, reason)
        case _:
            assert_never(which)


def lead_to(operation_id: str) -> AnyResponse:
    """To the page of an operation, once it has been begun or steered."""
    where = url_for("pages.operation", operation_id=operation_id)
    if is_part():
        return Response(status=200, headers={"HX-Redirect": where})
    return redirect(where, 303)


def _read_steer() -> Steer:
    given = request.form.get("act", "")
    for known in STEERS:
        if known == given:
            return known
    raise BadRequest(f"{given[:40]!r} is nothing that can be done to an operation: {', '.join(STEERS)}.")


def _may_steer(visitor: Visitor, row: OperationRow) -> bool:
    """As the table of permissions says it of the route."""
    is_own = row.principal == visitor.principal.name
    return visitor.principal.may("operate") or (is_own and visitor.principal.has_some("operate"))


def _find_steers(row: OperationRow) -> Mapping[Steer, str]:
    match row.status:
        case "running":
            return {one: STEERS[one] for one in STEERS if one != "resume"}
        case "paused":
            return {one: STEERS[one] for one in STEERS if one != "pause"}
        case "cancelling" | "completed" | "cancelled":
            return {}
        case _:
            assert_never(row.status)
