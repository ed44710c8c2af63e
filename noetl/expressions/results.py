"""Values that templates see in more than one way."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from noetl.facts.json import Json, JsonMap


@dataclass(frozen=True, slots=True)
class Result:
    """What a step or a task left behind. To templates it is `value`; a name that `value` does not have is
    looked up in `also`, then in the body of an http response, and `data` is `value` itself where none has
    it. `value` may be a reference: what is in it shows when it was loaded."""

    value: Json
    also: JsonMap = field(default_factory=dict)


def of_task(value: Json) -> Result:
    """A task's result."""
    return Result(value)


def of_step(value: Json, results: JsonMap) -> Result:
    """A step's result, behind it those of its tasks: `<step>.results.<task>`."""
    return Result(value, {"results": results})


def value_of(value: Any) -> Any:
    """`value` without what templates see beyond it."""
    return value.value if type(value) is Result else value


def body_of(value: Json) -> Json:
    """The body, where `value` is the response of an http call; else null."""
    return value.get("data") if isinstance(value, Mapping) and "status_code" in value else None


class TaskResults(Mapping[str, Result]):
    """Task name → its result, as templates see it."""

    __slots__ = ("_results",)

    def __init__(self, results: JsonMap) -> None:
        self._results = results

    def __getitem__(self, name: str) -> Result:
        return of_task(self._results[name])

    def __iter__(self) -> Iterator[str]:
        return iter(self._results)

    def __len__(self) -> int:
        return len(self._results)
