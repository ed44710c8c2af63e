"""`/api/limits` and `/api/queues`: who has slots and who waits for them; pause and resume."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, Field

from noetl.api.answers import WireModel
from noetl.api.bodies import ReasonBody
from noetl.api.context import services
from noetl.api.groups import group
from noetl.api.models import ApiModel
from noetl.api.permissions import may_read
from noetl.api.requests import Parameters
from noetl.api.segments import decode_segment
from noetl.facts.json import Json
from noetl.usecases import limits, pausing, queues

api = group("limits", "/api/limits", "Who has slots of keys, and who waits for them")
queues_api = group("queues", "/api/queues", "Pause and resume of queues")


class PausedPart(WireModel):
    kind: str = Field(description="`queue` or `key`")
    name: str
    since: str
    principal: str | None = Field(description="who paused it, where that is known")
    reason: str


class SlotView(WireModel):
    """Who has a slot, or waits for one."""

    execution_id: str
    path: str = Field(description="of its playbook")
    run_id: str | None = Field(description="the run of a step; null: the execution as a whole")
    part: str = Field(description="`-`: all of it; `l3`: lane 3 of its loop; `i7`: iteration 7")
    priority: int = Field(description="from 0 to 9, which comes first")
    since: str = Field(description="when it got the slot, or asked for it")
    shares_with: str | None = Field(description="the holder whose slot it shares, that of its caller")
    until: str | None = Field(description="of a rate: when the slot counts no more")


class KeyView(WireModel):
    key: str
    limit: int | None = Field(description="the smallest that anybody there asks for")
    per_s: float | None = Field(description="of a rate: in how many seconds")
    paused: PausedPart | None
    held: int = Field(description="how many slots are taken")
    waiting: int = Field(description="how many wait")
    holders: list[SlotView] = Field(description="the oldest first")
    waiters: list[SlotView] = Field(description="those of the highest priority first, then the oldest")


class LimitList(WireModel):
    """By key."""

    limits: list[KeyView]
    paused: list[PausedPart] = Field(description="queues and keys")


class LimitsQuery(Parameters):
    key: str | None = Field(None, max_length=pausing.LONGEST, description="only this key")
    limit: int = Field(100, ge=1, le=1000, description="holders and waiters of each key, at most")


class KeyPath(ApiModel):
    key: Annotated[str, AfterValidator(decode_segment)] = Field(
        max_length=3 * pausing.LONGEST, description="the key, percent-encoded"
    )


class QueuePath(ApiModel):
    queue: Annotated[str, AfterValidator(decode_segment)] = Field(max_length=3 * pausing.LONGEST)


class QueueView(WireModel):
    name: str
    waiting: int = Field(description="how much waits for a worker")
    ready: int = Field(description="how much of that a worker may take now: it is due, and not paused")
    held: int = Field(description="how much workers are at")
    oldest: str | None = Field(description="since when the first of those that are due has waited")
    limit: int | None = Field(description="how much of it may run at once; null: nothing bounds it")
    paused: PausedPart | None
    workers: int = Field(description="how many serve it")


class HeldWork(WireModel):
    """Something that a worker is at."""

    execution_id: str
    path: str = Field(description="of its playbook")
    step: str | None
    run_id: str | None
    part: str = Field(description="`-`: all of it; `l3`: lane 3 of its loop; `i7`: iteration 7")
    queue: str
    since: str | None = Field(description="when it was asked for")


class WorkerView(WireModel):
    name: str
    queues: list[str]
    presence: str = Field(description="`alive`; `late`: its sign of life is; `gone`: for a minute or more")
    seen_at: str
    started_at: str
    held: list[HeldWork] = Field(description="what it is at, the first first")


class QueueList(WireModel):
    """By name."""

    queues: list[QueueView]
    workers: list[WorkerView] = Field(description="those that were seen in the last quarter of an hour")
    whole: bool = Field(description="false: there is more than was counted")


class PartStanding(WireModel):
    name: str
    paused: bool


@api.get("", responses={200: LimitList})
def list_limits(query: LimitsQuery) -> dict[str, Json]:
    """Show who has slots and who waits for them"""
    here = services()
    is_visible = None if here.principal.may("read") else may_read(here.principal)
    found = limits.look(here.rt, query.key, query.limit, is_visible)
    paused = limits.paused_parts(here.rt)
    return {
        "limits": [one.as_json() for one in found],
        "paused": [limits.describe_pause(one) for one in paused],
    }


@api.post("/<key>/pause", responses={200: PartStanding}, operation_id="limit_pause")
def pause(path: KeyPath, body: ReasonBody) -> dict[str, Json]:
    """Give nobody a slot of a key until it is resumed

    Who has one keeps it.
    """
    pausing.pause_key(services().rt, path.key, body.reason)
    return {"name": path.key, "paused": True}


@api.post("/<key>/resume", responses={200: PartStanding}, operation_id="limit_resume")
def resume(path: KeyPath) -> dict[str, Json]:
    """Give slots of a key again

    409 where it is not paused.
    """
    pausing.resume_key(services().rt, path.key)
    return {"name": path.key, "paused": False}


@queues_api.get("", responses={200: QueueList}, operation_id="queues_list")
def list_queues() -> dict[str, Json]:
    """Show what waits in queues and since when, who serves them, and what workers are at

    What belongs to playbooks that the caller may not see is not counted.
    """
    here = services()
    seen = queues.look(here.rt, None if here.principal.may("read") else may_read(here.principal))
    return {
        "queues": [one.as_json() for one in seen.queues],
        "workers": [one.as_json() for one in seen.workers],
        "whole": seen.is_whole,
    }


@queues_api.post("/<queue>/pause", responses={200: PartStanding}, operation_id="queue_pause")
def pause_queue(path: QueuePath, body: ReasonBody) -> dict[str, Json]:
    """Have workers take nothing of a queue until it is resumed

    What they are at ends.
    """
    pausing.pause_queue(services().rt, path.queue, body.reason)
    return {"name": path.queue, "paused": True}


@queues_api.post("/<queue>/resume", responses={200: PartStanding}, operation_id="queue_resume")
def resume_queue(path: QueuePath) -> dict[str, Json]:
    """Have workers take work of a queue again

    409 where it is not paused.
    """
    pausing.resume_queue(services().rt, path.queue)
    return {"name": path.queue, "paused": False}
