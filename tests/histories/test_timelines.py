"""The timelines of everything that any version of NoETL has written."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import history
import pytest

from noetl.net.model import Net
from noetl.testing import Simulation
from tests.timelines import check_timeline


@cache
def _net(playbook: str) -> Net:
    sim = Simulation(playbook)
    with sim.rt.store.read() as tx:
        row = tx.playbooks.get(sim.path, 1)
        assert row is not None
        return sim.rt.plan(tx, row.digest).net


@pytest.mark.parametrize("path", history.files(), ids=lambda path: path.stem)
def test_a_history_has_a_timeline(path: Path) -> None:
    kept = history.load(path)
    events = [history.event(kept["execution_id"], one) for one in kept["events"]]
    for cut in (1, len(events) // 3, len(events) // 2):
        check_timeline(_net(kept["playbook"]), events, cut)
