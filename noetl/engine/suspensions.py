"""Where a pipeline waits without a worker: a run, or one iteration of its loop, which keeps its
place among those in flight."""

from __future__ import annotations

from noetl.engine.changes import replace
from noetl.engine.run_state import Run
from noetl.engine.state import State


def place_key(run_id: str, iteration: int | None) -> str:
    """Names a pipeline in an execution: that of a run, or of one of its iterations."""
    return f"{run_id}/{'-' if iteration is None else iteration}"


def wait_place(state: State, run: Run, iteration: int | None) -> State:
    """The pipeline waits for something that is not its worker's."""
    loop = run.loop
    if loop is not None and iteration is not None:
        run = replace(run, loop=replace(loop, calling=(*loop.calling, iteration)))
    else:
        run = replace(run, status="waiting")
    return replace(state, runs={**state.runs, run.id: run})


def resume_place(state: State, run_id: str, iteration: int | None) -> State:
    """The pipeline goes on, at once."""
    run = state.runs.get(run_id)
    if run is None or run.ended:
        return state
    if run.loop is None or iteration is None:
        run = replace(run, resume_at="")
    else:
        calling = tuple(index for index in run.loop.calling if index != iteration)
        suspended = {**run.loop.suspended, iteration: None}
        run = replace(run, loop=replace(run.loop, calling=calling, suspended=suspended))
    return replace(state, runs={**state.runs, run.id: run})
