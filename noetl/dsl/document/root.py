"""The playbook as a whole, and its steps."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Final, Literal

from pydantic import Field, Tag

from noetl.dsl.document.arcs import NextForm
from noetl.dsl.document.base import (
    Assigned,
    DocumentPart,
    Inputs,
    Key,
    Names,
    SetCtx,
    Template,
    expect,
    older,
)
from noetl.dsl.document.classic import CaseRule, SinkForm
from noetl.dsl.document.inputs import InputForms
from noetl.dsl.document.regions import CompensateForm, RegionSpec
from noetl.dsl.document.retries import RetryForm
from noetl.dsl.document.rules import Rule, RunForm, Tasks
from noetl.dsl.document.specs import ClaimSpec, ExecutorSpec, LoopSpec, OutputForm, StepSpec
from noetl.dsl.document.tools import Assert, Tool, ToolForm
from noetl.dsl.document.trials import PlaybookTest
from noetl.facts.business_key import OnConflict
from noetl.net.model import EndStatus, Spelling

#: The canonical form.
VERSION: Final = "noetl.io/v2"


class Metadata(DocumentPart):
    """What the catalog knows the playbook by."""

    is_open: ClassVar[bool] = True

    name: str | None = None
    """What people call it."""
    path: str | None = None
    """What it is registered under, and called by: `shop/order`."""
    version: str | int | float | None = None
    description: Any = None
    """What it is for."""
    labels: Any = None
    """A mapping of names to texts, which become the labels of its executions."""
    tags: Any = None


class Requires(DocumentPart):
    """What has to be installed where a playbook runs."""

    tools: list[str] | None = None
    """Kinds of tools."""
    noetl: str | None = None
    """Versions of NoETL: `>=0.1`, or several of such, all of which have to hold: `>=0.1, <2`."""
    features: Annotated[Any, Spelling()] = None
    """No effect: what a version can do, its number says."""


class Executor(DocumentPart):
    """What runs the playbook, and how."""

    profile: Any = None
    version: Any = None
    requires: (
        Annotated[
            Annotated[list[str], Tag("<list>")] | Annotated[Requires, Tag("<mapping>")],
            expect("a list of kinds or a mapping"),
        ]
        | None
    ) = None
    spec: ExecutorSpec | None = None


class NamedTask(DocumentPart):
    """An entry of a workbook as `{name, tool}`."""

    name: str | None = None
    desc: Any = None
    tool: Tool | None = None
    assert_: Assert | None = Field(None, alias="assert")
    """The same as in the task; both hold."""


def _entry(form: Mapping[str, Any]) -> str:
    return "<named>" if "tool" in form and "kind" not in form else "<tool>"


WorkbookEntry = Annotated[
    Annotated[NamedTask, Tag("<named>")] | Annotated[Tool, Tag("<tool>")],
    expect("a task (a mapping with kind)", _entry),
]

Workbook = Annotated[
    Annotated[dict[str, WorkbookEntry], Tag("<mapping>")] | Annotated[list[WorkbookEntry], Tag("<list>")],
    expect("a mapping from names to tasks or a list of tasks"),
]

Keychain = Annotated[
    Annotated[dict[str, dict[str, Any]], Tag("<mapping>")] | Annotated[list[dict[str, Any]], Tag("<list>")],
    expect("a list of mappings with name"),
]


class Cursor(DocumentPart):
    """Where rows are claimed. Keys that are not named here are those of the kind: `auth`,
    `database`..."""

    is_open: ClassVar[bool] = True

    kind: str | None = None
    claim: str | None = None
    """The statement: it marks rows as taken and returns them."""
    params: Inputs = None
    """What `:name` in the claim stands for, besides `:max_rows`, `:execution_id`, `:run` and
    `:worker`."""
    spec: ClaimSpec | None = None


class Enough(DocumentPart):
    """When the step is done though iterations of its loop have not ended."""

    when: Annotated[bool | str | None, Key(required=True, example='"{{ completed >= 2 }}"')] = None
    """A guard over `completed`, `failed`, `total` and `results`, asked whenever an iteration has
    ended."""
    rest: Literal["cancel", "run"] | None = None
    """What becomes of the others: they are cancelled (default), or run on."""


class Loop(DocumentPart):
    """Runs the step's pipeline once for each element."""

    in_: Annotated[Any, Key(required_unless="cursor")] = Field(None, alias="in")
    """The elements: a list, mostly a template."""
    cursor: Cursor | None = None
    """In the place of `in`: rows of a database, claimed until none are left."""
    iterator: Annotated[str | None, Key(required=True)] = None
    """What templates call the element."""
    mode: Annotated[Literal["sequential", "parallel", "cursor"] | None, Key(instead="spec: {mode: ...}")] = (
        older()
    )
    spec: LoopSpec | None = None
    enough: Annotated[Enough | None, Key(example="{when: ...}")] = None
    """The step does not wait for all iterations."""
    grow: Any = None
    """Asked after each iteration, over `iter` and its `result`: a list of further items, or null;
    mostly a template."""
    close: Annotated[bool | str | None, Key(example='"{{ ctx.closed }}"')] = None
    """A guard: the loop stays open until it holds, and is asked when all iterations have ended."""


