"""Names laid over one another without copying them: what templates look names up in.

No Jinja here: code that builds names need not know how they are read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Any, Final

_MISSING: Final = object()
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


def layered(*layers: Mapping[str, Any]) -> Mapping[str, Any]:
    """One read-only mapping over `layers`: the first that has a key answers for it.

    Nothing is copied and nothing is read before it is asked for; a layer may be lazy itself.
    """
    return _Layered(layers)


def without(names: Mapping[str, Any], hidden: frozenset[str]) -> Mapping[str, Any]:
    """`names` but for `hidden`: those are undefined even where a deeper layer has them."""
    return _Without(names, hidden)
