"""What the API says of the history of executions, as pydantic models: like `answers`, of which it
is a part."""

from __future__ import annotations

from typing import Any, Generic, Literal, TypeVar

from pydantic import Field

from noetl.api.answers import ExecutionView, JsonObject, WireModel
from noetl.engine.run_state import RunStatus
from noetl.history.accounts import Standing
from noetl.history.differences import Change
from noetl.usecases.ports import ExecutionStatus

T = TypeVar("T")

_ASKED = "{when, names, said}: an expression, what it read, and what came of it"


class StepAccountView(WireModel):
    step: str
    line: int | None
    standing: Standing = Field(description="where the step is, or how its last run ended")
    why: str = Field(description="one sentence: why it ran, did not run, or waits and for what")
    run_count: int
    runs: list[JsonObject] = Field(
        description="the last runs: {run, version, scheduled_at, status, because, admission, ended_at, "
        "duration_ms, worker, reuse, reason, error, tasks, policies, policies_more, loop, children, "
        "child_count, undone, next}"
    )
    ways: list[JsonObject] = Field(
        description="the arcs that lead to it: {arc, source, step, fate, why, guard, asked, taken, run, "
        f"version, line}}; `guard` is {_ASKED}"
    )
    stopped_at: list[JsonObject] = Field(
        description="of a step that did not run: the arcs further up at which the way to it ended"
    )
    dropped: list[JsonObject] = Field(
        description="tokens that came and never fired it: {token, why, version, rules}"
    )
    waits: list[JsonObject] = Field(
        description="what it waits for: {kind, text, run, until, execution, arcs, rules}"
    )


class ExplanationView(ExecutionView):
    path: str
    playbook_version: int
    version: int = Field(description="as of which the execution is explained")
    file: str
    error: JsonObject | None
    steps: list[StepAccountView]
    retry: str | None = Field(description="what its policy made of its failure; null where it was not asked")
    waits: list[JsonObject] = Field(
        [], description="what it waits for as a whole, and what is left to be done at its end; as of a step"
    )


class DifferenceView(WireModel):
    path: str = Field(description="dotted: `workload.days[0]`")
    change: Change = Field(description="`added`: only in the second one; `removed`: only in the first one")
    a: object
    b: object


class RunsDifferenceView(WireModel):
    step: str
    a: int
    b: int


class DurationDifferenceView(WireModel):
    step: str
    a: float | None = Field(description="milliseconds; null where no run of it has ended")
    b: float | None


class GuardDifferenceView(WireModel):
    run: str = Field(description="the step run that both have")
    arc: str
    step: str = Field(description="where the arc leads")
    a: JsonObject | None = Field(description=f"{_ASKED}; null where it was not asked")
    b: JsonObject | None


class SectionView(WireModel, Generic[T]):
    shown: list[T]
    more: int = Field(description="how many differences there are besides")


class PartingView(WireModel):
    number: int = Field(description="of the runs, from 1, in the order in which they began")
    behind: str | None = Field(description="the last run that both have")
    a: str | None
    b: str | None


class SideView(WireModel):
    execution_id: str
    path: str
    playbook_version: int
    digest: str = Field(description="of the net that it runs")
    status: ExecutionStatus
    version: int
    duration_ms: float
    error: JsonObject | None


class ComparisonView(WireModel):
    summary: str
    a: SideView
    b: SideView
    same: bool = Field(description="whatever the durations are")
    playbook: SectionView[DifferenceView]
    inputs: SectionView[DifferenceView] = Field(description="below `payload`, `overrides` and `workload`")
    path: SectionView[RunsDifferenceView] = Field(description="steps that did not run equally often")
    parting: PartingView | None = Field(description="where the order of the runs begins to differ")
    guards: SectionView[GuardDifferenceView]
    steps: SectionView[DifferenceView] = Field(description="the status of each step")
    results: SectionView[DifferenceView]
    errors: SectionView[DifferenceView]
    durations: SectionView[DurationDifferenceView] = Field(description="the largest differences first")


class LoopLineView(WireModel):
    total: int = Field(description="iterations that are known so far")
    mode: Literal["sequential", "parallel"]
    done: list[int] = Field(description="versions at which an iteration ended so, in order")
    failed: list[int]
    cancelled: list[int]


class RunLineView(WireModel):
    run_id: str
    status: RunStatus
    begin_version: int
    end_version: int | None = Field(description="null where it has not ended")
    begin_ms: int
    end_ms: int | None
    critical: bool = Field(description="the end of the execution waited for it")
    segments: list[list[Any]] = Field(
        description="`[phase, begin_ms, end_ms, attempt, failed]` in order, without gaps; the phase is "
        "queued, running or waiting, an `end_ms` of null: it is still so"
    )
    loop: LoopLineView | None


class StepLineView(WireModel):
    changes: list[list[Any]] = Field(description="`[version, status]`: called so from that version on")
    runs: list[RunLineView] = Field(description="the newest 500, in the order in which they fired")
    runs_left_out: int = Field(description="how many older ones there are")


class ArcLineView(WireModel):
    taken: list[int] = Field(description="versions of `next.evaluated` that took the arc")
    missed: list[int] = Field(description="of those that asked it and did not")


class TimelineView(ExecutionView):
    version: int
    begin: str = Field(description="when it was asked for; all `ms` are milliseconds since then")
    at_ms: list[int] = Field(description="when each version was recorded, from version 1 on")
    statuses: list[list[Any]] = Field(description="`[version, status]` of the execution")
    steps: dict[str, StepLineView] = Field(description="by name, in the order of the document")
    arcs: dict[str, ArcLineView] = Field(description="by id, in the order of the document")
    critical: list[str] = Field(
        description="ids of runs: the last one ended last, and each was fired by the one before it"
    )
