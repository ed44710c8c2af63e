"""A template that is nothing but one expression is read without its braces, and means the same."""

from __future__ import annotations

import pytest

from noetl.expressions import check
from noetl.expressions.grammar import parse


@pytest.mark.parametrize(
    "source",
    [
        "{{ a }}",
        "{{a.b[0]['c d'] | default(1, true)}}",
        "{{ 1, 2 }}",
        "{{ a if b else c }}",
        "{{\n  a ~\n  '}' ~ b\n}}",
        "{{ x is defined and not y }}",
        "{{ f(*args, k=2).g }}",
    ],
)
def test_a_lone_expression_is_what_it_is_beside_a_blank(source: str) -> None:
    alone, beside = parse(source), parse(f"{source} ")

    assert (alone.body, len(beside.body)) == ((), 1)
    assert alone.whole is not None
    assert beside.whole is not None
    assert alone.whole == beside.whole
    assert alone.whole.lineno == beside.whole.lineno


@pytest.mark.parametrize(
    "source", ["{{ a b }}", "{{ }}", "{{}}", "{{ (a }}", "{{ 'a }}", "{{- a b -}}", "{{ a | }}"]
)
def test_its_errors_are_those_of_the_text(source: str) -> None:
    assert check(source)
    assert [fault.message for fault in check(source)] == [fault.message for fault in check(f"{source} ")]
