"""The rules dialect: what it has beside the canonical keys. `noetl.dsl.dialects.rules` rewrites
it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BaseModel, Discriminator, Tag

from noetl.dsl.document.arcs import Destination, NextForm
from noetl.dsl.document.base import Assigned, Part, expect, older
from noetl.dsl.document.tools import Tool


class Action(Tool):
    """A tool call; `action` and `type` stand for `kind`."""

    action: str | None = older()
    type: Any = older()


def _action(value: object) -> str | None:
    match value:
        case str():
            return "<text>"
        case Mapping() if len(value) == 1 and isinstance(next(iter(value.values())), Mapping):
            return "<label>"
        case Mapping() | BaseModel():
            return "<mapping>"
        case _:
            return None


ActionForm = Annotated[
    Annotated[str, Tag("<text>")]
    | Annotated[dict[str, Action], Tag("<label>")]
    | Annotated[Action, Tag("<mapping>")],
    Discriminator(_action, custom_error_type="shape", custom_error_message="an action (a mapping with kind)"),
]


def _branch(value: object) -> str | None:
    if isinstance(value, Destination) or (isinstance(value, Mapping) and "step" in value):
        return "<target>"
    return _action(value)


Branch = Annotated[
    Annotated[str, Tag("<text>")]
    | Annotated[Destination, Tag("<target>")]
    | Annotated[dict[str, Action], Tag("<label>")]
    | Annotated[Action, Tag("<mapping>")],
    Discriminator(
        _branch,
        custom_error_type="shape",
        custom_error_message="the name of a step or task, a mapping with step, or an action (a mapping "
        "with kind)",
    ),
]


def _run(value: object) -> str | None:
    return "<list>" if isinstance(value, list) else _branch(value)


#: What `run` names: steps, tasks and actions.
RunForm = Annotated[
    Annotated[str, Tag("<text>")]
    | Annotated[list[Branch], Tag("<list>")]
    | Annotated[Destination, Tag("<target>")]
    | Annotated[dict[str, Action], Tag("<label>")]
    | Annotated[Action, Tag("<mapping>")],
    Discriminator(
        _run,
        custom_error_type="shape",
        custom_error_message="the name of a step or task, an action (a mapping with kind), or a list of them",
    ),
]


class Rule(Part):
    """The first rule of a step whose `when` holds acts."""

    when: bool | str | None = None
    run: RunForm | None = None
    next: NextForm | None = None
    set: Assigned = None
    desc: Any = None


def _actions(value: object) -> str | None:
    return "<list>" if isinstance(value, list) else _action(value)


Actions = Annotated[
    Annotated[str, Tag("<text>")]
    | Annotated[list[ActionForm], Tag("<list>")]
    | Annotated[dict[str, Action], Tag("<label>")]
    | Annotated[Action, Tag("<mapping>")],
    Discriminator(
        _actions,
        custom_error_type="shape",
        custom_error_message="an action (a mapping with kind) or a list of them",
    ),
]


class NamedActions(Part):
    """An entry of `tasks`."""

    name: str | None = None
    task: str | None = None
    """The same as `name`."""
    actions: Actions | None = None
    parallel: bool | None = None
    desc: Any = None


def _task(value: object) -> str | None:
    match value:
        case list():
            return "<list>"
        case Mapping() if "actions" in value:
            return "<task>"
        case NamedActions():
            return "<task>"
        case _:
            return _action(value)


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
                Discriminator(
                    _task,
                    custom_error_type="shape",
                    custom_error_message="a list of actions or a mapping with actions",
                ),
            ],
        ],
        Tag("<mapping>"),
    ]
    | Annotated[list[NamedActions], Tag("<list>")],
    expect("a mapping from names to lists of actions, or a list of mappings with name and actions"),
]
