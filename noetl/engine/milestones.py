"""Milestones: steps that may begin only once another one is done, and until a third one begins.

Whether a milestone is reached or passed is asked when the tokens before its step could fire it, and
recorded. Tokens that come too early wait; those that come too late, or have waited until then, are
skipped. What waits when nothing else happens any more fails its branch.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from noetl.engine.state import State
from noetl.facts import events as e
from noetl.facts.events import Draft
from noetl.facts.outcome import ErrorInfo
from noetl.net.model import Milestone, Transition

Stage = Literal["early", "reached", "passed"]


def stage_of(state: State, milestone: Milestone) -> Stage:
    """Where the execution is: `passed` wins, because it is for good."""
    before, after = state.steps.get(milestone.before), state.steps.get(milestone.after)
    if before is not None and before.runs:
        return "passed"
    done = not milestone.after or (after is not None and bool(after.counts.get("done")))
    return "reached" if done else "early"


def is_early(state: State, step: Transition, token: str) -> bool:
    """Whether the token was found too early, and still is."""
    if step.milestone is None or not state.tokens[token].early:
        return False
    return stage_of(state, step.milestone) == "early"


def is_passed(state: State, step: Transition) -> bool:
    """Whether nothing before the step can fire it any more."""
    return step.milestone is not None and stage_of(state, step.milestone) == "passed"


def ask_milestone(state: State, step: Transition, tokens: Sequence[str]) -> tuple[Stage, list[Draft]]:
    """Where the execution is, for tokens that could fire the step; the record of that, and the end
    of those that are too late. A step without a milestone has always reached it."""
    milestone = step.milestone
    if milestone is None:
        return "reached", []
    stage = stage_of(state, milestone)
    fact = e.MilestoneEvaluated(tokens[0], stage, milestone.after, milestone.before)
    drafts = [Draft(fact, step=step.name)]
    if stage == "passed":
        reason = f"step {milestone.before!r} had begun"
        drafts.append(Draft(e.StepSkipped(tuple(tokens), reason), step=step.name))
    return stage, drafts


def error_of_waiting(step: Transition, milestone: Milestone) -> ErrorInfo:
    """The error of a branch whose milestone can no longer be reached."""
    message = (
        f"Step {step.name!r} waits for its milestone, and step {milestone.after!r}, "
        "after which it may begin, can no longer be done."
    )
    return ErrorInfo("join", message, step=step.name, line=step.line or None)
