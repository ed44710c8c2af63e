"""The bound of a timed test: kept, scaled on a slow machine, and failed by what is truly slow."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from tests.pace import MOST, within


def scripted(*instants: float) -> Callable[[], float]:
    """A clock that shows these one after another: the body's begin and end, then the
    measurement's."""
    return iter(instants).__next__


def test_a_body_within_its_bound_passes_without_a_measurement() -> None:
    with within(1.0, clock=scripted(0.0, 0.9)):
        pass


@pytest.mark.parametrize(
    ("took", "slower", "passes"),
    [
        (1.1, 1.0, False),
        (2.9, 3.0, True),
        (3.1, 3.0, False),
        (4.9, 50.0, True),
        (5.1, 50.0, False),
        (1.1, 0.5, False),
    ],
)
def test_a_missed_bound_is_scaled_by_how_slow_the_machine_is_now(
    took: float, slower: float, passes: bool
) -> None:
    clock = scripted(0.0, took, 0.0, slower * 0.09)
    if passes:
        with within(1.0, clock=clock):
            pass
    else:
        with (
            pytest.raises(AssertionError, match=f"took {took:.3g} s; 1 s are allowed"),
            within(1.0, clock=clock),
        ):
            pass


def test_a_body_that_is_too_slow_for_any_machine_fails() -> None:
    with pytest.raises(AssertionError, match="times slower"), within(0.01):
        time.sleep(0.01 * MOST * 1.5)


def test_an_error_of_the_body_is_not_hidden_by_its_slowness() -> None:
    with pytest.raises(ValueError, match="mine"), within(1.0, clock=scripted(0.0, 9.0)):
        raise ValueError("mine")
