"""Two worlds that differ in what only a run knows: its id, and the instant at which it begins.

A template that says the same in both, but for the id and the instant themselves, will say that in
any run; one that does not has made something else of them, and is left as it is. So nobody has to
guess what a filter does to a placeholder.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from noetl.engine.inputs import Inputs
from noetl.engine.state import State
from noetl.engine.workload import rendered_keys, request_names
from noetl.errors import NoetlError, TemplateError
from noetl.expressions.scope import layered
from noetl.facts.json import Json, JsonMap
from noetl.facts.secret import MARK, Keychain, called, is_secret, unmarked, unsealed
from noetl.net.model import Net

EXECUTION_ID: Final = "<execution_id>"
NOW: Final = "<now>"


@dataclass(frozen=True, slots=True)
class World:
    """An id and an instant, of different length in every world."""

    execution_id: str
    now: datetime

    def describe(self, value: Json) -> str:
        """`value` as JSON text with placeholders for the id, the instant, and secrets. Raises
        ValueError, RecursionError or NoetlError where it cannot be told so."""
        text = json.dumps(value, ensure_ascii=False, sort_keys=True)
        if MARK in text:
            text = unmarked(text, lambda reference: f"<{called(reference)}>")
        if "secret_ref" in text:
            text = json.dumps(json.loads(text, object_hook=_named), ensure_ascii=False, sort_keys=True)
        return text.replace(self.execution_id, EXECUTION_ID).replace(self.now.isoformat(), NOW)


WORLDS: Final = (
    World("100000000000000001", datetime(2001, 2, 3, 4, 5, 6, tzinfo=UTC)),
    World("9223372036854775000", datetime(2034, 11, 12, 13, 14, 15, 161718, tzinfo=UTC)),
)


def _named(mapping: JsonMap) -> Json:
    return f"<{called(mapping)}>" if is_secret(mapping) else mapping


def agree(values: tuple[Json, ...]) -> tuple[bool, Json]:
    """Whether the worlds say the same, and what: with placeholders for what only a run knows."""
    try:
        told = {world.describe(value) for world, value in zip(WORLDS, values, strict=True)}
        return (True, json.loads(told.pop())) if len(told) == 1 else (False, None)
    except (ValueError, RecursionError, NoetlError):
        return False, None


@dataclass(frozen=True, slots=True)
class WorldRequest:
    """The request in one world. Of every key of the workload there is its value, or why it has
    none."""

    state: State
    inputs: Inputs
    workload: Mapping[str, Json | TemplateError]

    @property
    def values(self) -> JsonMap:
        """The workload, as far as it has values."""
        return {key: value for key, value in self.workload.items() if not isinstance(value, TemplateError)}

    @property
    def names(self) -> Mapping[str, Any]:
        """What the start of ctx sees."""
        own = {"workload": self.values, "keychain": self.inputs.keychain}
        return layered(own, request_names(self.state, self.inputs), self.values)


def make_requests(
    net: Net, payload: JsonMap, overrides: JsonMap, env: Mapping[str, str]
) -> tuple[WorldRequest, ...]:
    """The request in each world."""
    return tuple(_make_request(net, payload, overrides, env, world) for world in WORLDS)


def _make_request(
    net: Net, payload: JsonMap, overrides: JsonMap, env: Mapping[str, str], world: World
) -> WorldRequest:
    state = State(world.execution_id, payload=payload, overrides=overrides)
    inputs = Inputs(now=world.now, env=env, keychain=keychain(net, world))
    return WorldRequest(state, inputs, rendered_keys(net, state, inputs))


def keychain(net: Net, world: World) -> Keychain:
    """References that no key has sealed, so that nobody could open them."""
    return Keychain(net.keychain, world.execution_id, unsealed)
