"""The rules dialect: what it has beside the canonical keys. `noetl.dsl.dialects.rules` rewrites
it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import Tag

from noetl.dsl.document.arcs import Destination, NextForm
from noetl.dsl.document.base import Assigned, DocumentPart, expect, is_labelled, older
from noetl.dsl.document.tools import Tool


class Action(Tool):
    """A tool call; `action` and `type` stand for `kind`."""

    action: str | None = older()
    type: Any = older()


def _action(form: Mapping[str, Any]) -> str:
    return "<label>" if is_labelled(form) else "<mapping>"


ActionForm = Annotated[
    Annotated[str, Tag("<text>")]
    | Annotated[dict[str, Action], Tag("<label>")]
    | Annotated[Action, Tag("<mapping>")],
    expect("an action (a mapping with kind)", _action),
]


def _branch(form: Mapping[str, Any]) -> str:
    return "<target>" if "step" in form else _action(form)


Branch = Annotated[
    Annotated[str, Tag("<text>")]
    | Annotated[Destination, Tag("<target>")]
    | Annotated[dict[str, Action], Tag("<label>")]
    | Annotated[Action, Tag("<mapping>")],
    expect("the name of a step or task, a mapping with step, or an action (a mapping with kind)", _branch),
]


#: What `run` names: steps, tasks and actions.
RunForm = Annotated[
    Annotated[str, Tag("<text>")]
    | Annotated[list[Branch], Tag("<list>")]
    | Annotated[Destination, Tag("<target>")]
    | Annotated[dict[str, Action], Tag("<label>")]
    | Annotated[Action, Tag("<mapping>")],
    expect("the name of a step or task, an action (a mapping with kind), or a list of them", _branch),
]


class Rule(DocumentPart):
    """The first rule of a step whose `when` holds acts."""

    when: bool | str | None = None
    case: bool | str | None = older()
    run: RunForm | None = None
    next: NextForm | None = None
    set: Assigned = None
    desc: Any = None


Actions = Annotated[
    Annotated[str, Tag("<text>")]
    | Annotated[list[ActionForm], Tag("<list>")]
    | Annotated[dict[str, Action], Tag("<label>")]
    | Annotated[Action, Tag("<mapping>")],
    expect("an action (a mapping with kind) or a list of them", _action),
]


class NamedActions(DocumentPart):
    """An entry of `tasks`."""

    name: str | None = None
    task: str | None = None
    """The same as `name`."""
    actions: Actions | None = None
    parallel: bool | None = None
    desc: Any = None


def _task(form: Mapping[str, Any]) -> str:
    return "<task>" if "actions" in form else _action(form)


#: `tasks`: by name, or as a list.
Tasks = Annotated[
    Annotated[
        dict[
            str,
            Annotated[
                Annotated[str, Tag("<text>")]
                | Annotated[list[ActionForm], Tag("<list>")]
                | Annotated[NamedActions, Tag("<task>")]
                | Annotated[dict[str, Action], Tag("<label>")]
                | Annotated[Action, Tag("<mapping>")],
                expect("a list of actions or a mapping with actions", _task),
            ],
        ],
        Tag("<mapping>"),
    ]
    | Annotated[list[NamedActions], Tag("<list>")],
    expect("a mapping from names to lists of actions, or a list of mappings with name and actions"),
]
