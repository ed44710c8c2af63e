"""What belongs together: regions of steps, and what undoes a step."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, Tag

from noetl.dsl.document.base import DocumentPart, Key, expect
from noetl.dsl.document.policies import ConcurrencyForm
from noetl.net.model import Spelling


class CompensateSpec(DocumentPart):
    """What undoes a step. A text in its place is the `step`."""

    step: Annotated[str | None, Key(required=True)] = None
    """It is run once for each run, or iteration, that is done, the last one first; its `args` are
    `{of, run, iteration, item, given, result, status, error}`."""
    when: Literal["done", "started"] | None = None
    """`done` (default): runs that ended well. `started`: also those of which nobody knows what they
    have done, because they failed or were cancelled."""


CompensateForm = Annotated[
    Annotated[str, Tag("<text>")] | Annotated[CompensateSpec, Tag("<mapping>")],
    expect("the name of a step, or a mapping with step"),
]


class RegionSpec(DocumentPart):
    """A region: from the first run of one of its steps until nothing of them is left."""

    steps: Annotated[list[str] | None, Key(required=True, example="[flight, hotel]")] = None
    """Names of steps, and of regions inside of this one."""
    deadline: Annotated[int | float | str | None, Key("duration", is_structure=True)] = None
    """How long it may take from its first run on; then it is cancelled, and has failed where it
    says no `on_cancel`."""
    timeout: Annotated[int | float | str | None, Spelling("deadline")] = None
    """The same as `deadline`, which wins."""
    concurrency: Annotated[ConcurrencyForm | None, Key(is_structure=True)] = None
    """How many of it, and of others that say the same key, are open at once: what would enter it
    waits for its slot."""
    cancel_on: str | list[str] | None = None
    """What cancels it: the end of a step (its name, or several), or a guard over ctx."""
    compensate: bool | None = None
    """Whether its runs are undone when it is cancelled, or the execution fails in it."""
    on_cancel: str | None = None
    """Where the flow goes on when it was cancelled: a step outside of it."""
    finally_: str | None = Field(None, alias="finally")
    """The step that is run behind every end of the region, before what follows it."""
