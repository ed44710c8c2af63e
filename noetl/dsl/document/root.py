"""The playbook as a whole."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Final, Literal

from pydantic import Field, Tag

from noetl.dsl.document.base import Inputs, Key, Part, Template, expect, older
from noetl.dsl.document.rules import Tasks
from noetl.dsl.document.specs import ExecutorSpec
from noetl.dsl.document.steps import Step
from noetl.dsl.document.tools import Assert, Tool
from noetl.net.model import Spelling

#: The canonical form.
VERSION: Final = "noetl.io/v2"


class Metadata(Part):
    """What the catalog knows the playbook by."""

    is_open: ClassVar[bool] = True

    name: str | None = None
    path: str | None = None
    version: str | int | float | None = None
    description: Any = None
    labels: Any = None
    tags: Any = None


class Requires(Part):
    """What has to be installed where a playbook runs."""

    tools: list[str] | None = None
    """Kinds of tools."""
    noetl: str | None = None
    """Versions of NoETL: `>=0.1`, or several of such, all of which have to hold: `>=0.1, <2`."""
    features: Annotated[Any, Spelling()] = None
    """No effect: what a version can do, its number says."""


class Executor(Part):
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


class NamedTask(Part):
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


class Document(Part):
    """A playbook."""

    api_version: Annotated[
        Literal["noetl.io/v1", "noetl.io/v2", "noetl.io/v10"] | None, Key(required=True, instead=VERSION)
    ] = Field(None, alias="apiVersion")
    kind: Annotated[Literal["Playbook"] | None, Key(required=True)] = None
    metadata: Annotated[Metadata | None, Key(example="{name: ..., path: ...}")] = None
    keychain: Keychain | None = None
    executor: Executor | None = None
    workload: Inputs = None
    ctx: dict[str, Template] | None = None
    """What variables of the execution begin with."""
    workbook: Workbook | None = None
    workflow: Annotated[list[Step] | None, Key(required=True, example="[{step: start, ...}]")] = None
    environment: dict[str, Template] | None = older()
    variables: dict[str, Template] | None = older()
    tasks: Tasks | None = older()
