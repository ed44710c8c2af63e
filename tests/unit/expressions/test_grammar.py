"""A template that is nothing but one expression is read without its braces, and means the same."""

from __future__ import annotations

import inspect
import sys

import pytest

from noetl.expressions import check
from noetl.expressions.grammar import Parsed, parse, parse_once
from noetl.expressions.limits import Refusal


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


def test_what_was_too_deep_for_the_stack_of_one_caller_is_read_for_the_next() -> None:
    source = "{{ " + "(" * 40 + "too_deep_once" + ")" * 40 + " }}"

    def below(frames: int) -> Parsed:
        return below(frames - 1) if frames else parse_once(source, False)

    def refused(room: int) -> bool:
        try:
            below(sys.getrecursionlimit() - len(inspect.stack(0)) - room)
        except RecursionError:
            return False
        except Refusal:
            return True
        return False

    assert any(refused(room) for room in range(10, 200, 5))
    assert parse_once(source, False).whole is not None
