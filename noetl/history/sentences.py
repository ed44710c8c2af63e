"""Accounts in words, for every place that shows them: the terminal, and the pages."""

from __future__ import annotations

from typing import Final

from noetl.facts.json import JsonMap
from noetl.history.accounts import Asked, LoopAccount, PolicyAccount, Way

#: A second, in milliseconds.
_SECOND: Final = 1000


def say_milliseconds(value: float | None) -> str:
    """`12 ms`, `1.5 s`; a dash where it is not known."""
    if value is None:
        return "-"
    return f"{value / _SECOND:.1f} s" if value >= _SECOND else f"{value:.0f} ms"


def say_asked(asked: Asked) -> str:
    """`{{ n > 5 }} with n = 3: did not hold`."""
    return f"{asked.text}: {asked.said}"


def say_rule(rule: Asked) -> str:
    """A rule of an admission, or a milestone, that was asked."""
    return f"admission: {say_asked(rule)}"


def say_cause(way: Way) -> str:
    """What fired a run."""
    guard = f": {say_asked(way.guard)}" if way.guard is not None else ""
    return f"fired by {way.run or 'the entry'}{guard}"


def say_fate(way: Way) -> str:
    """What became of an arc, and how often it was taken where it was asked more than once."""
    often = f" ({way.taken} of {way.asked} times taken)" if way.asked > 1 else ""
    if way.guard is None:
        return f"{way.why}{often}"
    return f"{say_asked(way.guard)}{_beyond(way)}{often}"


def _beyond(way: Way) -> str:
    """What the guard's answer does not say."""
    if way.fate == "missed":
        return ""
    return f", and it {way.why}" if way.fate == "taken" else f", but {way.why}"


def say_origin(reused: JsonMap) -> str:
    """Whose result stood in for a call."""
    place = "" if reused["iteration"] is None else f"[{reused['iteration']}]"
    return (
        f"from the cache: what task {reused['task']}{place} of run {reused['run_id']} of execution "
        f"{reused['execution_id']} came to at {reused['at']}"
    )


def say_policy(one: PolicyAccount) -> str:
    """A rule of a task's policy that matched, and what it decided."""
    place = "" if one.iteration is None else f"[{one.iteration}]"
    rule = "its guard" if one.rule is None else f"rule {one.rule + 1} of its policy"
    to = f" to {one.to}" if one.to else ""
    delay = f" after {say_milliseconds(one.delay * _SECOND)}" if one.delay else ""
    return f"task {one.task}{place}: {rule}: {one.guard.text}: {one.do}{to}{delay}"


def say_loop(loop: LoopAccount) -> str:
    """How far a loop came."""
    counts = {
        "completed": loop.completed,
        "failed": loop.failed,
        "cancelled": loop.cancelled,
        "waiting": loop.waiting,
        "open": loop.open,
    }
    told = ", ".join(f"{count} {word}" for word, count in counts.items() if count)
    return f"loop over {loop.total}: {told or 'nothing to do'}"


def say_error(error: JsonMap) -> str:
    """`ValueError: no such customer`."""
    return f"{error.get('type') or error['kind']}: {error['message']}"
