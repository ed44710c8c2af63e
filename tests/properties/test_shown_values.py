"""Whatever a value is, a page shows it: without an error, as text, and no more of it than fits."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, overload

from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from jinja2 import Environment, FileSystemLoader, StrictUndefined

import noetl.ui
from noetl.errors import NotFound
from noetl.facts.json import Json
from noetl.facts.reference import MANIFEST, RESULT_REF, Lazy
from noetl.facts.secret import SECRET_REF
from noetl.ui.instants import say_instant
from noetl.ui.json_text import make_visible, write_json
from noetl.ui.values import LONGEST, PAGE, as_text, show_value
from tests.budget import examples

TEMPLATES = Environment(
    loader=FileSystemLoader(Path(noetl.ui.__file__).parent / "templates"),
    autoescape=True,
    trim_blocks=True,
    lstrip_blocks=True,
    undefined=StrictUndefined,
)
TEMPLATES.filters["instant"] = say_instant
PAGE_OF_IT = TEMPLATES.from_string('{% from "values.html" import show_value %}{{ show_value(shown) }}')
#: Keys and texts that shapes go by, so that values nearly have one.
WORDS = st.sampled_from(
    ["kind", "ref", "meta", "preview", "parts", "count", "rows", "head", "length", "bytes", "content_type",
     "expires_at", "uri", "key", "seal", "00", "11", RESULT_REF, MANIFEST, SECRET_REF, "image/png",
     "noetl://results/executions/7/" + "0" * 64 + ".bytes", "file:///x/artifacts/executions/7/a.png", "a.png"]
)  # fmt: skip
texts = st.text(max_size=20) | WORDS
scalars = st.none() | st.booleans() | st.integers() | st.floats() | texts
json_values = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=5)
        | st.dictionaries(texts, inner, max_size=6)
        | st.dictionaries(texts, st.integers(0) | st.floats(0), min_size=2, max_size=5)
    ),
    max_leaves=30,
)


def render(value: Json, **more: Any) -> str:
    return PAGE_OF_IT.render(shown=show_value(value, **more))


def is_gone(reference: Any) -> Json:
    raise NotFound("It is gone.")


@settings(max_examples=examples(60))
@given(json_values, st.integers(0, 3))
@example({"kind": RESULT_REF, "ref": "noetl://results/executions/7/" + "0" * 64 + ".json"}, 0)
@example({"kind": MANIFEST, "parts": [1]}, 0)
def test_any_value_is_shown(value: Json, page: int) -> None:
    text = render(value, load=is_gone, page=page, link=lambda number: f"?page={number}")
    text.encode()
    assert len(text) < 10_000 + 40 * len(json.dumps(value))
    as_text(value).encode()


@settings(max_examples=examples(60))
@given(json_values)
def test_what_references_load_is_shown_too(value: Json) -> None:
    loaded = [value]
    reference = {"kind": RESULT_REF, "ref": "noetl://results/executions/7/" + "0" * 64 + ".json"}
    assert "kept outside of the log" in render(reference, load=lambda _: loaded.pop() if loaded else 1)


@settings(max_examples=examples(60))
@given(st.text(alphabet="<>&\"'\x00\x07\r\x1b\x7f\x85\u202e\u2066\ud800ab\n", max_size=300))
def test_texts_are_texts_and_all_of_them_is_seen(text: str) -> None:
    for value in (text, [text], {text: text}, [{text: text}], {"x": {"y": [text, {"z": text}]}}):
        shown = render(value)
        shown.encode()
        assert not set(shown) & set("\x00\x07\r\x1b\x7f\x85\u202e\u2066")
        body = shown.replace("<span", "").replace("<pre", "")
        assert "<a>" not in body
        assert "<b>" not in body


@settings(max_examples=examples(60))
@given(json_values, st.integers(0, 300))
def test_json_is_that_of_the_value_up_to_where_it_is_too_long(value: Json, most: int) -> None:
    whole = json.dumps(value, ensure_ascii=False)
    assume(SECRET_REF not in whole)
    found = write_json(value, most, indent=False)
    assert found.text == make_visible(whole[:most])
    assert found.is_whole == (len(whole) <= most)
    indented = json.dumps(value, ensure_ascii=False, indent=2)
    assert write_json(value, len(indented)).text == make_visible(indented)


# --- how much is looked at ------------------------------------------------------------------------


class Counted(Lazy):
    """A list that counts how many of its items are read."""

    def __init__(self, length: int, item: Json) -> None:
        self.length, self.item, self.read = length, item, 0

    def __len__(self) -> int:
        return self.length

    @overload
    def __getitem__(self, index: int) -> Json: ...
    @overload
    def __getitem__(self, index: slice) -> list[Json]: ...
    def __getitem__(self, index: int | slice) -> Json | list[Json]:
        if isinstance(index, int):
            self.read += 1
            return self.item
        found = [self.item for _ in range(*index.indices(self.length))]
        self.read += len(found)
        return found

    def pages(self) -> Iterator[list[Json]]:
        raise AssertionError("all of it is read")


@settings(max_examples=examples(60))
@given(json_values, st.integers(0, 30_000), st.integers(PAGE, 1_000_000))
def test_of_a_long_list_one_page_is_read(item: Json, page: int, length: int) -> None:
    rows = Counted(length, item)
    reference = {"kind": RESULT_REF, "ref": "noetl://results/executions/7/" + "0" * 64 + ".parquet"}
    show_value(reference, lambda given: rows if given is reference else is_gone(given), page)
    assert rows.read <= PAGE


@settings(max_examples=examples(60))
@given(
    st.integers(1, 5), st.sampled_from(["x" * 50_000, {"a": "y" * 3_000}, list(range(3_000)), [[]] * 3_000])
)
def test_a_page_is_bounded_however_large_the_value(depth: int, leaf: Json) -> None:
    value: Json = leaf
    for level in range(depth):
        value = [value] * 60 if level % 2 else {f"k{number}": value for number in range(60)}
    assert len(render(value)) < 12 * LONGEST


def test_depth_is_no_matter() -> None:
    value: Json = "bottom"
    for level in range(100_000):
        value = [value] if level % 2 else {"x": value}
    assert "[" in render(value)
    assert as_text(value).endswith("…")
