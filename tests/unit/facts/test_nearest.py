"""What a mistyped name was meant to be."""

from __future__ import annotations

import pytest

from noetl.facts.nearest import LONGEST, did_you_mean, nearest

TOOLS = ("http", "python", "postgres")


@pytest.mark.parametrize("name", ["pyhton", "PYTHON", "pythn", "python3"])
def test_a_slip_is_understood(name: str) -> None:
    assert nearest(name, TOOLS) == "python"


def test_the_name_is_given_as_it_is_known() -> None:
    assert nearest("noetl_brokerurl", ["NOETL_BROKER_URL", "NOETL_HOME"]) == "NOETL_BROKER_URL"


@pytest.mark.parametrize("name", ["", "quantum", "x" * LONGEST])
def test_nothing_is_guessed_where_nothing_is_near(name: str) -> None:
    assert (nearest(name, TOOLS), did_you_mean(name, TOOLS)) == (None, "")


def test_a_name_beyond_all_measure_is_not_compared() -> None:
    assert nearest("x" * (LONGEST + 1), ["x" * LONGEST]) is None


def test_the_hint_ends_a_message() -> None:
    assert (
        f"There is no 'pyhton'.{did_you_mean('pyhton', TOOLS)}"
        == "There is no 'pyhton'. Did you mean 'python'?"
    )
