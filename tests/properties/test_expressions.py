"""What holds for all templates and all data."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from noetl.errors import TemplateError
from noetl.expressions import check, evaluate, names_used, truth, values_read
from noetl.expressions.scope import ABSENT
from tests.budget import examples

NAMES = ("a", "b", "c", "xs", "range")

scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(10**9), 10**9)
    | st.floats(allow_nan=False, allow_infinity=False)
)
texts = st.text(max_size=12) | st.sampled_from(
    ["{{ a }}", "{% if a %}x{% endif %}", "{{ a", "#}", "{# a #}", "{{ 1/0 }}"]
)
values = st.recursive(
    scalars | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=12,
)
data = st.dictionaries(st.sampled_from(NAMES), values, max_size=4)

expressions = st.recursive(
    st.sampled_from(
        [*NAMES, "a.b", "a.b.c", "xs[0]", "b['c']", "1", "'t'", "none", "true", "nope.x", "loop.index"]
    ),
    lambda inner: st.one_of(
        st.builds(
            "({} {} {})".format,
            inner,
            st.sampled_from(["+", "-", "*", "==", "<", "and", "or", "in", "~"]),
            inner,
        ),
        st.builds(
            "{} | {}".format,
            inner,
            st.sampled_from(["default(b)", "length", "string", "list", "map('int')", "tojson"]),
        ),
        st.builds("{} is {}".format, inner, st.sampled_from(["defined", "none", "string", "in xs"])),
        st.builds("[{}, {}]".format, inner, inner),
        st.builds("{}[{}]".format, st.sampled_from(NAMES), inner),
        st.builds("({} if {} else {})".format, inner, inner, inner),
        st.builds("range({})".format, inner),
        st.builds("{}.items()".format, st.sampled_from(NAMES)),
    ),
    max_leaves=5,
)
bodies = st.recursive(
    st.builds("{{{{ {} }}}}".format, expressions) | st.just("text "),
    lambda inner: st.one_of(
        st.builds("{}{}".format, inner, inner),
        st.builds(
            "{{% for {} in {} %}}{}{{% else %}}{}{{% endfor %}}".format,
            st.sampled_from(["a", "x", "range"]),
            expressions,
            inner,
            inner,
        ),
        st.builds("{{% if {} %}}{}{{% endif %}}".format, expressions, inner),
        st.builds("{{% set {} = {} %}}{}".format, st.sampled_from(["a", "range", "b"]), expressions, inner),
        st.builds("{{% if {} %}}{{% set a = 1 %}}{{% endif %}}{}".format, expressions, inner),
        st.builds("{{% with b = {} %}}{}{{% endwith %}}".format, expressions, inner),
        st.builds("{{% set c %}}{}{{% endset %}}{}".format, inner, inner),
        st.builds("{{% filter replace('x', {}) %}}{}{{% endfilter %}}".format, expressions, inner),
    ),
    max_leaves=5,
)


class Spy(Mapping[str, Any]):
    """Names that remember which of them were asked for."""

    def __init__(self, data: Mapping[str, Any]) -> None:
        self._data = data
        self.asked: set[str] = set()

    def __getitem__(self, key: str) -> Any:
        self.asked.add(key)
        return self._data[key]

    def __iter__(self) -> Iterator[str]:
        raise AssertionError("names must be asked one by one")

    def __len__(self) -> int:
        raise AssertionError("names must be asked one by one")


def outcome(template: Any, names: Mapping[str, Any]) -> tuple[str, Any]:
    try:
        return "value", evaluate(template, names)
    except TemplateError as error:
        return "error", (type(error), error.message, error.line)


@settings(max_examples=examples(150), deadline=None)
@given(values)
def test_any_json_passes_through_a_whole_expression_unchanged(value: Any) -> None:
    for template, names in (
        ("{{ x }}", {"x": value}),
        ("{{ x.y[0] }}", {"x": {"y": [value]}}),
        ("{{ x or x }}", {"x": value}),
    ):
        result = evaluate(template, names)
        assert repr(result) == repr(value)


@settings(max_examples=examples(100), deadline=None)
@given(texts)
def test_data_is_never_rendered(value: str) -> None:
    names = {"x": value, "a": "rendered", "d": {"k": [value]}}
    assert evaluate("<{{ x }}>", names) == f"<{value}>"
    assert evaluate("{{ x }}", names) == value
    assert evaluate({"k": "{{ d }}"}, names) == {"k": {"k": [value]}}
    assert evaluate("{% for v in d.k %}{{ v }}{% endfor %}", names) == value
    assert truth("x == x", names)


@settings(max_examples=examples(250), deadline=None)
@given(bodies, data)
def test_a_template_always_ends_the_same_way_and_asks_only_for_names_it_uses(
    template: str, names: dict[str, Any]
) -> None:
    spy = Spy(names)
    first = outcome(template, spy)
    assert repr(first) == repr(outcome(template, names))
    assert spy.asked - {ABSENT} <= {chain[0] for chain in names_used(template)}
    if first[0] == "value":
        assert check(template) == []
    values_read(template, names)


@settings(max_examples=examples(150), deadline=None)
@given(expressions, data)
def test_a_guard_and_its_braced_twin_agree(source: str, names: dict[str, Any]) -> None:
    def verdict(template: str) -> Any:
        try:
            return truth(template, names)
        except TemplateError as error:
            return type(error)

    assert verdict(source) == verdict(f"{{{{ {source} }}}}")
    assert names_used(source, guard=True) == names_used(f"{{{{ {source} }}}}")


@settings(max_examples=examples(200), deadline=None)
@given(st.text(alphabet="{}%#abx.|()[]'\"+-*/~ 01\n\\_", max_size=60))
def test_no_text_makes_anything_but_a_value_or_a_template_error(source: str) -> None:
    outcome("{{" + source, {"a": [1], "b": {"x": "y"}})
    outcome(source, {})
    names_used(source, guard=True)
    assert isinstance(check(source, guard=True), list)


@pytest.mark.full("3 s: threads")
def test_threads_do_not_share_budgets() -> None:
    template = "{% for i in range(60000) %}{% endfor %}{{ n }}"
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(lambda n: evaluate(template, {"n": n}), range(16))) == [
            str(n) for n in range(16)
        ]
