"""Scopes: what belongs together when it ends, and the steps that are run then.

A *handler* is a step that no arc leads to: what has been done is undone by it (`compensate`), or
it is run when a scope was cancelled (`on_cancel`) or has ended (`finally`). Scopes are a run of a
step, a region of several steps, and the execution.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from noetl.facts.json import Json
from noetl.net.limits import Concurrency


@dataclass(frozen=True, slots=True)
class Compensation:
    """The `step` that undoes what a run has done, when its region or execution fails or is
    cancelled. `when` `started`: also what a run may have done that has not ended well."""

    step: str
    when: Literal["done", "started"] = "done"


@dataclass(frozen=True, slots=True)
class Region:
    """Steps that belong together: from the first run of one of them until nothing of them is left.

    `steps` are all of them, those of regions inside included. It is cancelled when it has not ended
    within its `deadline`, when one of the steps `cancel_on` is done, or when the guard
    `cancel_when` over ctx holds; then, and where the execution fails or is cancelled, its runs are
    undone if it says `compensate`. Where it was cancelled the flow goes on at `on_cancel`;
    `cleanup` is run behind every end."""

    name: str
    steps: tuple[str, ...]
    deadline: Json = None
    cancel_on: tuple[str, ...] = ()
    cancel_when: Json = None
    compensate: bool = False
    on_cancel: str | None = None
    cleanup: str | None = None
    #: What it needs before it is entered.
    concurrency: tuple[Concurrency, ...] = ()
    line: int = 0
