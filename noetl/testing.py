"""Test playbooks and decisions without servers, processes or waiting.

    given(plan, *facts).when(*facts).then(*facts)   one decision of the engine
    Simulation(yaml, tools={...}).run()             a whole execution, every message in your hands

A simulation runs the same use cases as production, over the store in memory, a clock that stands
still until it is moved, and messages that wait in a list until they are delivered, lost or doubled.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from noetl.engine.decide import decide
from noetl.engine.evolve import evolve
from noetl.engine.inputs import Inputs
from noetl.engine.plan import Plan
from noetl.engine.state import State, initial_state
from noetl.facts.events import Draft, Fact
from noetl.trial.simulation import (
    KINDS,
    START,
    Mailbox,
    Message,
    Scripted,
    ScriptedTools,
    Simulation,
    StillLeases,
    default_tools,
)

__all__ = [
    "KINDS",
    "START",
    "Given",
    "Mailbox",
    "Message",
    "Scripted",
    "ScriptedTools",
    "Simulation",
    "StillLeases",
    "When",
    "default_tools",
    "given",
]


# --- one decision ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Given:
    """A state to decide on. Facts may come as drafts, where they belong to a step or an
    iteration."""

    plan: Plan
    state: State
    inputs: Inputs

    def when(self, *facts: Fact | Draft) -> When:
        """Folds `facts`, then decides."""
        state = _fold(self.state, facts)
        decision = decide(self.plan, state, self.inputs)
        return When(list(decision.drafts), decision.after)


@dataclass(frozen=True, slots=True)
class When:
    """What was decided, and the state after it."""

    drafts: list[Draft]
    state: State

    @property
    def facts(self) -> list[Fact]:
        return [draft.fact for draft in self.drafts]

    @property
    def types(self) -> list[str]:
        return [draft.fact.type for draft in self.drafts]

    def then(self, *expected: Fact) -> State:
        """Asserts that exactly these facts were decided, in order; returns the state after them."""
        assert self.facts == list(expected), f"decided {self.facts}"
        return self.state


def given(plan: Plan, *facts: Fact | Draft, inputs: Inputs | None = None) -> Given:
    """An execution of `plan` to which `facts` have happened."""
    return Given(plan, _fold(initial_state("1"), facts), inputs or Inputs(now=START))


def _fold(state: State, facts: Sequence[Fact | Draft]) -> State:
    for fact in facts:
        state = evolve(state, fact if isinstance(fact, Draft) else Draft(fact))
    return state
