"""What a mistyped name was meant to be."""

from __future__ import annotations

import pytest

from noetl.facts.nearest import LONGEST, NEARLY_THE_SAME, did_you_mean, nearest

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


@pytest.mark.parametrize(
    ("name", "known", "meant"),
    [
        ("cmd", ["cwd", "commands", "command"], "command"),
        ("msg", ["message", "mode"], "message"),
        ("arg", ["arguments", "args"], "args"),
        ("dmc", ["command"], None),
        ("cm", ["command"], None),
    ],
)
def test_an_abbreviation_is_meant_for_what_it_is_short_for(
    name: str, known: list[str], meant: str | None
) -> None:
    assert nearest(name, known) == meant


def test_an_abbreviation_alone_is_not_nearly_the_same() -> None:
    assert nearest("cmd", ["command"], NEARLY_THE_SAME) is None


def test_a_name_is_never_answered_with_itself() -> None:
    assert nearest("shop_api", ["shop_api"]) is None
    assert nearest("shop_api", ["shop_api", "shop_app"]) == "shop_app"
