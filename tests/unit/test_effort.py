"""Work that is counted: alike each time, and larger for more."""

from __future__ import annotations

from tests import effort


def test_calls_are_counted_those_of_c_among_them() -> None:
    def work() -> None:
        for number in range(10):
            abs(number)

    assert effort.calls(work) == effort.calls(work)
    assert 10 <= effort.calls(work) < 20


def test_lines_are_counted_where_nothing_is_called() -> None:
    def work(size: int) -> None:
        total = 0
        for number in range(size):
            total += number

    assert effort.lines(lambda: work(1000)) > 1.9 * effort.lines(lambda: work(500))
    assert effort.lines(lambda: work(500)) == effort.lines(lambda: work(500))
