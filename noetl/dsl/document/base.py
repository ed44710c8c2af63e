"""What every part of a document is made of."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any, ClassVar, Literal, TypeAlias, TypeVar, get_args

from pydantic import BaseModel, ConfigDict, Discriminator, Field

from noetl.dsl.problems import Path
from noetl.net.model import Spelling

_Declared = TypeVar("_Declared")


@dataclass(frozen=True, slots=True)
class Key:
    """What is declared of a key beside its type, default and docstring: `Annotated[<type>,
    Key(...)]`.

    Everything that needs to know of a key reads it here: the schema, the hints, the reference, the
    rewriting of older spellings, and what of a spec is passed to a tool. What a key means is the
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
#: Values by name: what is passed, and what is assigned.
Inputs = Annotated[Names | None, Key(example="{name: value}")]
Assigned = Annotated[Names | None, Key(example="{ctx.name: value}")]
#: Older spellings of them.
OlderInputs = Annotated[Names | None, Key(instead="input:")]
SetCtx = Annotated[Names | None, Key(instead="set: {ctx.<name>: ...}")]
SetIter = Annotated[Names | None, Key(instead="set: {iter.<name>: ...}")]


class DocumentPart(BaseModel):
    """Base of all parts: strict types, unknown keys kept."""

    #: Whether keys that it does not declare may mean something: those of a tool, or notes.
    is_open: ClassVar[bool] = False
    #: Keys of other dialects that are rewritten before the part is read as this model.
    rewritten: ClassVar[tuple[str, ...]] = ()
    #: Where those of its keys belong that stand in the wrong place.
    place: ClassVar[str] = ""

    # Built when a document is first read, as one whole: each part by itself would cost every start
    # 20 ms. Docstrings of fields would cost it more, and are read where a schema is made
    # (`docstrings.py`).
    model_config = ConfigDict(extra="allow", strict=True, frozen=True, defer_build=True)


def expect(words: str, tell: Callable[[Mapping[str, Any]], str] = lambda _: "<mapping>") -> Discriminator:
    """Tells the forms of a key apart, of which each has its tag; `tell` the tags of those that are
    mappings. `words` say what is expected where none of them stands there."""

    def tag(value: object) -> str | None:
        match value:
            case bool():
                return "<flag>"
            case int() | float():
                return "<number>"
            case str():
                return "<text>"
            case list():
                return "<list>"
            case Mapping():
                return tell(value)
            case _:
                return None

    return Discriminator(tag, custom_error_type="shape", custom_error_message=words)


def is_labelled(form: Mapping[str, Any]) -> bool:
    """Whether it is a task below its label: `{name: {kind: ...}}`."""
    return len(form) == 1 and isinstance(next(iter(form.values())), Mapping)


def older(alias: str | None = None) -> Any:
    """A field that `noetl.dsl.dialects` rewrites: it is accepted, and the canonical form has
    another one for it."""
    return Field(None, alias=alias, json_schema_extra={"deprecated": True})


@cache
def field_keys(model: type[DocumentPart]) -> Mapping[str, str]:
    """The fields of a part → its keys, as documents write them."""
    return {name: field.alias or name for name, field in model.model_fields.items()}


def given_keys(part: DocumentPart) -> list[str]:
    """Those of its declared keys that the document gives the part."""
    return [key for name, key in field_keys(type(part)).items() if name in part.model_fields_set]


def is_older(model: type[DocumentPart], name: str) -> bool:
    """Whether the field `name` is one that has another spelling in the canonical form."""
    field = model.model_fields[name]
    extra = field.json_schema_extra
    spelled = any(isinstance(one, Spelling) for one in field.metadata)
    return spelled or (isinstance(extra, dict) and bool(extra.get("deprecated")))


@cache
def known_keys(model: type[DocumentPart]) -> tuple[str, ...]:
    """The keys that a part may have, as documents write them."""
    return tuple(field_keys(model).values())


