"""Values that templates see in more than one way."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from noetl.facts.json import Json, JsonMap

#: Keys that every result of an http task has, and every content that an artifact task read from a
#: key or a URI.
_OF_RESPONSES: Final = frozenset({"status_code", "headers", "url", "elapsed", "data"})
_OF_CONTENTS: Final = frozenset({"uri", "bytes", "sha256", "data"})


@dataclass(frozen=True, slots=True)
class ResultView:
    """What a step or a task left behind. To templates it is `value`; a name that `value` does not
    have is looked up in `also`, then in the body of an http response, and `data` is `value` itself
    where none has it. `value` may be a reference: what is in it shows when it was loaded."""

    value: Json
    also: JsonMap = field(default_factory=dict)


def of_task(value: Json) -> ResultView:
    """A task's result."""
    return ResultView(value)


def of_step(value: Json, results: JsonMap) -> ResultView:
    """A step's result, behind it those of its tasks: `<step>.results.<task>`."""
    return ResultView(value, {"results": results})


def value_of(value: Any) -> Any:
    """`value` without what templates see beyond it."""
    return value.value if type(value) is ResultView else value


def is_response(value: Any) -> bool:
    """Whether `value` is the result of an http task."""
    return isinstance(value, Mapping) and value.keys() >= _OF_RESPONSES


def body_of(value: Json) -> Json:
    """The body, where `value` is the response of an http call or what `get` of an artifact yields;
    else null."""
    if not isinstance(value, Mapping):
        return None
    return value.get("data") if "status_code" in value or _is_content(value) else None


def _is_content(value: JsonMap) -> bool:
    if value.keys() == {"ref", "data"}:
        return str(value["ref"]).startswith("noetl://")
    return value.keys() >= _OF_CONTENTS and "exists" not in value


def of_tasks(results: JsonMap) -> dict[str, ResultView]:
    """Task name → its result, as templates see it."""
    return {name: ResultView(value) for name, value in results.items()}
