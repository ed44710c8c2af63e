"""What is declared of the keys of all parts, put together."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import get_args

from noetl.dsl.document.base import Part, canonical_keys, declared, known_keys, models_below


def keys_near(model: type[Part]) -> frozenset[str]:
    """The keys of all dialects that such a part may have: what its other keys may be slips for."""
    return frozenset({*known_keys(model), *vars(model).get("rewritten", ())})


@cache
def examples() -> Mapping[str, str]:
    """Key → a value, of the keys whose form has to be known."""
    found = (declared(model).items() for model in models_below(Part))
    return {key: one.example for keys in found for key, one in keys if one.example}


@cache
def structure(model: type[Part]) -> frozenset[str]:
    """The keys of specs made of `model` that are compiled into the net, and mean nothing to a
    tool."""
    found = (declared(one).items() for one in models_below(model))
    return frozenset(key for keys in found for key, one in keys if one.is_structure)


@cache
def reserved(model: type[Part]) -> frozenset[str]:
    """The keys of such a part that are never a tool's own."""
    return frozenset(key for key, one in declared(model).items() if one.is_reserved)


@cache
def place_of(key: str) -> str:
    """Where a key belongs that stands in the wrong part of a spec; empty where no part of one has
    it."""
    models = (model for model in models_below(Part) if vars(model).get("place"))
    return next((model.place for model in models if key in canonical_keys(model)), "")


@cache
def keys_of_spec(model: type[Part]) -> frozenset[str]:
    """The keys that the `spec` of such a part has; none where it has no spec."""
    field = model.model_fields.get("spec")
    models = get_args(field.annotation) if field is not None else ()
    return frozenset(key for one in models if isinstance(one, type(Part)) for key in canonical_keys(one))
