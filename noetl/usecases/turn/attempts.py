"""The next attempt of an execution that has failed, where the policy of its playbook asks for one:
what stands in its way, and the turn behind the end that decides it."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial

from noetl.engine.decision import Decision
from noetl.engine.evolve import evolve
from noetl.engine.retries import ask_policy, is_to_be_asked
from noetl.engine.state import State
from noetl.errors import (
    BadRequest,
    ConfigError,
    Conflict,
    NoetlError,
    NotFound,
    PlaybookInvalid,
    Unavailable,
)
from noetl.facts.reference import Retention
from noetl.forecast.again import UNDRAWN
from noetl.usecases import retry
from noetl.usecases.decision_inputs import inputs_of
from noetl.usecases.ports import Transaction
from noetl.usecases.retry import PlannedRetry, RetryRequest
from noetl.usecases.runtime import Cache, Runtime
from noetl.usecases.turn.writing import Turn, write_turn

log = logging.getLogger(__name__)


def find_obstacle(
    rt: Runtime, tx: Transaction, state: State, planned: list[PlannedRetry], new_id: str
) -> str:
    """Why what has come to `state` cannot be retried by itself, in a clause; empty where it can be:
    then `planned` has the plan of the retry of that id."""
    try:
        found = retry.plan_next(rt, tx, RetryRequest(state.execution_id, attempt=state.attempt + 1), new_id)
    except Unavailable:
        raise
    except (BadRequest, ConfigError, Conflict, NotFound, PlaybookInvalid) as error:
        return _clause(error)
    except Exception as error:
        # A defect must leave the failure of this execution as it is, and not stop the scheduler
        # that serves all the others.
        log.exception("Planning the retry of execution %s failed", state.execution_id)
        return f"NoETL could not plan the retry: {error}"
    repeats = retry.name_repeats(found.plan)
    policy = rt.plan(tx, found.request.digest).net.retry
    if repeats and not (policy is not None and policy.allow_effects):
        return (
            f"it would make calls again that may have had effects: {repeats}; confirm with `noetl execution "
            f"retry {state.execution_id} --yes`, or write allow_effects: true in the policy"
        )
    planned.append(found)
    return ""


def _clause(error: NoetlError) -> str:
    return error.message.rstrip(".")


def ask_policies(rt: Runtime, tx: Transaction, turns: Sequence[Turn], now: datetime) -> list[Turn]:
    """`turns` as they were written; of each in which an execution failed that has a policy the turn
    behind it, which asks that, in the same transaction: nobody sees a failure of which is not known
    what follows."""
    return [_ask(rt, tx, turn, now) if turn.decision.ends else turn for turn in turns]


def _ask(rt: Runtime, tx: Transaction, turn: Turn, now: datetime) -> Turn:
    state, plan = turn.after, rt.plan(tx, turn.row.digest)
    if not is_to_be_asked(plan, state):
        return turn
    # What this transaction may still take back is kept for nobody.
    aside = replace(rt, sources=Cache(1))
    inputs = inputs_of(rt, tx, plan, state.execution_id, now, Retention(state.execution_id))
    draft = ask_policy(plan, state, inputs, partial(find_obstacle, aside, tx, state, [], UNDRAWN))
    row = replace(turn.row, decided_version=state.version)
    behind = Turn(row, state, Decision((draft,), evolve(state, draft)))
    write_turn(rt, tx, behind, now)
    return replace(behind, commands=turn.commands)
