"""Layered names: first wins, nothing is copied, nothing is read too early."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from noetl.expressions.scope import hide_names, layer_names


class Lazy(Mapping[str, Any]):
    """Records what was read of it."""

    def __init__(self, **values: Any) -> None:
        self.values_ = values
        self.read: list[str] = []

    def __getitem__(self, key: str) -> Any:
        value = self.values_[key]
        self.read.append(key)
        return value

    def __iter__(self) -> Iterator[str]:
        return iter(self.values_)

    def __len__(self) -> int:
        return len(self.values_)


def test_the_first_layer_that_has_a_name_answers() -> None:
    names = layer_names({"a": 1}, {"a": 2, "b": None}, {"b": 3, "c": 4})
    assert (names["a"], names["b"], names["c"]) == (1, None, 4)
    assert list(names) == ["a", "b", "c"]
    assert len(names) == 3
    assert "c" in names
    assert "d" not in names


def test_a_missing_name_is_a_key_error() -> None:
    with pytest.raises(KeyError, match="nowhere"):
        layer_names({}, {"a": 1})["nowhere"]


def test_a_lazy_layer_is_read_only_for_names_that_no_earlier_layer_has() -> None:
    lazy = Lazy(a=1, b=2)
    names = layer_names({"a": 0}, lazy)
    assert (names["a"], names["b"]) == (0, 2)
    assert lazy.read == ["b"]


def test_layers_are_seen_as_they_are_now_and_cannot_be_written() -> None:
    below = {"a": 1}
    names = layer_names({}, below)
    below["a"] = 2
    assert names["a"] == 2
    with pytest.raises(TypeError):
        names["a"] = 3  # type: ignore[index]


def test_a_hidden_name_is_undefined_whatever_lies_below() -> None:
    names = hide_names(layer_names({"a": 1}, {"b": 2}), frozenset({"b"}))
    assert dict(names) == {"a": 1}
    assert "b" not in names
    assert len(names) == 1
    assert names.get("b") is None
