"""Every answer that shows several facts about an execution shows one moment of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

import pytest

from noetl.facts.events import Processed
from noetl.testing import Simulation
from noetl.usecases import history, inspect
from noetl.usecases.ports import ENDED, Store, Transaction
from noetl.usecases.runtime import Runtime

from .playbooks import playbook

BOOK = playbook("""
    - step: first
      tool: {kind: noop, result: 1}
      set: {ctx.x: "{{ result }}"}
      next: second
    - step: second
      tool: {kind: noop, result: 7}
""")


class Hurried:
    """A store behind whose every read the world goes on, by one message."""

    def __init__(self, inner: Store) -> None:
        self._inner = inner
        self.goes_on: Callable[[], None] = lambda: None
        self.reads = 0

    def __getattr__(self, name: str) -> object:
        return getattr(self._inner, name)

    def begin(self) -> AbstractContextManager[Transaction]:
        return self._inner.begin()

    @contextmanager
    def read(self) -> Iterator[Transaction]:
        self.reads += 1
        with self._inner.read() as tx:
            yield tx
        goes_on, self.goes_on = self.goes_on, lambda: None
        goes_on()
        self.goes_on = goes_on


def _report(rt: Runtime, run: str) -> None:
    one = inspect.report(rt, run)
    ended = one.row.status in ENDED
    assert (one.result if ended else None) == (7 if ended else None)
    assert one.events == one.row.head_version
    assert (one.steps.get("second", {}).get("status") == "done") or not ended
    assert ("x" in one.ctx) or not ended


def _result(rt: Runtime, run: str) -> None:
    one = inspect.result(rt, run)
    assert one.value == (7 if one.row.status in ENDED else None)


def _state(rt: Runtime, run: str) -> None:
    one = inspect.state_view(rt, run)
    ended = one["status"] in ENDED
    assert (one["steps"].get("second", {}).get("result") == 7) or not ended
    assert (one["marking"] == {"tokens": [], "running": []}) or not ended
    # What the same version is called later is what it was called then, but for the moment before a
    # turn.
    later = inspect.state_view(rt, run, one["version"])
    assert (later["ctx"], later["steps"]) == (one["ctx"], one["steps"])


def _news(rt: Runtime, run: str) -> None:
    one = inspect.news(rt, run, ask_idle=True)
    assert [event.version for event in one.events] == list(range(1, one.row.head_version + 1))
    ended = one.row.status in ENDED
    assert (one.events[-1].fact.type == Processed.type) is ended
    assert one.idle is ended


def _explanation(rt: Runtime, run: str) -> None:
    assert isinstance(rt.store, Hurried)
    reads = rt.store.reads
    one = history.explain(rt, run)
    assert rt.store.reads == reads + 1
    ended = one.status in ENDED
    (last,) = inspect.events(rt, run, after=one.version - 1, limit=1)
    assert (last.fact.type == Processed.type) is ended
    assert (one.steps[1].standing == "done") or not ended


def _comparison(rt: Runtime, run: str) -> None:
    assert isinstance(rt.store, Hurried)
    reads = rt.store.reads
    one = history.compare(rt, run, run)
    assert rt.store.reads == reads + 1
    assert (one.a, one.same) == (one.b, True)


WAITING = playbook("""
    - step: first
      tool: {kind: wait, signal: go}
""")


def test_a_version_has_one_word_in_all_answers_also_before_a_turn_has_seen_it() -> None:
    sim = Simulation(WAITING)
    run = sim.start()
    suspended = 0
    while sim.mailbox.messages:
        sim.deliver()
        report = inspect.report(sim.rt, run)
        head = report.row.head_version
        suspended += sim.types(run)[-1] == "step.suspended"
        words = {
            report.row.status,
            inspect.state_view(sim.rt, run)["status"],
            inspect.state_view(sim.rt, run, head)["status"],
            history.explain(sim.rt, run).status,
            history.explain(sim.rt, run, version=head).status,
        }
        assert len(words) == 1
    assert suspended


@pytest.mark.parametrize("look", [_report, _result, _state, _news, _explanation, _comparison])
def test_an_answer_is_of_one_version_whatever_is_committed_meanwhile(
    look: Callable[[Runtime, str], None],
) -> None:
    sim = Simulation(BOOK, wrap=Hurried)
    run = sim.start()
    store = sim.rt.store
    assert isinstance(store, Hurried)

    def goes_on() -> None:
        if sim.mailbox.messages:
            sim.deliver()

    looks = 0
    while sim.mailbox.messages:
        store.goes_on = goes_on
        look(sim.rt, run)
        looks += 1
    store.goes_on = lambda: None
    look(sim.rt, run)
    assert inspect.execution(sim.rt, run).status == "completed"
    assert looks > 1
