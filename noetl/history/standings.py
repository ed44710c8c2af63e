"""How far the steps of an execution have come, in short."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from noetl.engine.run_state import RunStatus
from noetl.engine.state import State
from noetl.history.statuses import statuses_of_steps


@dataclass(frozen=True, slots=True)
class StepStanding:
    """Where a step is, and how often it has begun."""

    status: RunStatus
    runs: int


def find_standings(state: State) -> Mapping[str, StepStanding]:
    """Those of the steps that have begun."""
    statuses = statuses_of_steps(state)
    return {name: StepStanding(statuses[name], record.runs) for name, record in state.steps.items()}
