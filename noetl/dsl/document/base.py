"""What every part of a document is made of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Discriminator, Field

from noetl.net.model import Spelling


@dataclass(frozen=True, slots=True)
class Key:
    """What is declared of a key beside its type, default and docstring: `Annotated[<type>,
    Key(...)]`.

    Everything that needs to know of a key reads it here: the schema, the hints, the reference, the
    rewriting of older spellings, and what of a spec is handed to a tool. What a key means is the
    compiler's business.
    """

    #: Numbers and texts of that form, or a template: a length of time above zero, or a whole number
    #: from one.
    unit: Literal["duration", "count"] | None = None
    #: Whether editors should demand it, though the reader only reports it.
    required: bool = False
    #: The same where that other key is not there, or has that value.
    required_unless: str = ""
    required_if: tuple[str, str] | None = None
    #: Of keys of specs: whether it is compiled into the net, and means nothing to a tool.
    is_structure: bool = False
    #: Whether it is never a tool's own key, whatever the tool calls its keys.
    is_reserved: bool = False
    #: A value, as hints and the reference show it.
    example: str = ""
    #: What the canonical form has in the place of this older spelling.
    instead: str = ""


#: Any JSON value in which strings may be templates.
Template = Any
Names = dict[str, Template]
Duration = Annotated[int | float | str | None, Key("duration")]
Count = Annotated[int | str | None, Key("count")]
#: Values by name: what is handed over, and what is assigned.
Inputs = Annotated[Names | None, Key(example="{name: value}")]
Assigned = Annotated[Names | None, Key(example="{ctx.name: value}")]
#: Older spellings of them.
OlderInputs = Annotated[Names | None, Key(instead="input:")]
SetCtx = Annotated[Names | None, Key(instead="set: {ctx.<name>: ...}")]
SetIter = Annotated[Names | None, Key(instead="set: {iter.<name>: ...}")]


class Part(BaseModel):
    """Base of all parts: strict types, unknown keys kept."""

    #: Whether keys that it does not declare may mean something: those of a tool, or notes.
    is_open: ClassVar[bool] = False
    #: Keys of other dialects that are rewritten before the part is read as this model.
    rewritten: ClassVar[tuple[str, ...]] = ()
    #: Where those of its keys belong that stand in the wrong place.
    place: ClassVar[str] = ""

    # Built when a document is first read, as one whole: each part by itself would cost every start
    # 20 ms.
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
    """A field that `noetl.dsl.dialects` rewrites: it is accepted, and the canonical form has
    another one for it."""
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
    """Its fields that are other spellings, and that no warning is given for: key → what it means.
    They are declared as `Annotated[..., Spelling(...)]`."""
    return {
        field.alias or name: one
        for name, field in model.model_fields.items()
        for one in field.metadata
        if isinstance(one, Spelling)
    }


@cache
def declared(model: type[Part]) -> Mapping[str, Key]:
    """What is declared of its keys, as documents write them; without those that have a type and no
    more."""
    return {
        field.alias or name: one
        for name, field in model.model_fields.items()
        for one in field.metadata
        if isinstance(one, Key)
    }


def models_below(model: type[Part]) -> list[type[Part]]:
    """`model` and all that are made of it."""
    return [model, *(inner for one in model.__subclasses__() for inner in models_below(one))]
