"""What a retry would run again, and what of the execution before it stands: the plan that people
see first.

The engine decides it as it would in the retry itself, with nothing carried out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, Literal, TypeAlias

from noetl.engine.copies import UNKNOWN, match_iterations
from noetl.engine.decide import decide
from noetl.engine.evolve import evolve
from noetl.engine.inputs import Inputs, SlotVerdict
from noetl.engine.plan import Plan
from noetl.engine.run_state import Run
from noetl.engine.source import SourceLog, SourceRun
from noetl.engine.state import State, initial_state
from noetl.facts import events as e
from noetl.facts.events import Draft
from noetl.facts.json import Json
from noetl.facts.lineage import Reuse
from noetl.facts.outcome import ErrorInfo
from noetl.net.model import Transition

#: What becomes of a run: its end stands, it runs again, it runs for the first time, or it does not
#: run any more.
Verdict: TypeAlias = Literal["reuse", "rerun", "new", "dropped"]
#: The id under which a plan is made: none that is drawn.
UNDRAWN: Final = "9223372036854775807"
#: A plan takes every slot to be free.
_GRANTED: Final = SlotVerdict("granted")


@dataclass(frozen=True, slots=True)
class PlannedRun:
    """What becomes of one firing of `step`. `of` is the run of the execution before that it is
    compared with. Of a loop `iterations` counts them by what becomes of each. `repeats` are tasks
    with effects outside of NoETL which had gone well, or of which nobody knows, and that are called
    again."""

    step: str
    verdict: Verdict
    reason: str = ""
    of: str | None = None
    iterations: Mapping[str, int] | None = None
    repeats: tuple[str, ...] = ()

    def as_json(self) -> dict[str, Json]:
        return {
            "step": self.step,
            "verdict": self.verdict,
            "reason": self.reason,
            "of": self.of,
            "iterations": None if self.iterations is None else dict(self.iterations),
            "repeats": list(self.repeats),
        }


@dataclass(frozen=True, slots=True)
class RetryPlan:
    """All of it, in the order of the net. `error` is why the execution would end before its first
    step."""

    runs: tuple[PlannedRun, ...]
    error: ErrorInfo | None = None
    #: What its firings take, by the run there that they are compared with.
    taken: Mapping[str, Reuse] = field(default_factory=dict)

    @property
    def repeats(self) -> list[PlannedRun]:
        """The runs for which somebody has to say that their effects may happen again."""
        return [run for run in self.runs if run.repeats]

    def count(self, verdict: Verdict) -> int:
        return sum(run.verdict == verdict for run in self.runs)


def plan_retry(plan: Plan, request: e.Requested, inputs: Inputs, source: SourceLog) -> RetryPlan:
    """What an execution that begins with `request` would take of `source`, and run. Raises nothing
    for what its templates do."""
    begun = evolve(initial_state(UNDRAWN), Draft(request))
    decision = decide(plan, begun, replace(inputs, slots=lambda _place, _since: _GRANTED))
    ahead = _Ahead(plan, inputs, source, decision.drafts, decision.after)
    failed = decision.after.error if decision.after.accepted is False else None
    return RetryPlan(tuple(ahead.runs()), failed, ahead.taken())


@dataclass(frozen=True, slots=True)
class _Ahead:
    plan: Plan
    inputs: Inputs
    source: SourceLog
    drafts: tuple[Draft, ...]
    after: State

    def runs(self) -> Iterator[PlannedRun]:
        order = self.plan.order
        found = [*self._fired(), *self._left()]
        yield from sorted(found, key=lambda run: order.get(run.step, len(order)))

    def taken(self) -> dict[str, Reuse]:
        scheduled = (one.fact for one in self.drafts if isinstance(one.fact, e.StepScheduled))
        reuses = (one.reuse for one in scheduled if one.reuse is not None)
        return {reuse.run_id: reuse for reuse in reuses if reuse.run_id}

    def _fired(self) -> Iterator[PlannedRun]:
        """The firings that the retry comes to before it waits for what runs."""
        for draft in self.drafts:
            match draft.fact:
                case e.StepScheduled(reuse=Reuse() as reuse) if draft.run_id and draft.step:
                    yield self._planned(draft.run_id, self.plan.step(draft.step), reuse)
                case _:
                    pass

    def _planned(self, run_id: str, step: Transition, reuse: Reuse) -> PlannedRun:
        run, recorded = self.after.runs.get(run_id), self.source.runs.get(reuse.run_id or "")
        ended = run is None or run.ended
        if recorded is None or not (ended or reuse.run_id):
            return PlannedRun(step.name, "new", reuse.reason)
        if reuse.how == "none":
            return PlannedRun(
                step.name,
                "rerun",
                reuse.reason,
                recorded.id,
                None,
                self._effects(step, recorded, frozenset()),
            )
        counts = self._count_iterations(run_id, run, step, recorded)
        if ended:
            return PlannedRun(step.name, "reuse", reuse.reason, recorded.id, counts)
        repeats = self._effects(step, recorded, frozenset(self._copied(run_id)))
        return PlannedRun(step.name, "rerun", reuse.reason, recorded.id, counts, repeats)

    def _copied(self, run_id: str) -> Iterator[str]:
        """The events of which the run has copies. Who only keeps the key of a call makes it
        again."""
        for draft in self.drafts:
            if draft.run_id == run_id and draft.origin and not isinstance(draft.fact, e.TaskKeyKept):
                yield draft.origin

    def _count_iterations(
        self, run_id: str, run: Run | None, step: Transition, recorded: SourceRun
    ) -> dict[str, int] | None:
        if step.loop is None:
            return None
        mine = [draft for draft in self.drafts if draft.run_id == run_id]
        stand = sum(isinstance(one.fact, e.IterationDone | e.IterationFailed) for one in mine)
        if run is None or run.loop is None:
            return {"reuse": stand}
        pairs = match_iterations(self.plan, self.after, self.inputs, recorded, run.loop, step)
        begun = {there for _, there in pairs if recorded.iterations.get(there)}
        again, gone = len(begun) - stand, len(recorded.iterations.keys() - begun)
        counts = {"reuse": stand, "rerun": again, "new": run.loop.count - len(begun), "dropped": gone}
        return {word: count for word, count in counts.items() if count or word == "reuse"}

    def _effects(self, step: Transition, recorded: SourceRun, copied: frozenset[str]) -> tuple[str, ...]:
        """Tasks with effects that had gone well there, or of which nobody knows, and that do not
        stand."""
        external = {task.name for task in step.tasks if task.effects == "external"}
        events = (*recorded.events, *(one for each in recorded.iterations.values() for one in each))
        again = {_find_effect(event.fact) for event in events if event.event_id not in copied}
        return tuple(task.name for task in step.tasks if task.name in external & again)

    def _left(self) -> Iterator[PlannedRun]:
        """The recorded runs that no firing has come to: they follow, or are dropped; and steps that
        run for the first time behind what runs."""
        used = {_taken(draft.fact) for draft in self.drafts}
        running = [run.step for run in self.after.runs.values() if run.puts_tokens and not run.ended]
        behind = self._behind(running)
        reason = "depends on " + ", ".join(dict.fromkeys(running))
        for run in self.source.runs.values():
            if run.id in used or run.id in self.after.taken:
                continue
            step = self.plan.net.steps.get(run.step)
            if step is None or run.step not in behind:
                why = "the step is gone" if step is None else "nothing leads to it any more"
                yield PlannedRun(run.step, "dropped", why, run.id)
            elif step.tasks:
                yield PlannedRun(
                    run.step, "rerun", reason, run.id, None, self._effects(step, run, frozenset())
                )
        for step in self.plan.net.transitions:
            fired = step.name in self.after.steps or step.name in self.source.by_step
            if step.tasks and step.name in behind and not fired:
                yield PlannedRun(step.name, "new", reason)

    def _behind(self, running: Iterable[str]) -> set[str]:
        found: set[str] = set()
        pending = [arc.step for name in running for arc in self.plan.step(name).ways]
        while pending:
            name = pending.pop()
            if name not in found:
                found.add(name)
                pending += [arc.step for arc in self.plan.step(name).ways]
        final = self.plan.net.final_step
        return found | ({final} if final is not None and not self.after.ended else set())


def _taken(fact: e.Fact) -> str | None:
    """The recorded run that a firing is compared with."""
    return fact.reuse.run_id if isinstance(fact, e.StepScheduled) and fact.reuse is not None else None


def _find_effect(fact: e.Fact) -> str:
    """The task whose effect the event tells of, or of which it leaves open whether it had one."""
    match fact:
        case e.TaskDone() | e.TaskItemDone() | e.TaskCallDone():
            return fact.task
        case e.TaskFailed(error=error) if error.kind in UNKNOWN:
            return fact.task
        case _:
            return ""
