"""Of a list that is kept by reference no more is read than the template looks at."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, overload

import pytest

from noetl.errors import TemplateLimit
from noetl.expressions import evaluate, path_of, path_text, select_parts, truth
from noetl.expressions.limits import MAX_HELD
from noetl.expressions.scope import of_step, of_task
from noetl.facts.json import Json
from noetl.facts.reference import Lazy

PAGE = 10
REF = {"kind": "result_ref", "ref": "noetl://1/rows"}
OUTER = {"kind": "result_ref", "ref": "noetl://1/outer"}


class Rows(Lazy):
    """`{n: i}` for each i below `count`; counts the pages that were made."""

    def __init__(self, count: int) -> None:
        self._count = count
        self.items = 0
        self.pages_read = 0

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, index: int) -> Json: ...
    @overload
    def __getitem__(self, index: slice) -> list[Json]: ...
    def __getitem__(self, index: int | slice) -> Json | list[Json]:
        if isinstance(index, slice):
            return [self[one] for one in range(*index.indices(len(self)))]
        self.items += 1
        return {"n": range(self._count)[index]}

    def pages(self) -> Iterator[list[Json]]:
        for start in range(0, self._count, PAGE):
            self.pages_read += 1
            yield [{"n": n} for n in range(start, min(start + PAGE, self._count))]


class Store:
    def __init__(self, count: int = 1000) -> None:
        self.rows = Rows(count)
        self.loaded: list[str] = []

    def __call__(self, reference: Mapping[str, Any], /) -> Json:
        self.loaded.append(reference["ref"])
        return self.rows if reference["ref"] == REF["ref"] else {"rows": REF, "total": 3}

    @property
    def read(self) -> tuple[int, int]:
        """Single items, and pages."""
        return self.rows.items, self.rows.pages_read


NAMES: dict[str, Any] = {"big": REF, "step": of_step(OUTER, {})}


@pytest.mark.parametrize(
    ("template", "value", "read"),
    [
        ("{{ big | length }}", 1000, (0, 0)),
        ("{{ big is iterable and big is sequence and big is not mapping }}", True, (0, 0)),
        ("{{ big[3].n }}", 3, (1, 0)),
        ("{{ big[-1].n }}", 999, (1, 0)),
        ("{{ big[1000] is defined }}", False, (0, 0)),
        ("{{ (big | first).n }}", 0, (1, 0)),
        ("{{ (big | last).n }}", 999, (1, 0)),
        ("{{ big[10:12] }}", [{"n": 10}, {"n": 11}], (2, 0)),
        ("{{ 'some' if big else 'none' }}", "some", (0, 0)),
        ("{{ {'n': 3} in big }}", True, (0, 1)),
        ("{{ big == [] }}", False, (0, 0)),
        ("{{ big | sum(attribute='n') }}", 499500, (0, 100)),
        ("{{ big | map(attribute='n') | max }}", 999, (0, 100)),
        ("{{ big | selectattr('n', 'gt', 997) | map(attribute='n') }}", [998, 999], (0, 100)),
        ("{% for row in big %}{{ row.n if loop.last }}{% endfor %}", "999", (0, 100)),
        ("{{ step.rows[7].n }}", 7, (1, 0)),
        ("{{ step.data.rows | length }}", 1000, (0, 0)),
    ],
)
def test_no_more_is_read_than_is_looked_at(template: str, value: Json, read: tuple[int, int]) -> None:
    store = Store()
    assert evaluate(template, NAMES, load=store) == value
    assert store.read == read


@pytest.mark.parametrize(
    ("template", "value"),
    [
        ("{{ big }}", REF),
        ("{{ step.rows }}", REF),
        ("{{ step.data }}", OUTER),
        ("{{ step.rows | default([]) }}", REF),
        ("{{ big if step.total else [] }}", REF),
        ("{{ {'rows': big, 'more': [big]} }}", {"rows": REF, "more": [REF]}),
    ],
)
def test_a_list_that_is_handed_on_stays_a_reference(template: str, value: Json) -> None:
    store = Store()
    assert evaluate(template, NAMES, load=store) == value
    assert store.read == (0, 0)


def test_a_guard_over_a_lazy_list_asks_only_whether_it_is_empty() -> None:
    for count in (0, 1000):
        store = Store(count)
        assert truth("big", NAMES, load=store) is (count > 0)
        assert store.read == (0, 0)


@pytest.mark.parametrize(
    "template",
    [
        "{{ big | tojson }}",
        "text {{ big }}",
        "{{ big | sort(attribute='n') }}",
        "{{ big + [1] }}",
        "{{ big | list }}",
    ],
)
def test_a_list_too_large_to_be_held_is_refused_before_it_is_read(template: str) -> None:
    store = Store(MAX_HELD + 1)
    with pytest.raises(TemplateLimit, match="at once"):
        evaluate(template, NAMES, load=store)
    assert store.read == (0, 0)


@pytest.mark.full("a measurement")
def test_going_through_a_list_costs_as_much_as_through_any_other() -> None:
    store = Store(10_000_000)
    with pytest.raises(TemplateLimit, match="steps"):
        evaluate("{{ big | sum(attribute='n') }}", NAMES, load=store)
    assert store.rows.pages_read < 100_000


# --- parts that are kept with a reference
# -------------------------------------------------------------

KEPT = {**OUTER, "extracted": {"total": 7, "rows[0].n": "kept", "first": {"deep": [1]}}}


@pytest.mark.parametrize(
    ("template", "value"),
    [
        ("{{ get.total }}", 7),
        ("{{ get.rows[0].n }}", "kept"),
        ("{{ get.first.deep[0] }}", 1),
        ("{{ iter.get['total'] + 1 }}", 8),
        ("{{ get.first is defined and get.total > 3 }}", True),
    ],
)
def test_what_is_kept_with_a_reference_is_read_without_a_fetch(template: str, value: Json) -> None:
    store = Store()
    names = {"get": of_task(KEPT), "iter": {"get": KEPT}}
    assert evaluate(template, names, load=store) == value
    assert store.loaded == []


def test_what_is_not_kept_with_a_reference_is_fetched() -> None:
    store = Store()
    assert evaluate("{{ get.rows[1].n }}", {"get": KEPT}, load=store) == 1
    assert store.loaded == [OUTER["ref"], REF["ref"]]


@pytest.mark.parametrize(
    ("text", "parts", "canonical"),
    [
        ("a", ("a",), "a"),
        ("$.data.rows[0].id", ("data", "rows", 0, "id"), "data.rows[0].id"),
        ("$[0]", (0,), "[0]"),
        ("[-1].x", (-1, "x"), "[-1].x"),
        ("a['b c'].d", ("a", "b c", "d"), "a['b c'].d"),
        ('a["b"]', ("a", "b"), "a.b"),
    ],
)
def test_a_path_has_one_text(text: str, parts: tuple[str | int, ...], canonical: str) -> None:
    assert path_of(text) == parts
    assert path_text(parts) == canonical
    assert path_of(canonical) == parts


@pytest.mark.parametrize(
    "text", ["", "$", ".", "a.", "a..b", "a b", "a[", "a[x]", "a[1", "$a", "{{ a }}", "a.*", "a[''].b"]
)
def test_anything_but_a_path_is_none(text: str) -> None:
    assert path_of(text) is None


def test_parts_are_selected_as_templates_read_them() -> None:
    paths = {"a": "total", "b": "rows[-1].n", "c": "gone.x", "d": "rows.count", "e": "data.total"}
    assert select_parts(OUTER, paths, Store()) == {"a": 3, "b": 999, "e": 3}
