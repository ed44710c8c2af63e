"""The reader of JSON bodies, against everything that can be thrown at it."""

from __future__ import annotations

import contextlib
import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from noetl.api.wire import parse
from noetl.errors import BadRequest

texts = st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\0"))
values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=20,
)
fragments = st.sampled_from(
    [
        "{",
        "}",
        "[",
        "]",
        '"',
        "\\",
        ":",
        ",",
        "1",
        "-",
        "e9",
        ".",
        "null",
        "NaN",
        "\\u",
        "d800",
        "\0",
        "\ufeff",
        " ",
    ]
)


@given(values)
@settings(max_examples=150, deadline=None)
def test_whatever_json_can_say_is_read_as_it_was_written(value: Any) -> None:
    assert parse(json.dumps(value).encode()) == value
    assert parse(json.dumps(value, ensure_ascii=False).encode()) == value


@given(st.binary(max_size=40) | st.lists(fragments, max_size=40).map(lambda parts: "".join(parts).encode()))
@settings(max_examples=300, deadline=None)
def test_anything_else_is_refused_and_nothing_breaks(raw: bytes) -> None:
    with contextlib.suppress(BadRequest):
        json.dumps(parse(raw), allow_nan=False, ensure_ascii=False).encode()
