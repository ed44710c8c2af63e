"""JSON text: what Python's module writes and reads, and all digits of exact numbers."""

from __future__ import annotations

import json as python
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from noetl.errors import BadRequest
from noetl.facts import json
from noetl.facts.fingerprint import fingerprint
from noetl.store import codec

_EXACT = st.decimals(allow_nan=False, allow_infinity=False, places=3) | st.decimals(
    allow_nan=False, allow_infinity=False, min_value=-(10**30), max_value=10**30
).filter(lambda number: -400 < int(number.as_tuple().exponent) < 0)
_SCALARS = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
)


def _values(scalars: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.recursive(
        scalars, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4)
    )


def _shape(value: Any) -> Any:
    """`value` with its types and digits, in which 1, 1.0 and Decimal("1.00") differ."""
    match value:
        case dict():
            return {key: _shape(inner) for key, inner in value.items()}
        case list():
            return [_shape(inner) for inner in value]
        case _:
            return type(value).__name__, str(value)


@given(_values(_SCALARS | _EXACT))
def test_what_is_kept_comes_back_with_its_types_and_digits(value: Any) -> None:
    assert _shape(json.loads(json.dumps(value, typed=True))) == _shape(value)


@given(_values(_SCALARS))
def test_values_without_exact_numbers_are_written_as_they_always_were(value: Any) -> None:
    for options in ({}, {"ensure_ascii": False, "indent": 2}, {"sort_keys": True, "separators": (",", ":")}):
        assert json.dumps(value, **options) == python.dumps(value, **options)  # type: ignore[arg-type]
    assert json.dumps(value, typed=True) == python.dumps(value)
    assert _shape(json.loads(python.dumps(value))) == _shape(python.loads(python.dumps(value)))


@given(_values(st.integers() | _EXACT))
def test_others_read_the_digits_that_are_there(value: Any) -> None:
    for text in (json.dumps(value), json.dumps(value, indent=2)):
        assert _shape(python.loads(text, parse_float=Decimal)) == _shape(value)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (Decimal("1.10"), "1.10"),
        (Decimal("12345678901234567.25"), "12345678901234567.25"),
        (Decimal("1E-7"), "0.0000001"),
        (Decimal("1E+3"), "1000"),
        (Decimal("-0.00"), "-0.00"),
    ],
)
def test_an_exact_number_is_a_number_with_all_of_its_digits(value: Decimal, text: str) -> None:
    assert json.dumps([value]) == f"[{text}]"


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0.1", 0.1),
        ("1.10", 1.1),
        ("1e5", 100000.0),
        ("0.30000000000000004", 0.30000000000000004),
        ("12345678901234567.25", Decimal("12345678901234567.25")),
        ("0.1000000000000000000001", Decimal("0.1000000000000000000001")),
        ("1e999999", float("inf")),
        ("1e-999999", 0.0),
    ],
)
def test_a_number_of_others_is_a_float_where_that_is_the_same_number(text: str, value: object) -> None:
    found = json.loads_exactly(f"[{text}]")[0]

    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize("number", ["NaN", "Infinity", "1E+400", "1E-20000"])
def test_a_number_that_cannot_be_kept_is_refused(number: str) -> None:
    with pytest.raises(ValueError, match="no number that JSON can hold"):
        json.dumps({"n": Decimal(number)})
    with pytest.raises(BadRequest, match="no number that JSON can hold"):
        codec.dumps({"n": Decimal(number)})


def test_a_value_that_holds_itself_is_refused_with_and_without_exact_numbers() -> None:
    for inside in (1, Decimal("1.5")):
        ring: list[Any] = [inside]
        ring.append(ring)
        with pytest.raises(ValueError, match="Circular"):
            json.dumps(ring)


def test_the_log_keeps_exact_numbers_and_reads_what_it_always_held() -> None:
    value = {"amount": Decimal("1.25"), "rate": 1.25, "text": "E0 1.25E0"}

    assert _shape(codec.loads(codec.dumps(value))) == _shape(value)
    assert _shape(codec.loads('{"rate":1e-07,"n":12345678901234567890}')) == _shape(
        {"rate": 1e-07, "n": 12345678901234567890}
    )


def test_an_exact_number_is_told_apart_from_a_float_and_other_fingerprints_stay() -> None:
    assert fingerprint(Decimal("1.25")) != fingerprint(1.25)
    assert fingerprint({"b": 1.25, "a": ["é", None]}) == '{"a":["é",null],"b":1.25}'
