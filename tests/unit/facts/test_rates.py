"""Rates: what is one, and what is refused."""

from __future__ import annotations

import pytest

from noetl.facts.rates import Rate, parse_rate


@pytest.mark.parametrize(
    ("text", "limit", "per_s"),
    [
        ("100/minute", 100, 60),
        (" 10 / s ", 10, 1),
        ("5/30s", 5, 30),
        ("1/day", 1, 86_400),
        ("7/hour", 7, 3600),
        ("3/2m", 3, 120),
        ("3/m", 3, 60),
        ("9/second", 9, 1),
        ("1000000000/s", 1_000_000_000, 1),
    ],
)
def test_a_rate_is_so_many_in_such_a_time(text: str, limit: int, per_s: float) -> None:
    assert parse_rate(text) == Rate(limit, per_s, text.strip())


@pytest.mark.parametrize(
    "text", ["", "100", "/s", "100/", "a/s", "-1/s", "1.5/s", "٣/s", "1/fortnight", "1/-1s", "1/s/s", "1 s"]
)
def test_what_is_no_rate_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(ValueError, match="100/minute"):
        parse_rate(text)


@pytest.mark.parametrize("text", ["0/s", "1000000001/s", "99999999999999999999/s", "5/0s"])
def test_what_would_let_nothing_pass_or_everything_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="nothing pass"):
        parse_rate(text)
