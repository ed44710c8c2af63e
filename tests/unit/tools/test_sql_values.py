"""Whatever a database returns becomes JSON."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from uuid import UUID

import pytest

from noetl.facts import json
from noetl.facts.values import json_safe, unique_names
from noetl.tools.sql.calls import StatementResult, result_of


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (Decimal("10.00"), Decimal("10.00")),
        (Decimal("1.5"), Decimal("1.5")),
        (Decimal("12345678901234567.25"), Decimal("12345678901234567.25")),
        (Decimal("10"), 10),
        (Decimal("12345678901234567890"), 12345678901234567890),
        (True, True),
        (datetime(2026, 1, 2, 3, 4, 5, 600, tzinfo=UTC), "2026-01-02T03:04:05.000600+00:00"),
        (date(2026, 1, 2), "2026-01-02"),
        (time(3, 4), "03:04:00"),
        (timedelta(days=3, hours=4, seconds=6, milliseconds=500), "P3DT4H6.5S"),
        (timedelta(0), "PT0S"),
        (-timedelta(minutes=90), "-PT1H30M"),
        (UUID(int=1), "00000000-0000-0000-0000-000000000001"),
        (b"\x00\xff", "AP8="),
        (memoryview(b"hi"), "aGk="),
        ([Decimal(1), (b"a",)], [1, ["YQ=="]]),
        ({1: date(2026, 1, 1), "k": None}, {"1": "2026-01-01", "k": None}),
        (object, "<class 'object'>"),
    ],
)
def test_a_value_becomes_json(value: object, expected: object) -> None:
    safe = json_safe(value)

    assert safe == expected
    assert type(safe) is type(expected)
    json.dumps(safe, allow_nan=False)


def test_a_number_that_json_does_not_know_is_null_and_noted() -> None:
    notes: set[str] = set()

    assert json_safe([float("nan"), float("inf"), Decimal("NaN"), 1.0], notes) == [None, None, None, 1.0]
    assert notes == {"NaN and infinite numbers are null"}


def test_a_number_with_thousands_of_digits_stays_text() -> None:
    assert json_safe(Decimal("9" * 5000)) == "9" * 5000


def test_columns_of_one_name_are_told_apart() -> None:
    assert unique_names(["a", "a", "a_2", "a", "b"]) == ["a", "a_3", "a_2", "a_4", "b"]


def test_the_top_level_is_the_last_statement() -> None:
    first = StatementResult(["a"], [{"a": 1}], 1, "SELECT 1", ["BIGINT"])
    last = StatementResult([], [], 3, "UPDATE 3")

    result = result_of([first, last])

    assert result["rows"] == []
    assert result["row_count"] == 3
    assert result["columns"] == []
    assert result["types"] == []
    assert result["command_0"] == {
        "rows": [{"a": 1}],
        "row_count": 1,
        "columns": ["a"],
        "types": ["BIGINT"],
        "status": "SELECT 1",
    }
    assert result["command_1"]["status"] == "UPDATE 3"
