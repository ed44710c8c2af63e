"""Exact numbers in templates: they keep their digits, and work beside integers and floats."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from noetl.errors import TemplateError, TemplateLimit
from noetl.expressions import evaluate, truth

LONG = Decimal("12345678901234567890.123456789012345678")
NAMES = {
    "long": LONG,
    "price": Decimal("1.25"),
    "tenth": Decimal("0.10"),
    "rate": 0.1,
    "n": 3,
    "rows": [{"x": Decimal("1.10")}, {"x": Decimal("2.20")}, {"x": Decimal("2.20")}],
}


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("price", Decimal("1.25")),
        ("long + 1", Decimal("12345678901234567891.123456789012345678")),
        ("long + rate", Decimal("12345678901234567890.223456789012345678")),
        ("rate + tenth", Decimal("0.20")),
        ("n * price", Decimal("3.75")),
        ("price / n", Decimal("0.4166666666666666666666666666666666667")),
        ("long / 1", LONG),
        ("10 / tenth", 100),
        ("price // 1", 1),
        ("price % 1", Decimal("0.25")),
        ("-long", LONG.copy_negate()),
        ("long | abs", LONG),
        ("price ** 2", Decimal("1.5625")),
        ("rows | sum(attribute='x')", Decimal("5.50")),
        ("rows | map(attribute='x') | max", Decimal("2.20")),
        ("rows | map(attribute='x') | unique | list", [Decimal("1.10"), Decimal("2.20")]),
        ("long | round(2)", Decimal("12345678901234567890.12")),
        ("price | round(1, 'ceil')", Decimal("1.3")),
        ("price | round(1, 'floor')", Decimal("1.2")),
        ("price | round", 1),
        ("price | int", 1),
        ("price | float", 1.25),
        ("price | string", "1.25"),
        ("tenth ~ ' EUR'", "0.10 EUR"),
        ("rows[:1] | tojson", '[{"x": 1.10}]'),
        ("price is number", True),
        ("price is integer", False),
        ("'{:.2f}'.format(long)", "12345678901234567890.12"),
    ],
)
def test_digits_are_kept(expression: str, value: Any) -> None:
    found = evaluate(f"{{{{ {expression} }}}}", NAMES)

    assert found == value
    assert type(found) is type(value)
    assert str(found) == str(value)


@pytest.mark.parametrize(
    "guard",
    [
        "tenth == 0.1",
        "0.1 == tenth",
        "tenth == rate",
        "tenth in [0.1]",
        "rate in [tenth]",
        "tenth < 0.2",
        "price > 1 and price < 2",
        "not tenth != 0.1",
        "10 > long / long",
    ],
)
def test_an_exact_number_is_compared_with_a_float_as_that_is_written(guard: str) -> None:
    assert truth(guard, NAMES)


def test_mixed_text_has_all_digits() -> None:
    assert evaluate("{{ long }} and {{ tenth }}", NAMES) == f"{LONG} and 0.10"


@pytest.mark.parametrize(
    ("expression", "why"),
    [
        ("price / 0", "division by zero"),
        ("price % 0", "division by zero"),
        ("price + 'x'", "'+' does not work between a number and a text"),
        ("10 ** 400 * price", "more digits than are kept"),
        ("price | round(1, 'up')", "common, ceil and floor"),
        ("(10 ** 400 * price) ** 999999999", "too large"),
    ],
)
def test_what_cannot_be_computed_is_said(expression: str, why: str) -> None:
    with pytest.raises((TemplateError, TemplateLimit)) as caught:
        evaluate(f"{{{{ {expression} }}}}", NAMES)

    assert why in str(caught.value)
