"""Requests that come together are answered once, and the last of them is followed by an answer."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from noetl.dispatch.debounce import Debouncer


class Timer:
    """A timer that the test lets run out."""

    made: list[Timer]
    daemon = False

    def __init__(self, seconds: float, call: Callable[[], None]) -> None:
        self.seconds, self.run_out = seconds, call

    def start(self) -> None:
        self.made.append(self)


@pytest.fixture
def timers(monkeypatch: pytest.MonkeyPatch) -> list[Timer]:
    Timer.made = []
    monkeypatch.setattr(threading, "Timer", Timer)
    return Timer.made


def test_requests_of_one_pause_become_one_call_at_its_end(timers: list[Timer]) -> None:
    answers: list[int] = []
    debouncer = Debouncer(lambda: answers.append(1), 0.5)
    for _ in range(100):
        debouncer.request()
    assert [(one.seconds, one.daemon) for one in timers] == [(0.5, True)]
    assert answers == []
    timers[0].run_out()
    assert answers == [1]


def test_a_request_that_comes_while_it_is_answered_is_followed_by_another_answer(
    timers: list[Timer],
) -> None:
    answers: list[int] = []

    def answer() -> None:
        answers.append(1)
        if len(answers) == 1:
            debouncer.request()

    debouncer = Debouncer(answer, 0.5)
    debouncer.request()
    timers[0].run_out()
    assert (len(timers), answers) == (2, [1])
    timers[1].run_out()
    assert (len(timers), answers) == (2, [1, 1])
