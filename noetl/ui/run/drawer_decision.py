"""Why a step ran, did not run or waits: what was asked, what it read, and what came of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from noetl.history.accounts import Asked, Dropped, RunAccount, StepAccount, WaitAccount, Way
from noetl.history.sentences import say_cause, say_fate, say_policy


@dataclass(frozen=True, slots=True)
class ReasonLine:
    """What was asked, and what became of it. `step` is another one that it leads to or comes from,
    `taken` whether that way was gone, where it is one."""

    text: str
    step: str | None = None
    arrow: str = ""
    taken: bool | None = None
    version: int | None = None


@dataclass(frozen=True, slots=True)
class Reason:
    """Lines of one kind, under what they answer."""

    title: str
    lines: Sequence[ReasonLine]


def find_reasons(account: StepAccount, run: RunAccount | None) -> list[Reason]:
    """What is known of the step as a whole, and of one run of it."""
    found = [*_of_step(account), *(() if run is None else _of_run(run))]
    return [one for one in found if one.lines]


def _of_step(one: StepAccount) -> Iterator[Reason]:
    # What it waits for first is said by the sentence about the step.
    yield Reason("What was asked", [line for wait in one.waits[:1] for line in _rules(wait.rules)])
    yield Reason("It also waits for", list(_waits(one.waits[1:])))
    if one.standing in ("not_run", "waiting", "skipped"):
        yield Reason("Ways to it", [_way(way, way.source, "from") for way in one.ways])
        yield Reason("The way to it ended at", [_stop(way) for way in one.stopped_at])
    yield Reason("What came and did not run it", list(_dropped(one.dropped)))


def _of_run(run: RunAccount) -> Iterator[Reason]:
    causes = [_line(way, say_cause(way), way.source, "from") for way in run.because]
    handled = [ReasonLine(f"It {run.handled}")] if run.handled else []
    yield Reason("Why it ran", [*causes, *handled, *_rules(run.admission)])
    reuse = [run.reuse] if run.reuse else []
    ended = [run.reason] if run.reason else []
    yield Reason("Reuse", [ReasonLine(text) for text in reuse])
    more = [f"{run.policies_more} more rules matched"] if run.policies_more else []
    told = [ReasonLine(say_policy(one), version=one.version) for one in run.policies]
    yield Reason("Rules of its tasks that matched", [*told, *(ReasonLine(text) for text in more)])
    yield Reason("How it ended", [ReasonLine(text) for text in (*ended, *run.undone)])
    yield Reason("Where it led", [_way(way, way.step, "to") for way in run.next])


def _waits(waits: Iterable[WaitAccount]) -> Iterator[ReasonLine]:
    for wait in waits:
        yield ReasonLine(wait.text)
        yield from _rules(wait.rules)


def _dropped(dropped: Iterable[Dropped]) -> Iterator[ReasonLine]:
    for one in dropped:
        yield ReasonLine(one.why, version=one.version)
        yield from _rules(one.rules)


def _rules(rules: Iterable[Asked]) -> Iterator[ReasonLine]:
    for rule in rules:
        yield ReasonLine(f"{rule.text}: {rule.said}")


def _way(way: Way, step: str | None, arrow: str) -> ReasonLine:
    return _line(way, say_fate(way), step, arrow)


def _line(way: Way, text: str, step: str | None, arrow: str) -> ReasonLine:
    return ReasonLine(text, step, arrow, way.fate == "taken", way.version)


def _stop(way: Way) -> ReasonLine:
    """An arc further up: both of its ends are told."""
    return _line(way, f"to {way.step}: {say_fate(way)}", way.source, "from")
