"""The timeline of an execution: a fold over its log, one event at a time.

What is true at a version says the engine (`replay`); this only notes when that changed.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from noetl.engine.decision import status_of
from noetl.engine.evolve import replay
from noetl.engine.run_state import RunStatus
from noetl.engine.state import State, initial_state
from noetl.facts import events as e
from noetl.facts.events import Event
from noetl.facts.lineage import Reuse
from noetl.history.lines import ArcLine, StatusChange, StepChange, StepLine, Timeline
from noetl.history.run_lines import RunTrace
from noetl.history.statuses import settle_status, status_of_step, statuses_of_steps
from noetl.net.model import Net


class _StepTrace:
    """What is known of a step so far."""

    __slots__ = ("changes", "runs", "status")

    def __init__(self) -> None:
        self.changes: list[StepChange] = []
        self.runs: list[RunTrace] = []
        self.status: RunStatus | None = None

    def note(self, version: int, status: RunStatus) -> None:
        if status != self.status:
            self.changes.append(StepChange(version, status))
            self.status = status


class TimelineFold:
    """What `timeline()` is made of, as of the last event taken. Not thread-safe."""

    def __init__(self, execution_id: str, net: Net) -> None:
        self._state = initial_state(execution_id)
        self._begin: datetime | None = None
        self._at_ms: list[float] = []
        self._statuses: list[StatusChange] = []
        self._steps = {name: _StepTrace() for name in net.steps}
        self._arcs: dict[str, tuple[list[int], list[int]]] = {name: ([], []) for name in net.arcs}
        self._open: dict[str, RunTrace] = {}
        self._runs: dict[str, RunTrace] = {}
        #: Tokens that have not fired anything: the version that put them down, and the run.
        self._tokens: dict[str, tuple[int, str]] = {}
        self._last_ended: RunTrace | None = None

    @property
    def state(self) -> State:
        """The engine's state as of the last event taken."""
        return self._state

    def take(self, event: Event) -> None:
        """Folds the next event of the log. Raises VersionConflict for another one; after any error
        the fold is of no use any more."""
        before = self._state
        self._settle_status(before, event)
        self._state = replay(before, (event,))
        at = self._tick(event)
        match event.fact:
            case e.NextEvaluated():
                self._note_ways(event, event.fact)
            case e.StepScheduled():
                self._begin_run(event, event.fact, at)
            case _:
                pass
        self._follow_runs(before, event, at)
        self._look_at_steps(before, event)

    def _tick(self, event: Event) -> float:
        """When the event was recorded; never before the one before it."""
        if self._begin is None:
            self._begin = event.recorded_at
        at = _milliseconds(self._begin, event.recorded_at)
        if self._at_ms and at < self._at_ms[-1]:
            at = self._at_ms[-1]
        self._at_ms.append(at)
        return at

    def _read(self, instant: str) -> float:
        """Milliseconds of an instant; of what is none, which files of executions may hold, those of
        the event that it stands in."""
        assert self._begin is not None, "only events have instants"
        try:
            return _milliseconds(self._begin, datetime.fromisoformat(instant))
        except (TypeError, ValueError):
            return self._at_ms[-1]

    def _settle_status(self, state: State, follows: Event | None) -> None:
        """What the execution was called before the event that follows."""
        if state.version:
            _note_status(self._statuses, state.version, settle_status(status_of(state), follows))

    # --- ways -------------------------------------------------------------------------------------

    def _note_ways(self, event: Event, fact: e.NextEvaluated) -> None:
        for one in fact.arcs:
            # Arcs without a step only assign.
            if one.step:
                self._arcs.setdefault(one.arc, ([], []))[not one.chosen].append(event.version)
        for token in fact.tokens:
            self._tokens[token.id] = (event.version, event.draft.run_id or "")

    def _begin_run(self, event: Event, fact: e.StepScheduled, at: float) -> None:
        run = self._state.runs[event.draft.run_id or ""]
        trace = RunTrace(run, at, self._cause(fact.tokens), self._find_kept(fact.reuse))
        self._runs[run.id] = self._open[run.id] = trace
        self._steps.setdefault(run.step, _StepTrace()).runs.append(trace)

    def _find_kept(self, reuse: Reuse | None) -> str | None:
        """The execution of which the end of a run is taken over."""
        if reuse is None or reuse.how != "whole":
            return None
        return reuse.execution_id or self._state.source_id

    def _cause(self, tokens: Iterable[str]) -> str | None:
        """The run that put the last of these tokens down. What no token fired has begun because all
        before it had ended."""
        if not tokens:
            return self._last_ended.run_id if self._last_ended else None
        put = (self._tokens.pop(token, None) for token in tokens)
        last = max(filter(None, put), default=None)
        return last[1] if last else None

    def _critical(self) -> list[str]:
        """The runs that the end waited for, one for another, first to last."""
        found: list[str] = []
        trace = self._last_ended
        while trace is not None:
            found.append(trace.run_id)
            trace = self._runs.get(trace.cause) if trace.cause else None
        return found[::-1]

    # --- runs and steps ---------------------------------------------------------------------------

    def _follow_runs(self, before: State, event: Event, at: float) -> None:
        named = event.draft.run_id
        if named is not None:
            trace = self._open.get(named)
            if trace is not None:
                runs = before.runs.get(named), self._state.runs.get(named)
                trace.take(event, at, runs, self._read)
                self._close(trace)
        elif before.runs is not self._state.runs:
            # An end or a fork: nothing else changes runs that it does not name.
            for trace in list(self._open.values()):
                trace.take_from_outside(event, at, self._state.runs.get(trace.run_id))
                self._close(trace)

    def _close(self, trace: RunTrace) -> None:
        if trace.ended:
            del self._open[trace.run_id]
            self._last_ended = trace

    def _look_at_steps(self, before: State, event: Event) -> None:
        state, step = self._state, event.draft.step
        if before.runs is state.runs and before.steps is state.steps:
            return
        if step is None:
            for name, status in statuses_of_steps(state).items():
                self._note_step(name, status)
        elif step in state.steps:
            self._note_step(step, status_of_step(state, step))

    def _note_step(self, step: str, status: RunStatus) -> None:
        self._steps.setdefault(step, _StepTrace()).note(self._state.version, status)

    # --- the whole --------------------------------------------------------------------------------

    def timeline(self) -> Timeline:
        """Raises ValueError where no event was taken."""
        if self._begin is None:
            raise ValueError(f"no event of execution {self._state.execution_id} was taken")
        critical = self._critical()
        among, now = frozenset(critical), self._at_ms[-1]
        statuses = list(self._statuses)
        _note_status(statuses, self._state.version, status_of(self._state))
        return Timeline(
            self._state.execution_id,
            self._state.version,
            self._begin,
            tuple(self._at_ms),
            tuple(statuses),
            tuple(
                StepLine(
                    name,
                    tuple(step.changes),
                    tuple(run.line(now, critical=run.run_id in among) for run in step.runs),
                )
                for name, step in self._steps.items()
            ),
            tuple(ArcLine(arc, tuple(taken), tuple(missed)) for arc, (taken, missed) in self._arcs.items()),
            tuple(critical),
        )


def _milliseconds(begin: datetime, at: datetime) -> float:
    return (at - begin).total_seconds() * 1000


def _note_status(statuses: list[StatusChange], version: int, status: str) -> None:
    if not statuses or statuses[-1].status != status:
        statuses.append(StatusChange(version, status))
