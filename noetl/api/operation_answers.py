"""What the API answers about failures and about operations, as pydantic models."""

from __future__ import annotations

from pydantic import Field

from noetl.api.answers import JsonObject, WireModel
from noetl.usecases.ports import ItemState, OperationKind, OperationStatus


class FailureView(WireModel):
    """What failures of one fingerprint have in common."""

    fingerprint: str = Field(description="12 hexadecimal digits, to be used in `where`")
    kind: str
    type: str
    step: str
    task: str
    shape: str = Field(description="the message, with `<number>` and the like where it varies")
    sample: str = Field(description="the message of one of them")
    newest: list[str] = Field(description="ids of the newest ones")


class FailureGroupView(FailureView):
    count: int
    retried: int = Field(description="how many of them were run again already")
    first_at: str
    last_at: str
    paths: list[str] = Field(description="playbooks, some of them")


class FailureGroups(WireModel):
    groups: list[FailureGroupView] = Field(description="the largest first")
    count: int = Field(description="failed executions in all groups")
    more: bool = Field(description="there are older ones that were not looked at")


class PlannedGroupView(FailureView):
    """The plans of executions that failed of the same, summed up."""

    executions: int
    retries: int = Field(description="how many of them can be run again")
    runs: dict[str, int] = Field(description="step runs by verdict: reuse, rerun, new, dropped")
    iterations: dict[str, int] = Field(description="of loops: reuse, rerun")
    repeats: dict[str, int] = Field(
        description="calls that may have had effects and are made again, in how many executions"
    )
    confirm: int = Field(description="executions with such a call")
    refused: dict[str, int] = Field(description="why others cannot be run again, and how many of them")


class OperationPlan(WireModel):
    """What an operation would do."""

    executions: int
    retries: int
    confirm: int
    retried: int = Field(description="left out, because they were run again already")
    more: bool = Field(description="there are others behind the limit")
    groups: list[PlannedGroupView]


class OperationView(WireModel):
    operation_id: str
    kind: OperationKind
    status: OperationStatus = Field(description="`paused`, `cancelling`: it begins nothing more")
    where: str
    how: JsonObject = Field(description="what is done to each execution")
    concurrency: int
    principal: str | None = Field(description="who asked for it")
    reason: str = Field(description="why it was asked for, paused or cancelled, the latest of these")
    created_at: str
    updated_at: str
    ended_at: str | None
    items: dict[str, int] = Field(description="its executions: total, and how many are in which state")


class OperationList(WireModel):
    operations: list[OperationView]
    next: str | None = Field(description="`before` of the next page; null on the last one")


class OperationItemView(WireModel):
    position: int
    execution_id: str
    state: ItemState
    begun_id: str | None = Field(description="the execution that was begun for it")
    reason: str = Field(description="why it was refused")


class OperationItems(WireModel):
    items: list[OperationItemView]
    next: int | None = Field(description="`after` of the next page; null on the last one")
