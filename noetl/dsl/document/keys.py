"""The keys of all parts as authors write them: what other keys may be slips for, and what some of them hold."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

from noetl.dsl.document.arcs import Arc, Router
from noetl.dsl.document.base import Part, known_keys
from noetl.dsl.document.policies import Allow, Then
from noetl.dsl.document.tools import Tool

#: Keys of parts that hold a duration, and those that hold a count from one: numbers, texts of that form, or templates.
DURATIONS: Final = ("timeout", "delay", "jitter", "ttl", "initial_delay", "max_delay")
COUNTS: Final = ("attempts", "max_attempts", "max_in_flight", "max", "max_pages", "max_rows")

#: Keys of other dialects that are rewritten before a part is read as the model, and that no model declares.
_REWRITTEN: Final[Mapping[type[Part], Collection[str]]] = {
    Tool: (
        *("credential", "timeout_seconds", "pool", "task", "verify_ssl", "follow_redirects", "cmds"),
        *("chunk_size", "mapping", "result_ref"),
    ),
    # What stands below `else` may be what follows itself.
    Then: ("then",),
    Allow: ("then",),
    # A router with none of its keys was meant as an arc.
    Router: known_keys(Arc),
}


def keys_near(model: type[Part]) -> frozenset[str]:
    """The keys of all dialects that such a part may have: what its other keys may be slips for."""
    return frozenset({*known_keys(model), *_REWRITTEN.get(model, ())})


def models_below(model: type[Part]) -> list[type[Part]]:
    """`model` and all that are made of it."""
    return [model, *(inner for one in model.__subclasses__() for inner in models_below(one))]
