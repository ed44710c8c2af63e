"""Where steps lead."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

from pydantic import Tag

from noetl.dsl.document.base import (
    Assigned,
    DocumentPart,
    Inputs,
    Key,
    Names,
    OlderInputs,
    SetCtx,
    expect,
    known_keys,
    older,
)
from noetl.dsl.document.specs import NextSpec


class Destination(DocumentPart):
    """A step and what is passed to it."""

    step: str | None = None
    """The step that it leads to."""
    when: bool | str | None = None
    """A guard: it leads there where this is true."""
    args: Inputs = None
    input: Inputs = None
    """Values for that step."""
    with_: OlderInputs = older("with")
    set: Assigned = None
    """Variables that it assigns."""
    set_ctx: SetCtx = older()
    desc: Any = None
    """What it is for."""


Targets = Annotated[
    Annotated[str, Tag("<text>")]
    | Annotated[
        list[
            Annotated[
                Annotated[str, Tag("<text>")] | Annotated[Destination, Tag("<mapping>")],
                expect("the name of a step or a mapping with step"),
            ]
        ],
        Tag("<list>"),
    ]
    | Annotated[Destination, Tag("<mapping>")],
    expect("the name of a step, a mapping with step or a list of them"),
]


class ArcSignal(DocumentPart):
    """Which signals an arc waits for."""

    name: Annotated[str | None, Key(required=True)] = None
    """What the signal is called."""
    match: Names | None = None
    """What its payload has to hold: dotted name → value."""
    when: bool | str | None = None
    """A guard over `signal` (`signal.payload`, `signal.by`) and ctx."""
    correlate: str | int | None = None
    """The value that a signal to whoever waits for it names."""


class ArcWait(DocumentPart):
    """What an arc waits for: one of these, as of the tool `wait`."""

    timer: int | float | str | None = None
    """How long: seconds, `500ms`, `10m`, `2h`, `1d`, ISO 8601."""
    until: str | None = None
    """An instant: ISO 8601."""
    signal: (
        Annotated[
            Annotated[str, Tag("<text>")] | Annotated[ArcSignal, Tag("<mapping>")],
            expect("the name of a signal, or a mapping with name"),
        ]
        | None
    ) = None
    """A signal: its name, or `{name, match, when, correlate}`."""
    condition: bool | str | None = None
    """A guard over ctx, asked at once and whenever ctx changes."""
    approval: Names | None = None
    """People, as of the tool: `{by, count, message, show, form, four_eyes, expires, remind}`."""


class Arc(Destination):
    """One way onwards; without a step it only assigns."""

    wait: Annotated[ArcWait | None, Key(example="{signal: name}")] = None
    """What it waits for: of all arcs of the router the first for which that comes is taken."""

    times: Annotated[int | str | None, Key("count")] = None
    """How many tokens it puts before the step, each of which is one by itself: at most 1,000; 1
    unless given."""
    then: Targets | None = older()
    else_: Targets | None = older("else")


ArcForm = Annotated[
    Annotated[str, Tag("<text>")] | Annotated[Arc, Tag("<mapping>")],
    expect("the name of a step or a mapping with step"),
]


ChoiceForm = Annotated[
    Annotated[str, Tag("<text>")]
    | Annotated[list[ArcForm], Tag("<list>")]
    | Annotated[Arc, Tag("<mapping>")],
    expect("the name of a step, a mapping with step or a list of them"),
]


class Router(DocumentPart):
    """`next: {spec: {mode}, arcs: [...]}`; arcs that stand in an inner list are one
    choice."""

    # One with none of its keys was meant as an arc.
    rewritten: ClassVar[tuple[str, ...]] = known_keys(Arc)

    spec: NextSpec | None = None
    arcs: Annotated[list[ChoiceForm] | None, Key(example="[{step: name}]")] = None


def _next(form: Mapping[str, Any]) -> str:
    is_arc = {"step", "then", "else"} & form.keys() and not {"arcs", "spec"} & form.keys()
    return "<arc>" if is_arc else "<router>"


NextForm = Annotated[
    Annotated[str, Tag("<text>")]
    | Annotated[list[ArcForm], Tag("<list>")]
    | Annotated[Arc, Tag("<arc>")]
    | Annotated[Router, Tag("<router>")],
    expect("a router with arcs, a list or the name of a step", _next),
]
