"""How calls that run in this process are ended from outside."""

from __future__ import annotations

import pytest

from noetl.tools.kit.calls import StopSignal
from tests.waiting import until


@pytest.mark.parametrize("seconds", [3600.0, 0.0])
def test_a_call_that_forgets_an_interrupt_is_interrupted_until_it_ends(seconds: float) -> None:
    """Between two statements there is nothing that a driver could interrupt."""
    stop, barks = StopSignal(), list[str]()
    with stop.watch(seconds, lambda: barks.append("!")):
        if seconds:
            stop.cancel()
        until(lambda: len(barks) > 2, "further interrupts")
    assert (stop.cancelled, stop.late) == (bool(seconds), not seconds)
    before = len(barks)
    stop.cancel()
    assert len(barks) == before, "it has ended"
