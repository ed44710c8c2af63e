"""Events of scopes: regions of steps, and the end of an execution in which something is left to be
undone or cleaned up."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal, TypeAlias

from noetl.facts.outcome import ErrorInfo

#: How an execution, or a region, ends.
EndStatus: TypeAlias = Literal["completed", "failed", "cancelled"]
HandlerPurpose: TypeAlias = Literal["compensate", "on_cancel", "finally"]


@dataclass(frozen=True, slots=True)
class Handling:
    """What a run is for that no token fired: it undoes the run `run_id` (of its loop the
    `iteration`), or it is run because that run (`run_id`), the `region`, or with neither the
    execution was cancelled, or has ended."""

    purpose: HandlerPurpose
    region: str = ""
    run_id: str = ""
    iteration: int | None = None


@dataclass(frozen=True, slots=True)
class RegionEntered:
    """The first of the region's steps has begun, for the `number`th time."""

    type: ClassVar[str] = "region.entered"
    region: str
    number: int


@dataclass(frozen=True, slots=True)
class RegionCancelRequested:
    """Somebody, or its deadline (then with the `error`), asks for the end of the region."""

    type: ClassVar[str] = "region.cancel.requested"
    region: str
    reason: str = ""
    error: ErrorInfo | None = None


@dataclass(frozen=True, slots=True)
class RegionCancelled:
    """The region was cancelled: what ran or waited in it is withdrawn by the events behind this
    one. `error`: why, where that is a failure."""

    type: ClassVar[str] = "region.cancelled"
    region: str
    reason: str
    error: ErrorInfo | None = None


@dataclass(frozen=True, slots=True)
class RegionEnded:
    """Nothing of the region is left, and what it wanted done then has been done. `failure`: its
    branch has failed, and with it, if it `stops`, the execution."""

    type: ClassVar[str] = "region.ended"
    region: str
    status: EndStatus
    failure: ErrorInfo | None = None
    stops: bool = False


@dataclass(frozen=True, slots=True)
class Closing:
    """The execution ends before all of its steps have, with that `status`: what it has done is
    undone, unless that is `completed`, and what it wants done then is done."""

    type: ClassVar[str] = "playbook.closing"
    status: EndStatus
