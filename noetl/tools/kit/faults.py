"""What a tool cannot take of a configuration, as pydantic tells it: asked by the compiler, and before each call."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from noetl.facts.json import Json
from noetl.tools.kit.base import Tool, ToolConfig


def unknown_keys(tool: Tool | type[Tool], config: Mapping[str, Json]) -> list[str]:
    """The keys that mean nothing to the tool: what `validate` warns of must not fail the run."""
    fields = tool.config_model.model_fields
    if tool.config_model.model_config.get("extra") != "forbid":
        return []
    return [key for key in config if key not in fields.keys() | {field.alias for field in fields.values()}]


def validated(tool: Tool | type[Tool], config: Mapping[str, Json]) -> ToolConfig:
    """`config` as the tool's own class, without keys that mean nothing to it. Raises pydantic's ValidationError."""
    unknown = set(unknown_keys(tool, config))
    return tool.config_model.model_validate({k: v for k, v in config.items() if k not in unknown})


def faults(tool: type[Tool], config: Mapping[str, Json]) -> Sequence[ErrorDetails]:
    """What the tool cannot take of `config`, besides keys that mean nothing to it. Of an unknown key in a mapping the context
    has `known`: the keys that it takes."""
    found = _faults(partial(validated, tool), tool.config_model, config)
    if tool.written_model is not None:
        told = {fault["loc"][:1] for fault in found}
        written = _faults(tool.written_model.model_validate, tool.written_model, config)
        found += [fault for fault in written if fault["loc"][:1] not in told]
    return tuple(found)


def _faults(
    validate: Callable[[Mapping[str, Json]], object], model: type[BaseModel], config: Mapping[str, Json]
) -> list[ErrorDetails]:
    try:
        validate(config)
    except ValidationError as error:
        return [_told(fault, model) for fault in error.errors(include_url=False)]
    # Broad on purpose: validators may be foreign code. What fails in them fails when the task runs, and is told then.
    except Exception:  # noqa: BLE001
        return []
    return []


def _told(fault: ErrorDetails, model: type[BaseModel]) -> ErrorDetails:
    """Of an unknown key with the names of those that are known there, as `known` of its context; of a mapping whose kind is
    not known, as a fault of the key that says the kind."""
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
    """The keys that the mapping at `place` takes, as far as models tell."""
    models = [model]
    for part in place:
        fields = [one.model_fields[str(part)] for one in models if part in one.model_fields]
        # What is no field is the branch of a union, or the number of an item.
        models = [one for field in fields for one in _models_in(field.annotation)] or models
    return [key for one in models for key in one.model_fields]


def _models_in(annotation: object) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for part in get_args(annotation):
        yield from _models_in(part)
