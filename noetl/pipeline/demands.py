"""`assert`: the inputs without which a task is not called, and what its result has to have."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from noetl.errors import NoetlError
from noetl.expressions import part_of
from noetl.expressions.results import body_of
from noetl.facts.json import Json, JsonMap
from noetl.facts.nearest import did_you_mean
from noetl.facts.outcome import ErrorInfo, Outcome, failed
from noetl.facts.reference import Lazy, Load, loaded
from noetl.facts.secret import is_secret
from noetl.net.model import Demand, Task, ValueType
from noetl.pipeline.failures import described

_IS: Final[Mapping[ValueType, Callable[[Any], bool]]] = {
    "any": lambda _: True,
    "string": lambda value: isinstance(value, str),
    "integer": lambda value: isinstance(value, int) and not isinstance(value, bool),
    "number": lambda value: isinstance(value, int | float) and not isinstance(value, bool),
    "boolean": lambda value: isinstance(value, bool),
    "list": lambda value: isinstance(value, list | tuple | Lazy),
    "mapping": lambda value: isinstance(value, Mapping),
}


def missing_input(task: Task, step: str, args: JsonMap, load: Load) -> ErrorInfo | None:
    """Why the task is not called with `args`: a value that it expects is not there, null, or of
    another type."""
    try:
        return next(
            (fault for demand in task.expects if (fault := _ungiven(demand, task, step, args, load))), None
        )
    except NoetlError as error:
        return described(error, f"The inputs that task '{task.name}' expects")


def kept_promise(task: Task, step: str, outcome: Outcome, load: Load) -> Outcome:
    """`outcome`, or the failure that its result does not have what the task has to return."""
    if not outcome.ok:
        return outcome
    try:
        faults = (_unreturned(demand, task, step, outcome.result, load) for demand in task.returns)
        fault = next((fault for fault in faults if fault), None)
    except NoetlError as error:
        fault = described(error, f"The result of task '{task.name}'")
    return outcome if fault is None else failed(fault, outcome.meta, **outcome.extras)


def _ungiven(demand: Demand, task: Task, step: str, args: JsonMap, load: Load) -> ErrorInfo | None:
    try:
        value = part_of(args, demand.path, load)
    except KeyError:
        value = None
    if value is None:
        near = did_you_mean(demand.path, sorted(args.keys() - {other.path for other in task.expects}))
        said = f"expects the input {demand.path!r}, which is missing or null; give it with `input:`.{near}"
        return _error(demand, task, step, said)
    if _fits(value, demand.type, load):
        return None
    said = f"expects the input {demand.path!r} to be of type {demand.type}; it is {_type(value, load)}."
    return _error(demand, task, step, said)


def _unreturned(demand: Demand, task: Task, step: str, result: Json, load: Load) -> ErrorInfo | None:
    found = _returned(result, demand.path, load)
    if not found:
        said = f"has to return {demand.path!r}, and its result has none.{_near(demand, result, load)}"
        return _error(demand, task, step, said)
    if _fits(found[0], demand.type, load):
        return None
    said = f"has to return {demand.path!r} of type {demand.type}; it is {_type(found[0], load)}."
    return _error(demand, task, step, said)


def _near(demand: Demand, result: Json, load: Load) -> str:
    whole = loaded(result, load)
    body = loaded(body_of(whole), load)
    there = body if isinstance(body, Mapping) else whole
    return did_you_mean(demand.path, map(str, there)) if isinstance(there, Mapping) else ""


def _returned(result: Json, path: str, load: Load) -> tuple[Json, ...]:
    """What `path` names in the body of an http response, else in the result; nothing where neither
    has it."""
    whole = loaded(result, load)
    for place in (body_of(whole), whole):
        try:
            return (part_of(place, path, load),)
        except KeyError:
            continue
    return ()


def _fits(value: Json, type: ValueType, load: Load) -> bool:
    # Only tools open secrets: of what type one is nobody else knows.
    return type == "any" or is_secret(value) or _IS[type](loaded(value, load))


def _type(value: Json, load: Load) -> str:
    value = loaded(value, load)
    return next((name for name, fits in _IS.items() if name != "any" and fits(value)), "null")


def _error(demand: Demand, task: Task, step: str, said: str) -> ErrorInfo:
    who = f"Task {task.name!r} of step {step!r}"
    if demand.of:
        who = f"Workbook task {demand.of!r}, called by task {task.name!r} of step {step!r},"
    return ErrorInfo("client_error", f"{who} {said}", type="AssertionFailed")
