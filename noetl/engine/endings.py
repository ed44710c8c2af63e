"""What is left to be done at the end of an execution, a region or a run, in words: what is undone,
and what has to be done behind every end."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import assert_never

from noetl.engine.run_state import Run
from noetl.engine.scope_state import Undoable, UndoableCall
from noetl.engine.state import State
from noetl.facts.scopes import Handling


@dataclass(frozen=True, slots=True)
class Ending:
    """Something that ends and has more to do: the execution, or a `region`, or with neither a run.
    `text` says what is done now, by the run `run_id` of the step `step` since the version
    `version`: they are None where no run of its own does it."""

    text: str
    region: str | None = None
    step: str | None = None
    run_id: str | None = None
    version: int | None = None


def find_endings(state: State) -> list[Ending]:
    """What ends now: the execution, or else regions and runs in the order in which that began."""
    if state.ended:
        return []
    handlers = [run for run in state.runs.values() if run.handling is not None and not run.ended]
    called = [Ending(f"execution {by} undoes {undone}") for undone, by in state.undos.items()]
    if state.closing is not None:
        whose = f"its end as {state.closing}" if state.undoes is None else f"the undoing of {state.undoes}"
        return [replace(one, text=f"{whose}: {one.text}") for one in called] or list(
            _of_execution(whose, state, handlers)
        )
    return called + [
        _tell(f"the end of {_say_whose(run.handling)}", run) for run in handlers if run.handling is not None
    ]


def only_ends(state: State) -> bool:
    """Whether its work is over, and only what is done at ends is left."""
    alive = [run for run in state.runs.values() if not run.ended]
    return state.closing is not None or (bool(alive) and all(run.handling is not None for run in alive))


def _of_execution(whose: str, state: State, handlers: list[Run]) -> Iterator[Ending]:
    if not handlers:
        final = next((run for run in state.runs.values() if run.final and not run.ended), None)
        yield Ending(whose) if final is None else _tell(whose, final)
    for run in handlers:
        yield _tell(whose, run, _say_rest(state, run))


def _tell(whose: str, run: Run, rest: str = "") -> Ending:
    doing = "runs last" if run.handling is None else say_handling(run.handling)
    text = f"{whose}: step {run.step!r} {doing}{rest}"
    region = run.handling.region or None if run.handling is not None else None
    return Ending(text, region, run.step, run.id, run.version)


def _say_whose(handling: Handling) -> str:
    return f"region {handling.region!r}" if handling.region else handling.run_id or "the execution"


def say_handling(handling: Handling) -> str:
    """What is done there, as a verb: `undoes book#1`."""
    match handling.purpose:
        case "compensate":
            iteration = "" if handling.iteration is None else f"iteration {handling.iteration} of "
            return f"undoes {iteration}{handling.run_id}"
        case "finally":
            return "cleans up"
        case "on_cancel":
            return "does what is done after a cancel"
        case _:
            assert_never(handling.purpose)


def _say_rest(state: State, run: Run) -> str:
    """What it is for besides, and how much is still to be undone behind it."""
    handling = run.handling
    if handling is None or handling.region:
        return ""
    if handling.purpose != "compensate":
        return f" behind {handling.run_id}" if handling.run_id else ""
    left = sum(map(_count_parts, state.undoable)) - 1
    return f", {left} more to undo" if left > 0 else ""


def _count_parts(one: Undoable | UndoableCall) -> int:
    """How many things of it are to be undone."""
    match one:
        case Undoable(left=left):
            return 1 if left is None else len(left)
        case UndoableCall():
            return 1
        case _:
            assert_never(one)
