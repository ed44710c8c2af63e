"""Test playbooks and decisions without servers, processes or waiting.

    given(plan, *facts).when(*facts).then(*facts)   one decision of the engine
    Simulation(yaml, tools={...}).run()             a whole execution, every message in your hands
    play("orders.yaml", stand_ins={...})            the same as a test of `noetl test`: how it went

A simulation runs the same use cases as production, over the store in memory, a clock that stands
still until it is moved, and messages that wait in a list until they are delivered, lost or doubled.
"""

from __future__ import annotations

import atexit
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any

from noetl.dsl import load_playbook
from noetl.engine.decide import decide
from noetl.engine.evolve import evolve
from noetl.engine.inputs import Inputs
from noetl.engine.plan import Plan
from noetl.engine.state import State, initial_state
from noetl.facts.events import Draft, Fact
from noetl.facts.json import JsonMap, assign
from noetl.trial.from_python import answers_of
from noetl.trial.play import Played, Scenario
from noetl.trial.play import play as play_scenario
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
from noetl.trial.stage import TrialStage, open_stage

__all__ = [
    "KINDS",
    "START",
    "Given",
    "Mailbox",
    "Message",
    "Played",
    "Scripted",
    "ScriptedTools",
    "Simulation",
    "StillLeases",
    "When",
    "default_tools",
    "given",
    "play",
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


# --- one execution, as a test of `noetl test` -----------------------------------------------------


def play(
    playbook: Path | str,
    inputs: JsonMap | None = None,
    stand_ins: Mapping[str, Any] | None = None,
    *,
    set: JsonMap | None = None,
    env: Mapping[str, str] | None = None,
    clock: datetime = START,
    patches: Sequence[JsonMap] = (),
) -> Played:
    """How the playbook in a file goes: `played.status`, `.path`, `.result`, `.ctx`, `.error`,
    `.steps`, and `.calls_of("step")`. Everything means what it means in a test of `noetl test`; a
    stand-in may be a function of the call as well, whose ToolError is the error of the call.

    Raises AssertionError for a call that nothing stands in for, BadRequest for stand-ins that
    cannot be used, PlaybookInvalid, and OSError where there is no such file.
    """
    file = Path(playbook)
    text, stage = file.read_text(encoding="utf-8-sig"), _stage()
    answers = answers_of(stand_ins or {}, load_playbook(text, file=str(file), kinds=stage.kinds), stage.kinds)
    played = play_scenario(
        stage, text, file, Scenario(inputs or {}, assign({}, set or {}), answers, env or {}, clock, patches)
    )
    assert not played.faults, "\n".join(played.faults)
    return played


@cache
def _stage() -> TrialStage:
    """One for the process: what runs user code is started once."""
    stack = ExitStack()
    atexit.register(stack.close)
    return stack.enter_context(open_stage())
