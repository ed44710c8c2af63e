"""What decisions about an execution need of the world, from the ports: made for a turn, and for a
plan of what a turn would decide."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from functools import partial
from typing import TypeAlias

from noetl.engine.inputs import Inputs, Playbook
from noetl.engine.plan import Plan
from noetl.errors import BadRequest, NotFound, PlaybookInvalid, TemplateError
from noetl.facts.json import Json, JsonMap
from noetl.facts.outcome import ErrorInfo
from noetl.facts.reference import Retention
from noetl.facts.secret import Keychain
from noetl.usecases import catalog
from noetl.usecases.called import foresee_call
from noetl.usecases.large_values import keep_pages
from noetl.usecases.ports import Transaction
from noetl.usecases.prerequisites import find_missing
from noetl.usecases.runtime import Runtime

#: How a playbook of that path takes a call, as `Playbook.take_call` says.
TakeCall: TypeAlias = Callable[[Plan, str, JsonMap, str], str | ErrorInfo | None]


def inputs_of(
    rt: Runtime, tx: Transaction, plan: Plan, execution_id: str, now: datetime, keep: Retention
) -> Inputs:
    """What decisions about an execution need of the world, whatever its state is. Values that are
    too large for the log are kept as `keep` says."""
    return Inputs(
        now=now,
        load=lambda reference: _load(rt, reference),
        holds=rt.holds,
        file_digest=partial(rt.file_digest, execution_id),
        hold=lambda value: rt.hold(value, keep),
        paged=lambda items: keep_pages(rt, items, keep),
        env=rt.env,
        max_in_flight=rt.limits.max_in_flight,
        max_items=rt.limits.max_items,
        max_generations=rt.limits.max_generations,
        queue_limits=rt.limits.queue_limits,
        playbook=lambda path, version: find_playbook(rt, tx, path, version, partial(foresee_call, rt, now)),
        max_depth=rt.limits.max_depth,
        most_copies=rt.limits.turn_copies,
        keychain=Keychain(plan.net.keychain, execution_id, rt.seal),
    )


def find_playbook(
    rt: Runtime, tx: Transaction, path: str, version: int | None, take_call: TakeCall
) -> Playbook | ErrorInfo:
    """The playbook that a task calls: from the catalog, else from the library."""
    try:
        row = catalog.find_to_call(rt, tx, path, version)
        digest = catalog.renew(rt, tx, row).digest
    except (NotFound, PlaybookInvalid) as error:
        return ErrorInfo("client_error", error.message, type=type(error).__name__)
    plan = rt.plan(tx, digest)
    if (missing := find_missing(rt, tx, row, plan)) is not None:
        return ErrorInfo("client_error", missing.message, type=type(missing).__name__)
    return Playbook(row.path, row.version, digest, plan.net.steps, partial(take_call, plan, row.path))


def _load(rt: Runtime, reference: Mapping[str, Json]) -> Json:
    """What is gone fails what looks into it, like any other template that cannot be evaluated."""
    try:
        return rt.load(reference)
    except (NotFound, BadRequest) as error:
        raise TemplateError(error.message) from error
