"""`spec`: how tasks, steps, loops, routers and the execution run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Final, Literal

from pydantic import Discriminator, Field, Tag

from noetl.dsl.document.base import (
    Count,
    DocumentPart,
    Duration,
    Key,
    Names,
    canonical_keys,
    expect,
    known_keys,
)
from noetl.dsl.document.policies import ConcurrencyForm, Policy, RateSpec
from noetl.facts.json import Json
from noetl.net.model import OnLarge, Spelling

#: The log holds small values: more than this never stays in it.
MOST_INLINE: Final = 1024 * 1024


class SelectSpec(DocumentPart):
    """A part of a result under another name."""

    path: str | None = None
    """`data.rows[0].id`; `$.` may stand before it."""
    as_: str | None = Field(None, alias="as")
    """Readable as `<task>.<as>`."""


SelectForm = Annotated[
    Annotated[str, Tag("<text>")] | Annotated[SelectSpec, Tag("<mapping>")],
    expect("a path or {path, as}"),
]


def _bytes_of(kilobytes: Json) -> Json:
    """What `threshold_kb` says in bytes, at most what may stay in the log."""
    return min(int(kilobytes * 1024), MOST_INLINE)


class SizeThreshold(DocumentPart):
    """`output_select: {strategy: size_threshold, threshold_kb: 100}`: another way to write
    `spec.result.inline_bytes`."""

    strategy: Annotated[Literal["size_threshold"] | None, Spelling()] = None
    threshold_kb: Annotated[
        int | float | None,
        Spelling(
            "../spec/result/inline_bytes",
            unless=("../spec/result/inline", "../output/inline_bytes", "../output/inline"),
            convert=_bytes_of,
        ),
    ] = None
    """Results whose JSON has more kilobytes (of 1,024 bytes) are kept by reference; at most 1,024
    count."""


class ResultSpec(DocumentPart):
    """How a task's result is kept."""

    inline_bytes: int | None = None
    """Results whose JSON has more bytes are kept by reference."""
    inline: int | None = None
    """The same as `inline_bytes`, which wins."""
    select: list[SelectForm] | None = None
    """Parts that are kept with the reference, and read without a fetch."""
    on_large: OnLarge | None = None
    """What becomes of a selected part of more than 4,096 bytes: the task fails (default), or it is
    read by a fetch."""
    scope: Literal["step", "execution", "permanent"] | None = None
    """How long it is kept: while its execution runs, as long as the execution is kept, or for
    good."""
    ttl: Duration = None
    """Seconds, `10m`, `2h`, `7d`: after that it may be gone, whatever the scope."""
    inline_max_bytes: Annotated[int | None, Spelling("inline_bytes", unless=("inline",))] = None
    """The same as `inline_bytes`, which wins."""
    output_select: Annotated[list[SelectForm] | None, Spelling("select", adds=(("on_large", "fetch"),))] = (
        None
    )
    """The same as `select`, which wins, with `on_large: fetch`."""
    store: Annotated[Any, Spelling()] = None
    """No effect: there is one store."""


def _output(value: object) -> str:
    if isinstance(value, Mapping):
        return "<result>" if value.keys() & set(known_keys(ResultSpec)) else "<other>"
    return "<result>" if isinstance(value, ResultSpec) else "<other>"


def is_result(output: Json) -> bool:
    """Whether `output` of a step or task says how results are kept."""
    return isinstance(output, Mapping) and not output.keys().isdisjoint(canonical_keys(ResultSpec))


#: `output` of steps and tasks: the same as `spec.result`, or nothing that has an effect.
OutputForm = Annotated[
    Annotated[ResultSpec, Tag("<result>")] | Annotated[Any, Tag("<other>")], Discriminator(_output)
]


class TaskSpec(DocumentPart):
    """How a task runs; what is left out comes from the loop, the step, the executor, the kind."""

    timeout: Annotated[int | float | str | dict[str, Any] | None, Key("duration")] = None
    render: Annotated[bool | None, Key(is_reserved=True)] = None
    quote: Annotated[bool | None, Key(is_reserved=True)] = None
    errexit: Annotated[bool | None, Key(is_reserved=True)] = None
    """Of shell: whether a text ends at the first command in it that fails; it does by default."""
    isolation: Literal["inline", "process", "sandbox"] | None = None
    memory_mb: int | float | None = None
    """Memory limit of python and shell, from 16 to 1,048,576."""
    queue: Annotated[str | None, Key(is_structure=True, is_reserved=True)] = None
    policy: Annotated[Policy | None, Key(is_reserved=True)] = None
    result: Annotated[ResultSpec | None, Key(is_structure=True, is_reserved=True)] = None
    timeout_seconds: Annotated[int | float | str | None, Spelling("timeout")] = None
    """The same as `timeout`, which wins."""


class CallSpec(TaskSpec):
    """How one task runs, and when."""

    place: ClassVar[str] = "the spec of a task"

    after: Annotated[bool | str | None, Key(is_structure=True, is_reserved=True)] = None
    """`true`, or a guard: the task runs once the pipeline has ended, however it has."""
    input: Annotated[Names | None, Spelling("../input", unless=("../args",))] = None
    """The same as `input` of the task, which wins key by key; so for `args` and `with`."""
    args: Annotated[Names | None, Spelling("../input", unless=("../args",))] = None
    within: Annotated[Names | None, Spelling("../input", unless=("../args",)), Field(alias="with")] = None
    output: Annotated[Any, Spelling("../output")] = None
    """The same as `output` of the task, which wins key by key."""
    output_select: Annotated[Any, Spelling("../output_select")] = None
    """The same as `output_select` of the task, which wins."""


