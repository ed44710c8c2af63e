"""What every part of a document is made of."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from pydantic import BaseModel, ConfigDict, Discriminator, Field

from noetl.net.model import Spelling

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


def older(alias: str | None = None) -> Any:
    """A field that `noetl.dsl.dialects` rewrites: it is accepted, and the canonical form has another one for it."""
    return Field(None, alias=alias, json_schema_extra={"deprecated": True})


def is_older(model: type[Part], name: str) -> bool:
    """Whether the field `name` is one that has another spelling in the canonical form."""
    field = model.model_fields[name]
    extra = field.json_schema_extra
    spelled = any(isinstance(one, Spelling) for one in field.metadata)
    return spelled or (isinstance(extra, dict) and bool(extra.get("deprecated")))


@cache
def known_keys(model: type[Part]) -> tuple[str, ...]:
    """The keys that a part may have, as documents write them."""
    return tuple(field.alias or name for name, field in model.model_fields.items())


@cache
def canonical_keys(model: type[Part]) -> tuple[str, ...]:
    """Those of them that the canonical form has."""
    return tuple(
        field.alias or name for name, field in model.model_fields.items() if not is_older(model, name)
    )


@cache
def spellings_of(model: type[Part]) -> Mapping[str, Spelling]:
    """Its fields that are other spellings, and that no warning is given for: key → what it means. They are declared as
    `Annotated[..., Spelling(...)]`."""
    return {
        field.alias or name: one
        for name, field in model.model_fields.items()
        for one in field.metadata
        if isinstance(one, Spelling)
    }
