"""`assert`: the inputs without which a task is not called, and what its result has to have."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any, Final

from noetl.expressions import part_of
from noetl.expressions.scope import body_of
from noetl.facts.json import Json, JsonMap
from noetl.facts.nearest import did_you_mean
from noetl.facts.outcome import ErrorInfo, Outcome, failed
from noetl.facts.reference import Lazy, Load, load_value
from noetl.facts.secret import is_secret
from noetl.net.model import Demand, Task, ValueType
from noetl.pipeline.failures import CannotGoOn, blame

_IS: Final[Mapping[ValueType, Callable[[Any], bool]]] = {
    "any": lambda _: True,
    "string": lambda value: isinstance(value, str),
    "integer": lambda value: isinstance(value, int) and not isinstance(value, bool),
    "number": lambda value: isinstance(value, int | float | Decimal) and not isinstance(value, bool),
    "boolean": lambda value: isinstance(value, bool),
    "list": lambda value: isinstance(value, list | tuple | Lazy),
    "mapping": lambda value: isinstance(value, Mapping),
}


def check_inputs(task: Task, step: str, args: JsonMap, load: Load) -> None:
    """Raises CannotGoOn where a value that the task expects among its `args` is not there, null, or
    of another type."""
    if not task.expects:
        return
    with blame(f"The inputs that task '{task.name}' expects"):
        for demand in task.expects:
            _check_input(demand, task, step, args, load)


def check_outcome(task: Task, step: str, outcome: Outcome, load: Load) -> Outcome:
    """`outcome`, or the failure that its result does not have what the task has to return."""
    if not (outcome.ok and task.returns):
        return outcome
    try:
        with blame(f"The result of task '{task.name}'"):
            for demand in task.returns:
                _check_return(demand, task, step, outcome.result, load)
    except CannotGoOn as fault:
        return failed(fault.error, outcome.meta, **outcome.extras)
    return outcome


def _check_input(demand: Demand, task: Task, step: str, args: JsonMap, load: Load) -> None:
    try:
        value = part_of(args, demand.path, load)
    except KeyError:
        value = None
    if value is None:
        near = did_you_mean(demand.path, sorted(args.keys() - {other.path for other in task.expects}))
        said = f"expects the input {demand.path!r}, which is missing or null; give it with `input:`.{near}"
        raise _make_error(demand, task, step, said)
    if (other := _other_type(value, demand.type, load)) is not None:
        said = f"expects the input {demand.path!r} to be of type {demand.type}; it is {other}."
        raise _make_error(demand, task, step, said)


def _check_return(demand: Demand, task: Task, step: str, result: Json, load: Load) -> None:
    """Looks into the body of an http response, then into the result."""
    whole = load_value(result, load)
    for place in (body_of(whole), whole):
        try:
            value = part_of(place, demand.path, load)
        except KeyError:
            continue
        if (other := _other_type(value, demand.type, load)) is not None:
            said = f"has to return {demand.path!r} of type {demand.type}; it is {other}."
            raise _make_error(demand, task, step, said)
        return
    body = load_value(body_of(whole), load)
    there = body if isinstance(body, Mapping) else whole
    near = did_you_mean(demand.path, map(str, there)) if isinstance(there, Mapping) else ""
    said = f"has to return {demand.path!r}, and its result has none.{near}"
    raise _make_error(demand, task, step, said)


def _other_type(value: Json, type: ValueType, load: Load) -> str | None:
    """The type of `value` where it is not of `type`."""
    # Only tools open secrets: no one else knows the type of one.
    if type == "any" or is_secret(value) or _IS[type](value := load_value(value, load)):
        return None
    return next((name for name, fits in _IS.items() if name != "any" and fits(value)), "null")


def _make_error(demand: Demand, task: Task, step: str, said: str) -> CannotGoOn:
    who = f"Task {task.name!r} of step {step!r}"
    if demand.of:
        who = f"Workbook task {demand.of!r}, called by task {task.name!r} of step {step!r},"
    return CannotGoOn(ErrorInfo("client_error", f"{who} {said}", type="AssertionFailed"))
