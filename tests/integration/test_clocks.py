"""What a process writes for others to compare does not depend on the clock of its machine."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from noetl import bootstrap
from noetl.config import Settings
from noetl.dispatch.null import NullDispatcher
from noetl.usecases.catalog import register
from noetl.usecases.runtime import Runtime
from noetl.usecases.start import start
from noetl.usecases.start_request import StartRequest
from noetl.usecases.turn.advance import advance
from noetl.usecases.work.leases import claim, measure_skew

pytestmark = pytest.mark.postgres

TEXT = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: clocks, path: clocks}
workflow:
  - step: start
    tool: {kind: http, url: http://x}
"""
YEARS = timedelta(days=365)
MINUTE = timedelta(minutes=1)


@pytest.fixture(params=[2001, 2199])
def rt(
    request: pytest.FixtureRequest, postgres_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Runtime]:
    """Of a process whose machine's clock stands in another century."""
    monkeypatch.setattr(bootstrap, "now", lambda: datetime(request.param, 1, 1, tzinfo=UTC))
    opened = bootstrap.runtime(Settings(home=tmp_path, database_url=postgres_url), NullDispatcher())
    yield opened
    bootstrap.close(opened)


def test_leases_dues_and_events_are_of_the_database_s_time(rt: Runtime) -> None:
    register(rt, TEXT)
    run = start(rt, StartRequest(path="clocks")).row.execution_id
    advance(rt)
    with rt.store.begin() as tx:
        (waiting,) = tx.commands.unsent(rt.clock(), 10)
        command = claim(rt, tx, "w", waiting.command_id)
        now = tx.now()
        events = tx.events.read(run)
    assert command is not None
    assert command.lease_until is not None
    assert now is not None
    assert abs(command.lease_until - now - timedelta(seconds=rt.limits.lease_s)) < MINUTE
    assert all(abs(event.recorded_at - now) < MINUTE for event in events)


def test_how_far_the_machine_s_clock_is_off_is_measured_all_the_same(rt: Runtime) -> None:
    assert rt.machine_clock is not None
    with rt.store.read() as tx:
        skew = measure_skew(tx, rt.machine_clock)
    assert skew is not None
    assert abs(skew) > YEARS.total_seconds()
