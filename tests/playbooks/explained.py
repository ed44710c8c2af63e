"""What an explanation says of a run, held against what the run did."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence

from noetl.engine.plan import Plan
from noetl.facts import events as e
from noetl.facts.events import Event
from noetl.history.accounts import StepAccount
from noetl.history.compare import compare
from noetl.history.explain import explain
from noetl.history.shape import as_json, comparison_as_json
from noetl.net.model import Net

#: At how many versions each execution is explained, the last one among them.
_MOMENTS = 2


def unexplained(net: Net, events: Sequence[Event]) -> Iterator[str]:
    """Every step, at some versions of a run that has ended, of which the explanation says something
    else than the log, or nothing."""
    plan = Plan(net)
    for moment in range(1, _MOMENTS + 1):
        log = events[: len(events) * moment // _MOMENTS]
        found = explain(plan, log)
        json.dumps(as_json(found), allow_nan=False)
        assert [one.step for one in found.steps] == list(net.steps)
        for one in found.steps:
            told = _differs(one, log, ended=moment == _MOMENTS)
            yield from (f"{one.step} at version {len(log)}: {what}" for what in told)
    for step in net.steps:
        (close,) = explain(plan, events, step=step).steps
        assert close.run_count >= len(close.runs)
    same = compare(events, events)
    json.dumps(comparison_as_json(same), allow_nan=False)
    if not same.same:
        yield f"an execution differs from itself: {same.summary}"


def _differs(one: StepAccount, log: Sequence[Event], *, ended: bool) -> Iterator[str]:
    runs = Counter(event.draft.step for event in log if isinstance(event.fact, e.StepScheduled))
    if one.run_count != runs[one.step]:
        yield f"{runs[one.step]} runs, not {one.run_count}"
    if (one.standing == "not_run") and one.run_count:
        yield "it ran"
    # A message that is too long for a sentence says that it was cut.
    if not one.why.endswith((".", "…")) or ": ." in one.why or len(one.why) > 800:
        yield f"no sentence: {one.why!r}"
    if one.standing == "not_run" and ":" not in one.why:
        yield f"no reason: {one.why!r}"
    if one.standing in ("waiting", "running") and (ended or not one.waits):
        yield f"{one.standing}, for {one.waits}"
    put = Counter(
        arc
        for event in log
        if isinstance(event.fact, e.NextEvaluated)
        # However many tokens it put down.
        for arc in {token.arc for token in event.fact.tokens if token.step == one.step}
    )
    taken = {way.arc: way.taken for way in one.ways if way.source is not None and way.taken}
    if taken != put:
        yield f"tokens {dict(put)}, not {taken}"
