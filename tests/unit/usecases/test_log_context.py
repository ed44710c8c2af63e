"""A line of a service's log is about the command that its thread works on, and about no other
one."""

from __future__ import annotations

import pytest

from noetl.usecases.log_context import about_command, ids, set_claim, set_request
from noetl.usecases.ports import CommandRow

FIRST = CommandRow("7.s#1", "7", "s#1", "s", "pipeline", "-", "python", 1, attempt=2)


@pytest.fixture(autouse=True)
def no_request() -> None:
    """This thread may have answered one before, whose answer nobody closed."""
    set_request(None)


def test_a_claim_is_known_while_its_command_is_worked_on() -> None:
    with about_command("7.s#1"):
        assert ids() == {"command": "7.s#1"}
        set_claim(FIRST)
        assert ids() == {
            "command": "7.s#1",
            "execution": "7",
            "step": "s",
            "run": "s#1",
            "delivery": 2,
        }
    assert ids() == {}


def test_an_earlier_claim_says_nothing_of_the_next_command() -> None:
    set_claim(FIRST)
    assert ids() == {}, "nobody was handed it"
    with about_command("8.t#1"):
        assert ids() == {"command": "8.t#1"}


def test_a_command_within_another_one_gives_way_to_it_again() -> None:
    with about_command("7.s#1"):
        set_claim(FIRST)
        with about_command("8.t#1"):
            assert ids() == {"command": "8.t#1"}
        assert ids()["execution"] == "7"
