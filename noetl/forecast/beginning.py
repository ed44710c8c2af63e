"""What is rendered before the first step, besides the workload: the start of ctx, and the entries
of the keychain."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from noetl.engine.request import render_keychain
from noetl.errors import NoetlError
from noetl.facts.json import JsonMap
from noetl.forecast.known_names import KnownNames, render_all
from noetl.forecast.model import Rendered, errors_of, needs_of
from noetl.forecast.worlds import WorldRequest
from noetl.net.model import Net

#: What these templates see besides the workload.
_REQUEST: Final = ("payload", "now")
#: Keys of an entry that are no templates.
_FIXED: Final = frozenset({"name", "kind"})


@dataclass(frozen=True, slots=True)
class Entry:
    """An entry of the keychain as the execution would mean it, as far as that is known. With an
    `error` no execution would begin."""

    values: JsonMap
    needs: tuple[str, ...] = ()
    error: str = ""


@dataclass(frozen=True, slots=True)
class Beginning:
    """`ctx` by name, and the keychain by the names of its entries."""

    ctx: Mapping[str, Rendered] = field(default_factory=dict)
    keychain: Mapping[str, Entry] = field(default_factory=dict)


def render_beginning(
    net: Net, requests: tuple[WorldRequest, ...], workload: Mapping[str, Rendered]
) -> Beginning:
    """What an execution of `net` begins with. `workload` is that of the forecast."""
    scope = KnownNames(
        names=tuple(request.names for request in requests),
        workload={key: value.known for key, value in workload.items()} | dict.fromkeys(_REQUEST, True),
        args={},
        steps=(),
        hidden=frozenset(),
        assigned=frozenset(),
    )
    entries = {str(entry["name"]): _entry(net, entry, requests[0], scope) for entry in net.keychain}
    return Beginning(render_all(net.ctx, scope), entries)


def _entry(net: Net, entry: JsonMap, request: WorldRequest, scope: KnownNames) -> Entry:
    own = render_all({key: value for key, value in entry.items() if key not in _FIXED}, scope)
    # What it brings is nobody's to see.
    values = {**entry, **{key: value.value for key, value in own.items()}, "data": "data" in entry}
    if needs := needs_of(own.values()):
        return Entry(values, needs)
    if errors := errors_of(own.values()):
        return Entry(values, error=errors[0])
    try:
        # An entry may be refused for what it comes to.
        render_keychain(replace(net, keychain=(entry,)), request.state, request.inputs, request.values, [])
    except NoetlError as error:
        return Entry(values, error=error.message)
    return Entry(values)
