"""Commands as events: the order for a pipeline, a lane of a loop, or one iteration that goes on."""

from __future__ import annotations

from typing import Any, Literal

from noetl.engine.queues import queue_of
from noetl.engine.run_state import Run
from noetl.engine.state import State
from noetl.facts.events import CommandIssued, Draft
from noetl.facts.ids import command_id
from noetl.net.model import Transition


def issue_command(
    state: State,
    step: Transition,
    run: Run,
    purpose: Literal["pipeline", "lane", "iteration"],
    part: str,
    issue: int,
    *,
    iteration: int | None = None,
    **more: Any,
) -> Draft:
    """Command number `issue` (from 1) for a `part` of `run`; `more` as in `command.issued`."""
    command = command_id(state.execution_id, run.id, part, issue)
    fact = CommandIssued(command, purpose, part, queue_of(step, run), issue, state.version, **more)
    key = f"issued:{run.id}/{part}/{issue}"
    return Draft(fact, step=step.name, run_id=run.id, iteration=iteration, dedup_key=key)


def issue_lane(state: State, step: Transition, run: Run, part: str, generation: int) -> Draft:
    """The order for a lane of that generation."""
    return issue_command(state, step, run, "lane", part, generation, generation=generation)


def resume_command(
    state: State, step: Transition, run: Run, part: str, due_at: str | None, iteration: int | None
) -> Draft:
    """The command that resumes a suspended pipeline or iteration, not before `due_at`."""
    purpose: Literal["pipeline", "iteration"] = "pipeline" if iteration is None else "iteration"
    generation = run.loop.generation if run.loop else 0
    issue = run.issues.get(part, 0) + 1
    return issue_command(
        state, step, run, purpose, part, issue, iteration=iteration, generation=generation, due_at=due_at
    )
