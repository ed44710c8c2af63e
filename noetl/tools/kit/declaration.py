"""What a tool says of itself: one frozen value, of which the compiler, the registry and the manual
read."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any, Final

from pydantic import BaseModel, ConfigDict

from noetl.net.model import KindInfo


class ToolConfig(BaseModel):
    """Base of configurations: unknown keys are errors; every field carries a description.

    Validators look at nothing but the values: the compiler runs them too, with templates where
    values are not known."""

    model_config = ConfigDict(extra="forbid", frozen=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolDeclaration(KindInfo):
    """What a tool says of itself: all that the language knows of a kind (see `KindInfo`), and more.

    `schema`, `faults` and `parse` are not declared: `Tool.info` makes them of the class.
    `description` is one sentence, for lists. `effects` decides how often the iterations of a loop
    are committed."""

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
_MADE: Final = frozenset({"schema", "faults", "parse"})
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