class Step(DocumentPart):
    """One step of the workflow."""

    step: Annotated[str | None, Key(required=True)] = None
    """Its name."""
    desc: Any = None
    """What it is for."""
    when: Annotated[bool | str | None, Key(example='"{{ ctx.ready }}"')] = None
    """A guard, asked when the step begins, before its loop and tool: where it does not hold the
    step is skipped, and its arcs are asked."""
    spec: StepSpec | None = None
    loop: Annotated[Loop | None, Key(example="{in: ..., iterator: item}")] = None
    tool: ToolForm | None = None
    """What it does: a task, or a list of tasks that run one after the other."""
    retry: RetryForm = None
    """How often the call of each of its tasks is tried that does not say so itself: a number of
    attempts, or more."""
    next: NextForm | None = None
    """Where it leads: the name of a step, a list of arcs, or a router."""
    compensate: CompensateForm | None = None
    """The step that undoes a run of this one, when the region or the execution fails or is
    cancelled: a step that no arc leads to."""
    finally_: str | None = Field(None, alias="finally")
    """The step that is run behind every end of a run, before its arcs are asked."""
    terminate: EndStatus | None = None
    """How the whole execution ends at once when a run of the step has ended well; all else that
    runs or waits is withdrawn."""
    set: Assigned = None
    """Variables that it assigns when it has ended."""
    set_ctx: SetCtx = older()
    input: Inputs = None
    """Values for its tasks."""
    args: Inputs = None
    output: OutputForm = None
    """How the results of its tasks are kept: the same as `spec.result`, which wins."""
    iteration: str | None = None
    """The name in ctx of the scope of the iteration that the step is a part of: `iter` in its
    templates."""
    vars: Names | None = older()
    case: list[CaseRule] | None = older()
    sink: SinkForm | None = older()
    rules: list[Rule] | None = older()
    cases: list[Rule] | None = older()
    rule: list[Rule] | None = older()
    run: RunForm | None = older()
    parallel: bool | None = older()
    pass_: bool | str | None = older("pass")
    end_loop: str | None = older()
    result: Names | None = older()


class Provides(DocumentPart):
    """What comes while an execution runs: no start asks whether it is there."""

    credentials: list[str] | None = None
    """Names of credentials."""
    playbooks: list[str] | None = None
    """Paths of playbooks."""


class BusinessKey(DocumentPart):
    """What executions are called by: of those that are open no two have the same key. A text in its
    place is the `value`."""

    value: Annotated[str | None, Key(required=True, example='"{{ order.id }}"')] = None
    """A template over the workload, rendered when the execution starts, or a text."""
    on_conflict: OnConflict | None = None
    """What becomes of a start whose key an open execution has: `reject`, the default, refuses it,
    `return` answers with that execution, `cancel_other` cancels that one."""


KeyForm = Annotated[
    Annotated[str, Tag("<text>")] | Annotated[BusinessKey, Tag("<mapping>")],
    expect("a text, or a mapping with value"),
]


class Document(DocumentPart):
    """A playbook."""

    api_version: Annotated[
        Literal["noetl.io/v1", "noetl.io/v2", "noetl.io/v10"] | None, Key(required=True, instead=VERSION)
    ] = Field(None, alias="apiVersion")
    """The version of the language."""
    kind: Annotated[Literal["Playbook"] | None, Key(required=True)] = None
    """What the document is: a playbook."""
    metadata: Annotated[Metadata | None, Key(example="{name: ..., path: ...}")] = None
    keychain: Keychain | None = None
    """Credentials and secrets that its tasks use, by the names that it gives them."""
    provides: Annotated[Provides | None, Key(example="{credentials: [...]}")] = None
    """What it, or somebody else, brings while it runs. Whatever else it names has to be there when
    it starts."""
    executor: Executor | None = None
    inputs: Annotated[InputForms | None, Key(example="{name: string}")] = None
    """What it takes: keys of the workload with their types. With it, no other keys are taken."""
    key: Annotated[KeyForm | None, Key(example='"{{ order.id }}"')] = None
    """What its executions are called by, in the place of an id; unique among those that are
    open."""
    workload: Inputs = None
    """Values that it begins with; a start may give others."""
    ctx: dict[str, Template] | None = None
    """What variables of the execution begin with."""
    workbook: Workbook | None = None
    """Tasks that steps call by their names, with `kind: workbook`."""
    regions: Annotated[dict[str, RegionSpec] | None, Key(example="{booking: {steps: [flight, hotel]}}")] = (
        None
    )
    """Steps that belong together, by the name of the region: they are cancelled together, undone
    together, and left together."""
    workflow: Annotated[list[Step] | None, Key(required=True, example="[{step: start, ...}]")] = None
    """Its steps."""
    tests: Annotated[list[PlaybookTest] | None, Key(example="[{name: ..., expect: {...}}]")] = None
    """What `noetl test` tries; it changes nothing of a run."""
    environment: dict[str, Template] | None = older()
    variables: dict[str, Template] | None = older()
    tasks: Tasks | None = older()
