"""What every part of a document is made of."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, Discriminator

#: Any JSON value in which strings may be templates.
Template = Any
Names = dict[str, Template]


class Part(BaseModel):
    """Base of all parts: strict types, unknown keys kept."""

    # Built when a document is first read, as one whole: each part by itself would cost every start 20 ms.
    model_config = ConfigDict(
        extra="allow", strict=True, frozen=True, use_attribute_docstrings=True, defer_build=True
    )


def shape_of(value: object) -> str | None:
    match value:
        case str():
            return "<text>"
        case list():
            return "<list>"
        case Mapping() | BaseModel():
            return "<mapping>"
        case _:
            return None


def expect(words: str) -> Discriminator:
    return Discriminator(shape_of, custom_error_type="shape", custom_error_message=words)


def known_keys(model: type[Part]) -> tuple[str, ...]:
    """The keys that a part may have, as documents write them."""
    return tuple(field.alias or name for name, field in model.model_fields.items())
