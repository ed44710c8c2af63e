"""Beginning anew from somewhere in an execution: first it is shown what that means, then it is
done, and the page of the new execution follows."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

from flask import Response, redirect, request
from werkzeug.wrappers import Response as AnyResponse

from noetl.dsl.read.mapping import read_mapping
from noetl.errors import BadRequest, Conflict, NoetlError
from noetl.facts import json
from noetl.facts.json import JsonMap
from noetl.ui.run.look import RunLook
from noetl.ui.site import Visitor, here, is_part, own_path, show
from noetl.usecases import chosen, fixtures, fork, moment, retry
from noetl.usecases.fork import ForkRequest, PlannedFork
from noetl.usecases.ports import ENDED, ExecutionRow
from noetl.usecases.retry import NEWEST, PlannedRetry, RetryRequest

Again: TypeAlias = Literal["retry", "fork"]

#: In words of a button.
WORDS: Final[Mapping[Again, str]] = {"retry": "Retry from here", "fork": "Fork here"}
#: The fields of a form that hold what was typed or chosen.
_TEXTS: Final = ("begin", "at", "inputs", "version", "iterations")
#: From here on statuses say that it is not the visitor's fault.
SERVER_ERROR: Final = 500
#: Digits that no version has.
LONGEST_VERSION: Final = 10


@dataclass(frozen=True, slots=True)
class TypedAgain:
    """What a form says: where it begins, and what is to be otherwise, as it was typed. `begin` is a
    step or a run of it; a fork may begin `at` a version."""

    execution_id: str
    do: Again
    begin: str = ""
    at: str = ""
    inputs: str = ""
    version: str = ""
    iterations: str = ""
    confirmed: bool = False
    #: Marks the plan that the form shows; empty where it shows none.
    shown: str = ""

    @property
    def words(self) -> str:
        """Where it begins, in a sentence."""
        if self.at:
            return f"version {self.at}"
        return f"run {self.begin}" if "#" in self.begin else f"step {self.begin}"


def find_agains(look: RunLook) -> Mapping[Again, str]:
    """What the visitor may begin from a run of a step that is looked at."""
    row = look.row
    if not look.visitor.principal.may("operate", row.path) or row.imported_at or row.descent == "undo":
        return {}
    return {one: word for one, word in WORDS.items() if one == "fork" or row.status in ENDED}


def begin_again() -> AnyResponse:
    """Shows what a retry or a fork would do, or does it. What is wrong with it is said there,
    beside what was typed.

    Raises Forbidden, and NotFound for an execution that the visitor may not know of.
    """
    visitor, typed = here().find_visitor(), _read_typed()
    back = own_path(request.form.get("back", "/"))
    chosen.check_may_operate(visitor.rt, visitor.principal, typed.execution_id)
    row, refused = _find(visitor, typed), ""
    status, planned = 200, None
    try:
        planned = _plan(visitor, typed)
        if request.form.get("sure") == "yes":
            return _lead_to(_begin(visitor, typed, planned).execution_id)
    except NoetlError as error:
        known = here().status_of(error)
        if known is None or known >= SERVER_ERROR:
            raise
        refused, status = error.message, known
    template = f"run/again_{typed.do}.html"
    mark = mark_plan(typed, planned) if isinstance(planned, PlannedRetry) else ""
    names: dict[str, Any] = {"typed": typed, "row": row, "planned": planned, "mark": mark}
    return show(template, status, **names, refused=refused, back=back)


def _read_typed() -> TypedAgain:
    given = request.form
    do = given.get("do", "")
    for known in WORDS:
        if known == do:
            texts = {name: given.get(name, "").strip() for name in _TEXTS}
            confirmed = given.get("confirmed") == "yes"
            shown = given.get("shown", "")
            return TypedAgain(given.get("id", ""), known, **texts, confirmed=confirmed, shown=shown)
    raise BadRequest(f"{do[:40]!r} is nothing that can be begun: {', '.join(WORDS)}.")


def _find(visitor: Visitor, typed: TypedAgain) -> ExecutionRow:
    with visitor.rt.store.read() as tx:
        return moment.find(tx, typed.execution_id)


def _plan(visitor: Visitor, typed: TypedAgain) -> PlannedRetry | PlannedFork:
    if typed.do == "retry":
        return retry.plan(visitor.rt, _retry_request(typed))
    return fork.plan(visitor.rt, _fork_request(typed))


def _begin(visitor: Visitor, typed: TypedAgain, planned: PlannedRetry | PlannedFork) -> ExecutionRow:
    if isinstance(planned, PlannedFork):
        return fork.fork(visitor.rt, _fork_request(typed))
    if typed.shown not in ("", mark_plan(typed, planned)):
        raise Conflict(
            "Nothing was started: inputs, version or the execution have changed since the plan was shown. "
            "This is the new plan: press Retry again if it is meant."
        )
    if planned.plan.repeats and not typed.confirmed:
        raise Conflict(
            f"Calls would be made again that may have had effects: {retry.name_repeats(planned.plan)}. Say "
            "below that they may, if that is meant."
        )
    return retry.retry(visitor.rt, _retry_request(typed))


def mark_plan(typed: TypedAgain, planned: PlannedRetry) -> str:
    """What tells one plan from another: what was typed, what it would run, and of what."""
    parts = [typed.inputs, planned.source.head_version, planned.request.digest, planned.as_json()]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:16]


def _retry_request(typed: TypedAgain) -> RetryRequest:
    """Raises BadRequest."""
    return RetryRequest(
        typed.execution_id,
        typed.begin,
        "failed" if typed.iterations == "failed" else "all" if typed.iterations == "all" else "",
        overrides=_read_inputs(typed),
        version=NEWEST if typed.version == "newest" else None,
        confirmed=typed.confirmed,
    )


def _fork_request(typed: TypedAgain) -> ForkRequest:
    """Raises BadRequest."""
    patch = _read_inputs(typed)
    if not typed.at:
        return ForkRequest(typed.execution_id, before=typed.begin, patch=patch)
    if not (typed.at.isascii() and typed.at.isdigit() and len(typed.at) < LONGEST_VERSION):
        raise BadRequest(f"{typed.at[:40]!r} is no version: it is a number from 1.")
    return ForkRequest(typed.execution_id, at=int(typed.at), patch=patch)


def _read_inputs(typed: TypedAgain) -> JsonMap:
    text = typed.inputs.replace("\r\n", "\n")
    return read_mapping(text, "What is to be otherwise") if text.strip() else {}


def _lead_to(execution_id: str) -> AnyResponse:
    """The page of the new execution."""
    where = f"/executions/{execution_id}"
    return Response(status=204, headers={"HX-Redirect": where}) if is_part() else redirect(where, 303)


# --- a test of it ---------------------------------------------------------------------------------


def show_fixture() -> Response:
    """The test that an execution would pass. Raises NotFound for one that the visitor may not know
    of, and BadRequest for one that is still at work, or was cancelled."""
    visitor, execution_id = here().find_visitor(), request.args.get("id", "")
    back = own_path(request.args.get("back", "/"))
    if not execution_id:
        raise BadRequest("Say of which execution a test is to be made: `id` in the address.")
    with visitor.rt.store.read() as tx:
        row = tx.executions.get(execution_id) if moment.is_id(execution_id) else None
    if row is None or not visitor.principal.may("read", row.path):
        raise moment.no_execution(execution_id)
    made = fixtures.make_fixture(visitor.rt, execution_id)
    return show("run/again_fixture.html", row=row, made=made, back=back)
