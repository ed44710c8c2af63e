"""The milestone of a step: what was found when it was asked about, and what it still waits for."""

from __future__ import annotations

from typing import Final

from noetl.facts import events as e
from noetl.history.accounts import Asked, WaitAccount
from noetl.history.evidence import Evidence
from noetl.net.model import Milestone

_SAID: Final = {
    "early": "came before its milestone",
    "reached": "its milestone reached",
    "passed": "its milestone passed",
}


def milestones_asked(here: Evidence, step: str, tokens: tuple[str, ...]) -> tuple[Asked, ...]:
    """What was found each time that the milestone of `step` was asked about for one of `tokens`."""
    facts = (event.fact for event in here.of_step.get(step, ()))
    return tuple(
        Asked(describe_milestone(Milestone(fact.after, fact.before)), {}, _SAID[fact.stage])
        for fact in facts
        if isinstance(fact, e.MilestoneEvaluated) and fact.token in tokens
    )


def describe_milestone(milestone: Milestone) -> str:
    """`milestone after a, before b`."""
    bounds = {"after": milestone.after, "before": milestone.before}
    return "milestone " + ", ".join(f"{word} {name}" for word, name in bounds.items() if name)


def wait_for_milestone(milestone: Milestone) -> WaitAccount:
    """What a token that came too early waits for."""
    gone = f", before {milestone.before!r} begins" if milestone.before else ""
    return WaitAccount("milestone", f"it may begin once step {milestone.after!r} is done{gone}")
