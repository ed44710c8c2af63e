"""What this process remembers of logs: the next look reads what is new, and answers the same."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from noetl.errors import BadRequest, NotFound
from noetl.facts.events import Event
from noetl.store import migrate, open_store
from noetl.testing import Simulation
from noetl.usecases import inspect, moment
from noetl.usecases.ports import ExecutionRow, Store, Transaction
from noetl.usecases.timeline import timeline
from noetl.usecases.walks import STRIDE, Walk, Walks
from tests.timelines import fold
from tests.waiting import until

from .playbooks import lone, playbook

LOOP = playbook("""
    - step: start
      loop: {in: "{{ range(15) | list }}", iterator: n}
      tool: {kind: noop}
      next: behind
    - step: behind
      tool: {kind: noop}
""")
#: One that comes to more versions than a walk keeps states of, and than are read at once.
LONG = LOOP.replace("15", "280")


class Counting:
    """A store that notes the reads of events: the version behind which, and how many there were."""

    def __init__(self, inner: Store) -> None:
        self._inner = inner
        self.reads: list[tuple[int, int]] = []
        #: What is done as well before a read is over.
        self.meanwhile: Callable[[], object] = lambda: None

    def __getattr__(self, name: str) -> object:
        return getattr(self._inner, name)

    @contextmanager
    def read(self) -> Iterator[Transaction]:
        with self._inner.read() as tx:
            yield _Counted(tx, self)  # type: ignore[misc]


class _Counted:
    def __init__(self, tx: Transaction, store: Counting) -> None:
        self._tx, self._store = tx, store
        self.events = self

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tx, name)

    def read(self, execution_id: str, after: int = 0, limit: int | None = None, **more: Any) -> list[Event]:
        found = self._tx.events.read(execution_id, after, limit, **more)
        self._store.reads.append((after, len(found)))
        self._store.meanwhile()
        return found


class Opened(Walks):
    """Notes which walks were opened, each time."""

    def __init__(self) -> None:
        super().__init__()
        self.opened: list[str] = []

    def open(self, execution_id: str) -> Walk:
        found = super().open(execution_id)
        self.opened.append(execution_id)
        return found


@pytest.fixture
def sim() -> Simulation:
    return Simulation(LOOP, wrap=Counting)


def reads_of(sim: Simulation) -> list[tuple[int, int]]:
    assert isinstance(sim.rt.store, Counting)
    found = list(sim.rt.store.reads)
    sim.rt.store.reads.clear()
    return found


def row_of(sim: Simulation, run: str) -> ExecutionRow:
    return inspect.execution(sim.rt, run)


def test_the_next_look_reads_what_is_new(sim: Simulation) -> None:
    run = sim.start()
    sim.deliver()
    first = timeline(sim.rt, run)
    reads_of(sim)
    sim.settle()
    whole = sim.events(run)
    reads_of(sim)
    second = timeline(sim.rt, run)
    assert reads_of(sim)[0] == (first.version, min(500, len(whole) - first.version))
    assert second == fold(inspect.net_of(sim.rt, run), whole)
    reads_of(sim)
    assert timeline(sim.rt, run) == second
    assert reads_of(sim) == [(second.version, 0)]


def test_states_of_old_versions_are_answered_from_what_was_kept() -> None:
    sim = Simulation(LONG, wrap=Counting)
    run = sim.start()
    sim.settle()
    head = row_of(sim, run).head_version
    routed = next(one.version for one in sim.events(run) if one.fact.type == "next.evaluated")
    # In the middle of a turn the event that follows says what to call the moment.
    versions = [1, STRIDE - 1, STRIDE, STRIDE + 1, 2 * STRIDE + 7, routed, head]
    before = [inspect.state_view(sim.rt, run, version) for version in versions]
    timeline(sim.rt, run)
    reads_of(sim)
    assert [inspect.state_view(sim.rt, run, version) for version in versions] == before
    reads = reads_of(sim)
    assert [after for after, _ in reads[2:]] == [STRIDE, STRIDE, *[2 * STRIDE] * 2, head]
    assert all(count <= STRIDE + 1 for _, count in reads[2:])
    with pytest.raises(BadRequest, match=f"has versions 0 to {head}, not {head + 1}"):
        inspect.state_view(sim.rt, run, head + 1)


def test_what_is_true_now_goes_on_from_where_the_walk_has_come_to(sim: Simulation) -> None:
    run = sim.start()
    sim.settle()
    told = inspect.report(sim.rt, run)
    timeline(sim.rt, run)
    reads_of(sim)
    assert inspect.report(sim.rt, run) == told
    assert inspect.state_view(sim.rt, run)["version"] == told.events
    assert all(after == told.events or count <= 1 for after, count in reads_of(sim))


def test_another_execution_under_the_same_id_is_looked_at_anew(sim: Simulation) -> None:
    run = sim.start()
    sim.settle()
    timeline(sim.rt, run)
    walk, row = sim.rt.walks.get(run), row_of(sim, run)
    assert walk is not None
    assert walk.fits(row)
    assert walk.find_state(row, row.head_version) is not None
    later = row.created_at + timedelta(seconds=1)
    for other in (replace(row, imported_at=later), replace(row, created_at=later), replace(row, digest="x")):
        assert not walk.fits(other)
        assert walk.find_state(other, row.head_version) is None
    assert not walk.fits(replace(row, head_version=7)), "it is shorter"


def test_what_was_seen_of_another_database_does_not_count(sim: Simulation) -> None:
    run = sim.start()
    sim.settle()
    timeline(sim.rt, run)
    other = Simulation(lone("tool: {kind: noop}"))
    assert other.start() == run
    other.settle()
    found = timeline(replace(other.rt, walks=sim.rt.walks), run)
    assert found == fold(inspect.net_of(other.rt, run), other.events(run))


def test_of_an_unknown_execution_nothing_is_remembered(sim: Simulation) -> None:
    with pytest.raises(NotFound):
        timeline(sim.rt, "12")
    assert sim.rt.walks.get("12") is None


def test_a_walk_that_fails_begins_anew(sim: Simulation, monkeypatch: pytest.MonkeyPatch) -> None:
    run = sim.start()
    sim.deliver()
    timeline(sim.rt, run)
    sim.settle()
    read = moment.find

    def fail(tx: Transaction, execution_id: str) -> ExecutionRow:
        raise RuntimeError("gone")

    with monkeypatch.context() as patched:
        patched.setattr(moment, "find", fail)
        with pytest.raises(RuntimeError, match="gone"):
            timeline(sim.rt, run)
    assert moment.find is read
    assert sim.rt.walks.get(run) is None
    assert timeline(sim.rt, run) == fold(inspect.net_of(sim.rt, run), sim.events(run))


def test_those_who_look_at_once_fold_once(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'noetl.db'}"
    migrate.upgrade(url)
    sim = Simulation(LOOP, store=open_store(url), wrap=Counting)
    run = sim.start()
    sim.settle()
    reads_of(sim)
    assert isinstance(sim.rt.store, Counting)
    walks = Opened()
    # The first one reads until the others have come to the same walk.
    sim.rt.store.meanwhile = lambda: until(lambda: len(walks.opened) >= 4, "all to open the walk")
    rt = replace(sim.rt, walks=walks)
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: timeline(rt, run), range(4)))
    assert all(one == found[0] for one in found)
    assert [after for after, _ in reads_of(sim)].count(0) == 1
    sim.rt.store.close()


def test_few_executions_and_few_events_are_remembered(sim: Simulation) -> None:
    runs = [sim.start() for _ in range(4)]
    sim.settle()
    long = row_of(sim, runs[0]).head_version
    for walks, kept in ((Walks(most=2), 2), (Walks(most_events=3 * long), 3), (Walks(most_events=1), 1)):
        rt = replace(sim.rt, walks=walks)
        for run in runs:
            timeline(rt, run)
        assert [walks.get(run) is not None for run in runs] == [False] * (4 - kept) + [True] * kept


def test_what_is_used_stays() -> None:
    walks = Walks(most=2)
    for run in ("a", "b", "a", "c"):
        walks.open(run)
        walks.trim()
    assert [walks.get(run) is not None for run in "abc"] == [True, False, True]