class JoinSpec(DocumentPart):
    """How many tokens enable a step that several arcs lead to."""

    mode: Literal["auto", "all", "any", "first", "count"] | None = None
    count: int | None = None
    tokens: int | None = None
    """In the place of a mode: the step fires once for so many tokens, whichever arcs they came
    over."""
    cancel_rest: bool | None = None


class MilestoneSpec(DocumentPart):
    """When a step may begin. A token that comes too early waits, one that comes too late is
    skipped."""

    after: str | None = None
    """A step: a run of it has to be done."""
    before: str | None = None
    """A step: no run of it may have begun."""


class StepSpec(TaskSpec):
    """How a step runs."""

    place: ClassVar[str] = "the spec of the step"

    join: Annotated[
        Annotated[
            Annotated[Literal["auto", "all", "any", "first"], Tag("<text>")]
            | Annotated[JoinSpec, Tag("<mapping>")],
            expect("auto, all, any, first or a mapping"),
        ]
        | None,
        Key(is_structure=True),
    ] = None
    deadline: Annotated[int | float | str | None, Key("duration", is_structure=True)] = None
    """How long the step may take from when it is scheduled, with queue, attempts, iterations and
    waits: seconds, `500ms`, `10m`, or a template. After that it has failed, and what runs of it is
    ended."""
    completes: Annotated[list[str] | None, Key(is_structure=True, example="[name]")] = None
    """Steps whose runs end as done at once when a run of this one has ended well."""
    milestone: Annotated[
        MilestoneSpec | None, Key(is_structure=True, example="{after: name, before: name}")
    ] = None
    concurrency: Annotated[ConcurrencyForm | None, Key(is_structure=True)] = None
    """How many runs there are at once of all that say the same key."""
    rate: Annotated[RateSpec | None, Key(is_structure=True)] = None
    """How often a run begins."""
    priority: Annotated[int | None, Key(is_structure=True)] = None
    """From 0 to 9, which comes first: at slots, rates and workers. 5 unless given, 0 for loops."""


class ClaimSpec(DocumentPart):
    """How a claim runs."""

    timeout: Duration = None
    """Seconds, `500ms`, `10s`, or a template."""


class FrameSpec(DocumentPart):
    """How rows of a cursor are claimed."""

    max_rows: Count = None
    """What `:max_rows` in the claim stands for; 100 unless given; or a template."""
    process: Literal["row", "frame"] | None = None
    """What an iteration is: a row (default), or all rows of a claim, as a list."""
    row_concurrency: Annotated[int | str | None, Spelling("../max_in_flight")] = None
    """Times `max_in_flight`: so many iterations run at once."""
    max_seconds: Annotated[int | float | str | None, Spelling()] = None
    """No effect: each iteration is recorded by itself."""
    max_bytes: Annotated[int | float | str | None, Spelling()] = None
    """No effect: each iteration is recorded by itself."""
    lease_seconds: Annotated[int | float | str | None, Spelling()] = None
    """No effect: workers renew their leases as long as they live."""
    heartbeat_seconds: Annotated[int | float | str | None, Spelling()] = None
    """No effect: workers renew their leases as long as they live."""


class LoopSpec(TaskSpec):
    """How a loop runs."""

    place: ClassVar[str] = "the spec of the loop"

    mode: Annotated[Literal["sequential", "parallel", "cursor"] | None, Key(is_structure=True)] = None
    """`cursor`, beside `cursor`: `sequential` where `max_in_flight` is 1 or comes to 1, else
    `parallel`."""
    max_in_flight: Annotated[int | str | None, Key("count", is_structure=True)] = None
    reduce: Annotated[
        dict[str, Literal["append", "sum", "min", "max", "merge", "last"]] | None, Key(is_structure=True)
    ] = None
    commit: Annotated[Literal["each", "batch"] | None, Key(is_structure=True)] = None
    frame: Annotated[FrameSpec | None, Key(is_structure=True)] = None
    concurrency: Annotated[ConcurrencyForm | None, Key(is_structure=True)] = None
    """How many iterations with the same key run at once, over all loops that name it. They wait for
    their slots."""
    sync: Annotated[bool | None, Key(is_structure=True)] = None
    """`false`: the step is done as soon as its iterations are handed out, and they run on."""


class ExecutorSpec(TaskSpec):
    """How the execution runs."""

    place: ClassVar[str] = "executor.spec"

    entry_step: Annotated[str | None, Key(is_structure=True)] = None
    final_step: Annotated[str | None, Key(is_structure=True)] = None
    """The step that is run behind every end of the execution, when nothing else is left."""
    finally_: Annotated[
        str | None, Spelling("final_step"), Key(is_structure=True), Field(alias="finally")
    ] = None
    on_cancel: Annotated[str | None, Key(is_structure=True)] = None
    """The step that is run when the execution was cancelled, once what it has done is undone."""
    no_next_is_error: Annotated[bool | None, Key(is_structure=True)] = None
    concurrency: Annotated[ConcurrencyForm | None, Key(is_structure=True)] = None
    """How many executions with the same key there are at once."""
    rate: Annotated[RateSpec | None, Key(is_structure=True)] = None
    """How often an execution begins."""
    priority: Annotated[int | None, Key(is_structure=True)] = None
    """From 0 to 9, which comes first: of the execution, and of its steps that say nothing."""


class NextSpec(DocumentPart):
    """How a router chooses among its arcs."""

    mode: Literal["exclusive", "inclusive", "first"] | None = None
    no_next_is_error: bool | None = None
    on_no_match: Literal["quiet", "error"] | None = None
