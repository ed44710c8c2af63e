"""Which slots a step, an iteration or an execution needs before it begins: what its limits say, as
they are rendered then."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Any, Final

from noetl.engine.inputs import Inputs
from noetl.engine.names import step_names
from noetl.engine.plan import Plan
from noetl.engine.queues import queue_of
from noetl.engine.run_state import Run
from noetl.engine.state import State
from noetl.engine.workload import request_names
from noetl.errors import TemplateError
from noetl.expressions import evaluate
from noetl.expressions.scope import layer_names
from noetl.facts.durations import seconds
from noetl.facts.json import Json, whole
from noetl.facts.limits import (
    DEFAULT_PRIORITY,
    LOOP_PRIORITY,
    QUEUE_KEY,
    RATE_KEY,
    AskedSlot,
)
from noetl.net.limits import Concurrency, RunLimits, StartRate
from noetl.net.model import Region, Transition

#: Characters of a key, and slots that one may have.
LONGEST: Final = 200
MOST: Final = 1_000_000


def is_limited(step: Transition, run: Run, inputs: Inputs) -> bool:
    """Whether a run of the step needs slots before it begins."""
    return step.limits.asks or (step.loop is None and queue_of(step, run) in inputs.queue_limits)


def are_lanes_limited(step: Transition, run: Run, inputs: Inputs) -> bool:
    """Whether iterations of its loop do."""
    if step.loop is None:
        return False
    return bool(step.loop.concurrency) or queue_of(step, run) in inputs.queue_limits


def ask_for_run(plan: Plan, state: State, inputs: Inputs, step: Transition, run: Run) -> list[AskedSlot]:
    """What a run needs. Raises TemplateError."""
    names = step_names(state, inputs, step, run.args)
    asked = _ask(step.limits, names, inputs, f"{plan.net.path}:{step.name}")
    return _merge(asked if step.loop is not None else [*asked, *_ask_queue(step, run, inputs)])


def ask_for_iteration(
    plan: Plan, state: State, inputs: Inputs, step: Transition, run: Run
) -> list[AskedSlot]:
    """What each iteration of its loop that is in flight needs. Raises TemplateError."""
    given = step.loop.concurrency if step.loop is not None else ()
    names, key = step_names(state, inputs, step, run.args), f"{plan.net.path}:{step.name}[]"
    asked = (_ask_slot(one, names, inputs, key, "loop.spec.concurrency") for one in given)
    return _merge([*asked, *_ask_queue(step, run, inputs)])


def ask_for_region(plan: Plan, inputs: Inputs, region: Region, names: Mapping[str, Any]) -> list[AskedSlot]:
    """What a region needs before its first run; `names` are what that sees. Raises
    TemplateError."""
    key, place = f"{plan.net.path}:{region.name}", f"concurrency of region {region.name!r}"
    return _merge(_ask_slot(one, names, inputs, key, place) for one in region.concurrency)


def ask_for_execution(plan: Plan, state: State, inputs: Inputs) -> list[AskedSlot]:
    """What an execution needs before its first step. Raises TemplateError."""
    own = {**request_names(state, inputs), "workload": state.workload}
    return _merge(_ask(plan.net.limits, layer_names(own, state.workload), inputs, plan.net.path))


def priority_of(plan: Plan, step: Transition) -> int:
    """Who comes first, from 0 to 9: what the step says, else its playbook, else iterations are
    last."""
    for given in (step.limits.priority, plan.net.limits.priority):
        if given is not None:
            return given
    return LOOP_PRIORITY if step.loop is not None else DEFAULT_PRIORITY


def priority_of_execution(plan: Plan) -> int:
    given = plan.net.limits.priority
    return DEFAULT_PRIORITY if given is None else given


def _ask(limits: RunLimits, names: Mapping[str, Any], inputs: Inputs, key: str) -> list[AskedSlot]:
    asked = [_ask_slot(one, names, inputs, key, "spec.concurrency") for one in limits.concurrency]
    return asked if limits.rate is None else [*asked, _ask_rate(limits.rate, names, inputs, key)]


def _ask_slot(one: Concurrency, names: Mapping[str, Any], inputs: Inputs, key: str, place: str) -> AskedSlot:
    limit = _read_limit(evaluate(one.limit, names, load=inputs.load), place)
    return AskedSlot(_read_key(one.key, names, inputs, key, place), limit, one.on_full)


def _ask_rate(rate: StartRate, names: Mapping[str, Any], inputs: Inputs, key: str) -> AskedSlot:
    place = "spec.rate"
    limit = _read_limit(evaluate(rate.limit, names, load=inputs.load), place)
    per_s = _read_period(evaluate(rate.per, names, load=inputs.load), place)
    return AskedSlot(RATE_KEY + _read_key(rate.key, names, inputs, key, place), limit, per_s=per_s)


def _ask_queue(step: Transition, run: Run, inputs: Inputs) -> list[AskedSlot]:
    queue = queue_of(step, run)
    limit = inputs.queue_limits.get(queue)
    return [] if limit is None else [AskedSlot(QUEUE_KEY + queue, limit)]


def _read_limit(value: Json, place: str) -> int:
    number = value
    if isinstance(value, str) and value.strip().isdecimal():
        number = int(value.strip()[:12])
    number = whole(number)
    if number is None or not 1 <= number <= MOST:
        shown = repr(value)[:60]
        raise TemplateError(f"{place}: the limit is {shown}; it has to be a whole number from 1 to {MOST:,}.")
    return number


def _read_key(given: Json, names: Mapping[str, Any], inputs: Inputs, otherwise: str, place: str) -> str:
    if given is None:
        return otherwise
    value = evaluate(given, names, load=inputs.load)
    key = str(value) if isinstance(value, int | float | Decimal) and not isinstance(value, bool) else value
    if not isinstance(key, str) or not 0 < len(key) <= LONGEST or not key.isprintable():
        shown = repr(value)[:60]
        raise TemplateError(f"{place}: the key is {shown}; it has to be a text of 1 to {LONGEST} characters.")
    if key.startswith((QUEUE_KEY, RATE_KEY)):
        raise TemplateError(
            f"{place}: the key {key!r} begins like one of a queue or of a rate; call it something else."
        )
    return key


def _read_period(value: Json, place: str) -> float:
    try:
        period = seconds(value)
    except ValueError as error:
        raise TemplateError(f"{place}: `per`: {error}") from error
    if not 0 < period < math.inf:
        raise TemplateError(f"{place}: `per` is {value!r}; it has to be a time above zero.")
    return period


def _merge(asked: Iterable[AskedSlot]) -> list[AskedSlot]:
    """One for each key, in the order of the keys; of two the smaller limit holds."""
    found: dict[str, AskedSlot] = {}
    for one in asked:
        if one.key not in found or one.limit < found[one.key].limit:
            found[one.key] = one
    return [found[key] for key in sorted(found)]
