"""What a tool declares, in one frozen value for the compiler, the registry and the manual; and the
check of configurations by it, for the compiler and before each call."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Annotated, Any, Final, TypeAlias, get_args

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, WithJsonSchema
from pydantic_core import ErrorDetails, PydanticCustomError

from noetl.errors import ToolError
from noetl.facts.durations import LOOKS, seconds
from noetl.facts.json import Json
from noetl.facts.nearest import did_you_mean
from noetl.net.model import KindInfo


def _read_duration(value: object) -> object:
    try:
        return seconds(value) if isinstance(value, str) else value
    except ValueError as error:
        # Known to `validate` as a value of another type.
        reason = {"reason": str(error).rstrip(".")}
        raise PydanticCustomError("duration_parsing", "{reason}", reason) from None


def _schema(least: str) -> WithJsonSchema:
    return WithJsonSchema(
        {"anyOf": [{"type": "number", least: 0}, {"type": "string", "pattern": LOOKS}]}, mode="validation"
    )


_READ: Final = BeforeValidator(_read_duration)
#: Seconds above zero, or from zero on, written as any duration.
Duration: TypeAlias = Annotated[float, _READ, Field(gt=0, allow_inf_nan=False), _schema("exclusiveMinimum")]
DurationOrZero: TypeAlias = Annotated[float, _READ, Field(ge=0, allow_inf_nan=False), _schema("minimum")]


class ToolConfig(BaseModel):
    """Base of configurations: unknown keys are errors; every field carries a description.

    Validators look at nothing but the values: the compiler runs them too, with templates where
    values are not known."""

    model_config = ConfigDict(extra="forbid", frozen=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolDeclaration(KindInfo):
    """What a tool says of itself: all that the language knows of a kind (see `KindInfo`), and more.

    `schema`, `faults`, `parse` and `effects_of` are not declared: `Tool.info` makes them of the
    class. `description` is one sentence, for lists. `effects` is what a call changes unless its
    configuration tells more (`Tool.effects_of`)."""

    description: str
    #: The keys of a task.
    config_model: type[ToolConfig]
    #: What the compiler checks besides: names and needs that only the call itself would find at
    #: fault. Of its keys those are reported that `config_model` finds no fault with.
    written_model: type[BaseModel] | None = None
    #: Error kind of results that are not JSON (see `noetl.facts.outcome.ErrorKind`).
    error_kind: str = "internal"
    #: Whether references to secrets stay closed: the tool only hands them on.
    hands_on: bool = False
    #: What a call yields, which errors it ends with, and a list of steps that runs as it stands:
    #: Markdown, YAML.
    result: str = ""
    errors: str = ""
    example: str = ""


#: What every kind must say.
NEEDED: Final = ("kind", "queue", "description", "config_model")
#: What `Tool.info` makes of the class.
_MADE: Final = frozenset({"schema", "faults", "parse", "effects_of"})
_NAMES: Final = tuple(one.name for one in fields(ToolDeclaration) if one.name not in _MADE)


def declaration_of(tool: type[Any]) -> ToolDeclaration | None:
    """The declaration of a class that has none in its own body: the one that it inherits, with its
    class variables in it. None as long as they do not say all that is needed.

    Packages that were made before there was a `ToolDeclaration` say everything in class variables
    of the same names."""
    inherited: ToolDeclaration | None = getattr(tool, "declaration", None)
    said = {name: getattr(tool, name) for name in _NAMES if hasattr(tool, name)}
    if inherited is not None:
        return replace(inherited, **said)
    return None if lacking(tool) else ToolDeclaration(**said)


def lacking(tool: type[Any]) -> list[str]:
    """What has to be said, and is not, by a class without a declaration."""
    return [name for name in NEEDED if not hasattr(tool, name)]


def unknown_keys(tool: ToolDeclaration, config: Mapping[str, Json]) -> list[str]:
    """The keys that mean nothing to the tool: what `validate` warns of must not fail the run."""
    fields = tool.config_model.model_fields
    if tool.config_model.model_config.get("extra") != "forbid":
        return []
    return [key for key in config if key not in fields.keys() | {field.alias for field in fields.values()}]


def configure(tool: ToolDeclaration, config: Mapping[str, Json]) -> ToolConfig:
    """The configuration as the tool's own class, without keys that mean nothing to it. Raises
    ToolError with one sentence naming the field."""
    for group in tool.required:
        if not any(tool.says(config, key) for key in group):
            names = " or ".join(f"'{key}'" for key in group)
            raise ToolError("client_error", f"The {tool.kind} task needs {names}, which is missing or empty.")
    try:
        return _validate(tool, config)
    except ValidationError as error:
        raise ToolError("client_error", _describe(tool, error, config), type="ValidationError") from None


def _validate(tool: ToolDeclaration, config: Mapping[str, Json]) -> ToolConfig:
    unknown = set(unknown_keys(tool, config))
    return tool.config_model.model_validate({k: v for k, v in config.items() if k not in unknown})


def _describe(tool: ToolDeclaration, error: ValidationError, config: Mapping[str, Json]) -> str:
    # Of the value itself only its type is shown: it may be a secret.
    fault = error.errors(include_url=False, include_context=False)[0]
    where = ".".join(_find_path(fault["loc"], config))
    if fault["type"] == "missing":
        where = ".".join(filter(None, (where, str(fault["loc"][-1]))))
    if fault["type"] == "extra_forbidden":
        # Of a mapping inside of the configuration; at its top they are only warned of.
        key, known = str(fault["loc"][-1]), known_keys(tool.config_model, fault["loc"][:-1])
        return f"The {tool.kind} task has no key '{where}'.{did_you_mean(key, known)}"
    if fault["type"] == "missing":
        return f"The {tool.kind} task needs '{where}', which is missing."
    reason = fault["msg"].removeprefix("Value error, ")
    if not where:
        return f"The {tool.kind} task cannot be run: {reason}."
    return (
        f"'{where}' of the {tool.kind} task is not usable: {reason} (it is of type "
        f"{type(fault['input']).__name__})."
    )


def _find_path(loc: tuple[int | str, ...], value: Json) -> Iterator[str]:
    """`loc` without what names no part of `value`: pydantic puts the branches of unions in."""
    for part in loc:
        inside = (isinstance(value, Mapping) and part in value) or (
            isinstance(value, list) and isinstance(part, int) and part < len(value)
        )
        if inside:
            yield str(part)
            value = value[part]


def faults(tool: ToolDeclaration, config: Mapping[str, Json]) -> Sequence[ErrorDetails]:
    """What the tool cannot take of `config`, besides keys that mean nothing to it. Of an unknown
    key in a mapping the context has `known`: the keys that it takes."""
    found = _faults(partial(_validate, tool), tool.config_model, config)
    if tool.written_model is not None:
        known = {fault["loc"][:1] for fault in found}
        written = _faults(tool.written_model.model_validate, tool.written_model, config)
        found += [fault for fault in written if fault["loc"][:1] not in known]
    return tuple(found)


def _faults(
    validate: Callable[[Mapping[str, Json]], object], model: type[BaseModel], config: Mapping[str, Json]
) -> list[ErrorDetails]:
    try:
        validate(config)
    except ValidationError as error:
        return [_explain(fault, model) for fault in error.errors(include_url=False)]
    # Broad on purpose: validators may be foreign code. What fails in them fails when the task runs,
    # and is reported then.
    except Exception:  # noqa: BLE001
        return []
    return []


def _explain(fault: ErrorDetails, model: type[BaseModel]) -> ErrorDetails:
    """Of an unknown key with the names of those that are known there, as `known` of its context; of
    a mapping whose kind is not known, as a fault of the key that says the kind."""
    place, context = fault["loc"], fault.get("ctx") or {}
    match fault["type"]:
        case "extra_forbidden":
            return {**fault, "ctx": {"known": known_keys(model, place[:-1])}}
        case "union_tag_invalid":
            names = {"expected": context["expected_tags"]}
            return {**fault, "type": "literal_error", "loc": (*place, _says_kind(context)), "ctx": names}
        case "union_tag_not_found":
            return {**fault, "type": "missing", "loc": (*place, _says_kind(context))}
    return fault


def _says_kind(context: Mapping[str, Any]) -> str:
    return str(context["discriminator"]).strip("'")


def known_keys(model: type[BaseModel], place: Sequence[int | str]) -> list[str]:
    """The keys that the mapping at `place` takes, as far as models say."""
    models = [model]
    for part in place:
        fields = [one.model_fields[str(part)] for one in models if part in one.model_fields]
        # Anything but a field is the branch of a union, or the number of an item.
        models = [one for field in fields for one in _models_in(field.annotation)] or models
    return [key for one in models for key in one.model_fields]


def _models_in(annotation: object) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for part in get_args(annotation):
        yield from _models_in(part)
