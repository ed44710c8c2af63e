"""Tool calls, in all their forms."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Discriminator, Field, Tag

from noetl.dsl.document.base import Names, Part, expect, older
from noetl.dsl.document.specs import CallSpec, OutputForm, SelectForm
from noetl.net.model import ValueType


class Pagination(Part):
    """Calls an http task again for every page of an answer, and collects their items."""

    type: Literal["page", "offset", "cursor", "link"] | None = None
    """How the next page is asked for: by its number, by what was seen, by a mark in the body, by the Link header."""
    param: str | None = None
    """The query parameter: `page`, `offset` or `cursor` unless given."""
    start: int | str | None = None
    """The first number: 1 of pages, 0 of offsets; the first mark; or a template."""
    size: int | str | None = None
    """Items that a full page has: a shorter one is the last; or a template."""
    limit: int | str | None = None
    """The same for offsets, which grow by it; sent as `limit`."""
    path: str | None = None
    """Where the mark of the next page stands in the body, such as `meta.next`."""
    items: str | None = None
    """Where the list stands in the body, such as `data.rows`; the body itself unless given."""
    stop_when: bool | str | None = None
    """A template that says whether this page is the last, over `output` as in the task's `set`."""
    max_pages: int | str | None = None
    """100 unless given; or a template. Then the result is `truncated`."""
    collect: Literal["append", "replace"] | None = None
    """All items (default), or those of the last page."""
    delay: int | float | str | None = None
    """Between pages: seconds, `500ms`, `10s`, or a template."""


Demands = Annotated[
    Annotated[list[str], Tag("<list>")] | Annotated[dict[str, ValueType], Tag("<mapping>")],
    expect("a list of names or a mapping from names to types"),
]


class Assert(Part):
    """What a task needs, and what it leaves."""

    expects: Demands | None = None
    """Inputs that must be given and not null: names, or name → type. Names may be dotted."""
    returns: Demands | None = None
    """What its result must have; of http its body, or it."""


class Tool(Part):
    """One tool call. Keys that are not named here are the tool's own."""

    kind: str | None = None
    name: str | None = None
    label: str | None = None
    desc: Any = None
    spec: CallSpec | None = None
    input: Names | None = None
    args: Names | None = None
    with_: Names | None = older("with")
    assert_: Assert | None = Field(None, alias="assert")
    """What it needs and what it leaves, checked at every call."""
    pagination: Pagination | None = None
    set: Names | None = None
    set_ctx: Names | None = older()
    set_iter: Names | None = older()
    output: OutputForm = None
    """How its result is kept: the same as `spec.result`, which wins."""
    output_select: list[SelectForm] | None = None
    """The same as `spec.result.select`, and wins."""


def _item(value: object) -> str | None:
    match value:
        case str():
            return "<text>"
        case Mapping() if (
            "kind" not in value and len(value) == 1 and isinstance(next(iter(value.values())), Mapping)
        ):
            return "<label>"
        case Mapping() | BaseModel():
            return "<mapping>"
        case _:
            return None


ToolItem = Annotated[
    Annotated[str, Tag("<text>")]
    | Annotated[dict[str, Tool], Tag("<label>")]
    | Annotated[Tool, Tag("<mapping>")],
    Discriminator(_item, custom_error_type="shape", custom_error_message="a task (a mapping with kind)"),
]

ToolForm = Annotated[
    Annotated[str, Tag("<text>")]
    | Annotated[list[ToolItem], Tag("<list>")]
    | Annotated[Tool, Tag("<mapping>")],
    expect("a mapping with kind, a list of tasks or the name of a workbook task"),
]
