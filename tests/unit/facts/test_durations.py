"""Durations: every form the language knows, and a clear sentence for all others."""

from __future__ import annotations

import pytest

from noetl.facts.durations import compact, seconds


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        (0, 0.0),
        (3, 3.0),
        (0.25, 0.25),
        ("10", 10.0),
        ("0.5", 0.5),
        ("500ms", 0.5),
        ("10s", 10.0),
        ("5m", 300.0),
        ("2h", 7200.0),
        ("1d", 86_400.0),
        ("1w", 604_800.0),
        ("1h30m", 5400.0),
        (" 1.5 h ", 5400.0),
        ("PT5S", 5.0),
        ("PT1H30M", 5400.0),
        ("P1DT12H", 129_600.0),
        ("P2W", 1_209_600.0),
        ("PT0,5S", 0.5),
    ],
)
def test_a_duration_is_read_in_every_form(written: object, meant: float) -> None:
    assert seconds(written) == pytest.approx(meant)


@pytest.mark.parametrize(
    "written",
    ["", "soon", "5 parsecs", "10s later", "P", "PT", "P1D T", "P1Y", "P1M", "1e3", "ms", True, None, [], {}],
)
def test_anything_but_a_duration_is_refused_with_the_forms_that_are(written: object) -> None:
    with pytest.raises(ValueError, match=r"is not a duration; write a number of seconds, 500ms"):
        seconds(written)


@pytest.mark.parametrize(
    "written", [-1, -0.5, float("inf"), float("nan"), 10**400, "9" * 18, "999999999d", 1e300]
)
def test_durations_that_no_clock_can_add_are_refused(written: object) -> None:
    with pytest.raises(ValueError, match="between zero and ten years"):
        seconds(written)


def test_a_refusal_never_repeats_a_long_input() -> None:
    with pytest.raises(ValueError, match=r"\.\.\. is not a duration") as refused:
        seconds("x" * 10_000)
    assert len(str(refused.value)) < 200


@pytest.mark.parametrize(
    ("given", "text"), [(0, "0s"), (0.25, "0.25s"), (60, "1m"), (5400, "1h 30m"), (259_201.5, "3d 1.5s")]
)
def test_a_duration_is_told_as_it_may_be_written(given: float, text: str) -> None:
    assert compact(given) == text
    assert seconds(text) == given
