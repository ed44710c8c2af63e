"""What a playbook takes, in short: its declared inputs, as the head of its page shows them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from noetl.facts.json import Json
from noetl.net.input_values import quote_json
from noetl.net.inputs import Input
from noetl.net.model import Net
from noetl.pipeline.templates import has_template
from noetl.ui.bounds import cut, find_bounds


@dataclass(frozen=True, slots=True)
class ShownInput:
    """A declared input: its type, what it is without being given, and what else is asked of it."""

    name: str
    type: str
    default: str
    notes: str
    description: str


def show_inputs(net: Net | None) -> list[ShownInput]:
    """In the order of the document; none of a playbook that declares none."""
    if net is None:
        return []
    return [
        ShownInput(
            one.name,
            _say_type(one),
            cut(quote_json(net.workload[one.name])) if has_default(net, one) else "",
            ", ".join(_find_notes(one)),
            one.description,
        )
        for one in net.inputs
    ]


def has_default(net: Net, one: Input) -> bool:
    """Whether there is one that may be shown."""
    return not one.secret and one.defaulted and net.workload.get(one.name) is not None


def find_defaults(net: Net) -> Mapping[str, Json]:
    """The defaults that are known before an execution: no templates, no secrets."""
    return {
        one.name: net.workload[one.name]
        for one in net.inputs
        if has_default(net, one) and not has_template(net.workload[one.name])
    }


def find_free_defaults(net: Net) -> Mapping[str, Json]:
    """The same of a playbook that declares no inputs: of its whole workload."""
    return {name: value for name, value in net.workload.items() if not has_template(value)}


def find_computed(net: Net) -> Mapping[str, str]:
    """The defaults that an execution comes to, in short."""
    secrets = {one.name for one in net.inputs if one.secret}
    return {
        name: cut(quote_json(value))
        for name, value in net.workload.items()
        if has_template(value) and name not in secrets
    }


def _say_type(one: Input) -> str:
    return f"list of {_say_type(one.items)}" if one.items is not None else one.type


def _find_notes(one: Input) -> Iterator[str]:
    if one.required:
        yield "required"
    if one.secret:
        yield "secret"
    yield from find_bounds(one)
