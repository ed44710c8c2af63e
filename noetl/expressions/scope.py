"""What templates look names up in: layers of names, not copied, and results with what is looked up
beside them.

No Jinja here: code that builds names need not know how they are read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, Final

from noetl.facts.json import Json, JsonMap

_MISSING: Final = object()
#: Under this name, which no template can read, names say why some that they might have are not
#: there: a mapping from those to a clause (`step 'a' was skipped`).
ABSENT: Final = "#absent"
#: Names of an iteration's scope that are not read bare.
_NOT_BARE: Final = frozenset({"index", "parent"})


def bare_names(scope: Mapping[str, Any]) -> dict[str, Any]:
    """What templates read of an iteration's scope without `iter`: the iterator, and
    `loop_index`."""
    bare = {name: value for name, value in scope.items() if name not in _NOT_BARE}
    return {**bare, "loop_index": scope["index"]} if "index" in scope else bare


class _Layered(Mapping[str, Any]):
    """The first layer that has a key answers for it."""

    __slots__ = ("_layers",)

    def __init__(self, layers: tuple[Mapping[str, Any], ...]) -> None:
        self._layers = layers

    def __getitem__(self, key: str) -> Any:
        for layer in self._layers:
            value = layer.get(key, _MISSING)
            if value is not _MISSING:
                return value
        raise KeyError(key)

    def __contains__(self, key: object) -> bool:
        return any(key in layer for layer in self._layers)

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys(chain.from_iterable(self._layers)))

    def __len__(self) -> int:
        return sum(1 for _ in self)


class _Without(Mapping[str, Any]):
    """A mapping in which some names are undefined, whatever lies below them."""

    __slots__ = ("_hidden", "_inner")

    def __init__(self, inner: Mapping[str, Any], hidden: frozenset[str]) -> None:
        self._inner = inner
        self._hidden = hidden

    def __getitem__(self, key: str) -> Any:
        if key in self._hidden:
            raise KeyError(key)
        return self._inner[key]

    def __contains__(self, key: object) -> bool:
        return key not in self._hidden and key in self._inner

    def __iter__(self) -> Iterator[str]:
        return (key for key in self._inner if key not in self._hidden)

    def __len__(self) -> int:
        return sum(1 for _ in self)


def layer_names(*layers: Mapping[str, Any]) -> Mapping[str, Any]:
    """One read-only mapping over `layers`: the first that has a key answers for it.

    Nothing is copied and nothing is read before it is asked for; a layer may be lazy itself.
    """
    return _Layered(layers)


def hide_names(names: Mapping[str, Any], hidden: frozenset[str]) -> Mapping[str, Any]:
    """`names` but for `hidden`: those are undefined even where a deeper layer has them."""
    return _Without(names, hidden)


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