@cache
def canonical_keys(model: type[DocumentPart]) -> tuple[str, ...]:
    """Those of them that the canonical form has."""
    return tuple(key for name, key in field_keys(model).items() if not is_older(model, name))


def _find_declared(model: type[DocumentPart], kind: type[_Declared]) -> Mapping[str, _Declared]:
    return {
        key: one
        for name, key in field_keys(model).items()
        for one in model.model_fields[name].metadata
        if isinstance(one, kind)
    }


@cache
def spellings_of(model: type[DocumentPart]) -> Mapping[str, Spelling]:
    """Its fields that are other spellings, and that no warning is given for: key → what it means.
    They are declared as `Annotated[..., Spelling(...)]`."""
    return _find_declared(model, Spelling)


@cache
def declared_keys(model: type[DocumentPart]) -> Mapping[str, Key]:
    """What is declared of its keys, as documents write them; without those that have a type and no
    more."""
    return _find_declared(model, Key)


def models_below(model: type[DocumentPart]) -> list[type[DocumentPart]]:
    """`model` and all that are made of it."""
    return [model, *(inner for one in model.__subclasses__() for inner in models_below(one))]


@cache
def parts_by_name() -> Mapping[str, type[DocumentPart]]:
    """All parts, by the names that schemas call them."""
    return {model.__name__: model for model in models_below(DocumentPart)}


def keys_near(model: type[DocumentPart]) -> frozenset[str]:
    """The keys of all dialects that such a part may have: what its other keys may be slips for."""
    return frozenset({*known_keys(model), *vars(model).get("rewritten", ())})


@cache
def examples() -> Mapping[str, str]:
    """Key → a value, of the keys whose form has to be known."""
    found = (declared_keys(model).items() for model in models_below(DocumentPart))
    return {key: one.example for keys in found for key, one in keys if one.example}


@cache
def structure_keys(model: type[DocumentPart]) -> frozenset[str]:
    """The keys of specs made of `model` that are compiled into the net, and mean nothing to a
    tool."""
    found = (declared_keys(one).items() for one in models_below(model))
    return frozenset(key for keys in found for key, one in keys if one.is_structure)


@cache
def reserved_keys(model: type[DocumentPart]) -> frozenset[str]:
    """The keys of such a part that are never a tool's own."""
    return frozenset(key for key, one in declared_keys(model).items() if one.is_reserved)


@cache
def place_of(key: str) -> str:
    """Where a key belongs that stands in the wrong part of a spec; empty where no part of one has
    it."""
    models = (model for model in models_below(DocumentPart) if vars(model).get("place"))
    return next((model.place for model in models if key in canonical_keys(model)), "")


@cache
def keys_of_spec(model: type[DocumentPart]) -> frozenset[str]:
    """The keys that the `spec` of such a part has; none where it has no spec."""
    field = model.model_fields.get("spec")
    models = get_args(field.annotation) if field is not None else ()
    return frozenset(
        key for one in models if isinstance(one, type(DocumentPart)) for key in canonical_keys(one)
    )


#: Parts of a document, each with where it stands.
Parts: TypeAlias = Sequence[tuple[DocumentPart, Path]]


def parts_of(document: DocumentPart) -> Parts:
    """`document`, and all parts in it; outer ones first."""
    found: list[tuple[DocumentPart, Path]] = []
    _collect(document, (), found)
    return found


def _collect(value: Any, path: Path, found: list[tuple[DocumentPart, Path]]) -> None:
    match value:
        case DocumentPart():
            found.append((value, path))
            keys = field_keys(type(value))
            for name in keys.keys() & value.model_fields_set:
                _collect(getattr(value, name), (*path, keys[name]), found)
        case list():
            for index, item in enumerate(value):
                _collect(item, (*path, index), found)
        case dict():
            for key, item in value.items():
                _collect(item, (*path, key), found)
