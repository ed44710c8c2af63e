"""`concurrency`, `rate` and `priority`: from the document to the net."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from noetl.dsl.compile.context import Context
from noetl.dsl.document import ConcurrencySpec, ExecutorSpec, RateSpec, StepSpec
from noetl.dsl.document.texts import is_template
from noetl.dsl.problems import Code, Path, quote_value
from noetl.facts.durations import seconds
from noetl.facts.json import Json
from noetl.facts.limits import PRIORITIES, QUEUE_KEY, RATE_KEY
from noetl.net.limits import Concurrency, RunLimits, StartRate

_LIMIT: Final = "write a whole number from 1, or a template"
_KEY: Final = "write a text of 1 to 200 characters, or a template"
_LONGEST: Final = 200


def compile_limits(context: Context, spec: StepSpec | ExecutorSpec, at: Path, step: str | None) -> RunLimits:
    """What the spec at `at` says of slots, rate and priority; what is wrong is reported."""
    found = compile_concurrency(context, spec.concurrency, (*at, "concurrency"), step)
    rate = None if spec.rate is None else _rate(context, spec.rate, (*at, "rate"), step)
    return RunLimits(found, rate, _priority(context, spec.priority, (*at, "priority")))


def compile_concurrency(
    context: Context, given: ConcurrencySpec | Sequence[ConcurrencySpec] | None, at: Path, step: str | None
) -> tuple[Concurrency, ...]:
    """One for each mapping that can be used."""
    if given is None:
        return ()
    if isinstance(given, ConcurrencySpec):
        entries: list[tuple[ConcurrencySpec, Path]] = [(given, at)]
    else:
        entries = [(one, (*at, number)) for number, one in enumerate(given)]
    found = (_concurrency(context, one, path, step) for one, path in entries)
    return tuple(one for one in found if one is not None)


def _concurrency(context: Context, form: ConcurrencySpec, at: Path, step: str | None) -> Concurrency | None:
    _check_key(context, form.key, (*at, "key"), step)
    if not _check_limit(context, form.limit, at, step):
        return None
    return Concurrency(form.limit, form.key, form.on_full or "wait")


def _rate(context: Context, form: RateSpec, at: Path, step: str | None) -> StartRate | None:
    _check_key(context, form.key, (*at, "key"), step)
    is_bounded = _check_limit(context, form.limit, at, step)
    if not _check_period(context, form.per, at, step) or not is_bounded:
        return None
    return StartRate(form.limit, form.per, form.key)


def _check_limit(context: Context, limit: Json, at: Path, step: str | None) -> bool:
    path: Path = (*at, "limit")
    if limit is None:
        if not context.report.is_faulty(path):
            context.report.missing(at, "limit", f"{at[-1]} has no limit", _LIMIT)
        return False
    context.use(path, limit, step)
    if is_template(limit):
        return True
    if isinstance(limit, int) and not isinstance(limit, bool) and limit >= 1:
        return True
    context.report.add(Code.VALUE, path, f"the limit is {quote_value(limit)}", _LIMIT)
    return False


def _check_period(context: Context, per: Json, at: Path, step: str | None) -> bool:
    path, hint = (*at, "per"), "write a time above zero, such as 10s, 1m or 1h, or a template"
    if per is None:
        if not context.report.is_faulty(path):
            context.report.missing(at, "per", "the rate does not say in what time", hint)
        return False
    context.use(path, per, step)
    if is_template(per):
        return True
    try:
        period = seconds(per)
    except ValueError:
        period = 0.0
    if 0 < period < math.inf:
        return True
    context.report.add(Code.VALUE, path, f"per is {quote_value(per)}", hint)
    return False


def _check_key(context: Context, key: Json, path: Path, step: str | None) -> None:
    if key is None:
        return
    context.use(path, key, step)
    if not isinstance(key, str) or is_template(key):
        return
    if not 0 < len(key) <= _LONGEST or not key.isprintable():
        context.report.add(Code.VALUE, path, f"the key is {quote_value(key)}", _KEY)
    elif key.startswith((QUEUE_KEY, RATE_KEY)):
        hint = "call it something else; NOETL_QUEUE_LIMITS bounds queues"
        context.report.add(
            Code.VALUE, path, f"the key {quote_value(key)} begins like one of a queue or of a rate", hint
        )


def _priority(context: Context, priority: int | None, path: Path) -> int | None:
    if priority is None or (priority in PRIORITIES and not isinstance(priority, bool)):
        return priority
    context.report.add(
        Code.VALUE,
        path,
        f"the priority is {quote_value(priority)}",
        "write a whole number from 0 to 9, which comes first",
    )
    return None
