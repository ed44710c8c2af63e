"""What every store promises of business keys, and what two starts with one key come to."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import pytest

from noetl.errors import KeyTaken, NoetlError
from noetl.store import open_store
from noetl.testing import Simulation
from noetl.usecases import catalog, control, inspect
from noetl.usecases.ports import NamedKey, Store
from noetl.usecases.start import Answer, StartedExecution, StartRequest, start, start_all
from noetl.usecases.turn.advance import advance

from .given import create, execution

T = TypeVar("T")

A, B = NamedKey("a", "k"), NamedKey("b", "k")


# --- the port -------------------------------------------------------------------------------------


def test_a_key_belongs_to_who_claimed_it_first(store: Store) -> None:
    with store.begin() as tx:
        assert tx.business_keys.claim({}) == {}
        assert tx.business_keys.claim({A: "100", B: "101"}) == {A: "100", B: "101"}
    with store.begin() as tx:
        assert tx.business_keys.claim({A: "200", NamedKey("a", "K"): "201"}) == {
            A: "100",
            NamedKey("a", "K"): "201",
        }
    with store.read() as tx:
        assert (tx.business_keys.get(A), tx.business_keys.get(NamedKey("c", "k"))) == ("100", None)
        assert tx.business_keys.find(["k", "none", "k"]) == {A: "100", B: "101"}
        assert tx.business_keys.find([]) == {}


def test_a_key_is_taken_over_from_the_one_that_has_it(store: Store) -> None:
    with store.begin() as tx:
        tx.business_keys.claim({A: "100", B: "100"})
        assert not tx.business_keys.take_over(A, "99", "101")
        assert not tx.business_keys.take_over(NamedKey("a", "other"), "100", "101")
        assert tx.business_keys.take_over(A, "100", "101")
        assert (tx.business_keys.get(A), tx.business_keys.get(B)) == ("101", "100")


@pytest.mark.parametrize("key", ["Größe ✓", "a%2F'b\"\\", "x" * 200, "%", " "])
def test_keys_come_back_as_they_are(store: Store, key: str) -> None:
    name = NamedKey("päth/x", key)
    with store.begin() as tx:
        tx.business_keys.claim({name: str(2**63 - 1)})
    with store.read() as tx:
        assert tx.business_keys.find([key]) == {name: str(2**63 - 1)}


def test_a_rollback_gives_keys_back(store: Store) -> None:
    with store.begin() as tx:
        tx.business_keys.claim({A: "100"})
    with pytest.raises(RuntimeError, match="boom"), store.begin() as tx:  # noqa: PT012
        tx.business_keys.claim({B: "101"})
        tx.business_keys.take_over(A, "100", "101")
        raise RuntimeError("boom")
    with store.read() as tx:
        assert tx.business_keys.find(["k"]) == {A: "100"}


def test_a_transaction_for_reads_gives_no_keys(store: Store) -> None:
    with pytest.raises(NoetlError, match="for reads"), store.read() as tx:
        tx.business_keys.claim({A: "100"})
    with pytest.raises(NoetlError, match="for reads"), store.read() as tx:
        tx.business_keys.take_over(A, "100", "101")


def test_executions_are_found_by_their_key(store: Store) -> None:
    create(store, execution("100", key="k"), execution("101", path="b", key="k"), execution("102"))
    with store.read() as tx:
        assert [row.execution_id for row in tx.executions.find(key="k")] == ["101", "100"]
        assert [row.key for row in tx.executions.find(key="k", path="b")] == ["k"]
        assert [row.key for row in tx.executions.find()] == [None, "k", "k"]


# --- two starts at once ---------------------------------------------------------------------------

GATED = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: test, path: tests/test}
workflow:
  - step: gate
    spec: {policy: {admit: {rules: [{when: "{{ ctx.go }}", then: {allow: true}}, {else: {then: {allow: false}}}]}}}
    tool: {kind: noop}
"""
AT_ONCE = 6


@pytest.fixture(params=["sqlite_url", pytest.param("postgres_url", marks=pytest.mark.postgres)])
def sim(request: pytest.FixtureRequest) -> Iterator[Simulation]:
    """An engine over a database that several threads may write to."""
    opened = open_store(request.getfixturevalue(request.param))
    yield Simulation(GATED, store=opened)
    opened.close()


def _together(work: Callable[[int], T]) -> list[T]:
    gate = threading.Barrier(AT_ONCE)

    def run(number: int) -> T:
        gate.wait()
        return work(number)

    with ThreadPoolExecutor(AT_ONCE) as pool:
        return list(pool.map(run, range(AT_ONCE)))


def _start(sim: Simulation, policy: str) -> list[Answer]:
    request = StartRequest(sim.path, key="k", on_conflict=policy)  # type: ignore[arg-type]
    return [answer for answers in _together(lambda _: start_all(sim.rt, [request])) for answer in answers]


def _started(answers: list[Answer]) -> list[StartedExecution]:
    return [one for one in answers if isinstance(one, StartedExecution)]


@pytest.mark.parametrize("before", ["nothing", "ended", "open"])
def test_of_starts_at_once_one_wins_and_the_others_are_refused_with_its_id(
    sim: Simulation, before: str
) -> None:
    open_one = _before(sim, before)
    answers = _start(sim, "reject")
    winners = [one.execution_id for one in _started(answers)]
    assert len(winners) == (0 if before == "open" else 1)
    refused = [one for one in answers if isinstance(one, KeyTaken)]
    assert len(winners) + len(refused) == AT_ONCE
    assert {one.execution_id for one in refused} == {*winners, *([open_one] if before == "open" else [])}


@pytest.mark.parametrize("before", ["nothing", "ended"])
def test_starts_at_once_that_return_the_open_one_are_answered_with_one(sim: Simulation, before: str) -> None:
    _before(sim, before)
    answers = _started(_start(sim, "return"))
    assert len(answers) == AT_ONCE
    assert len({one.execution_id for one in answers}) == 1
    assert sum(not one.existing for one in answers) == 1


@pytest.mark.parametrize("before", ["nothing", "ended", "open"])
def test_of_starts_at_once_that_cancel_the_other_one_stays(sim: Simulation, before: str) -> None:
    first = _before(sim, before)
    answers = _started(_start(sim, "cancel_other"))
    assert len({one.execution_id for one in answers}) == AT_ONCE
    sim.settle()
    left = [row for row in inspect.executions(sim.rt, key="k") if row.status == "waiting"]
    assert len(left) == 1
    assert left[0].execution_id != first
    cancelled = inspect.executions(sim.rt, status="cancelled")
    assert len(cancelled) == AT_ONCE - 1 + (before == "open")
    with sim.rt.store.read() as tx:
        assert tx.business_keys.get(NamedKey(sim.path, "k")) == left[0].execution_id


def _before(sim: Simulation, what: str) -> str:
    """Whatever has the key before the starts: its id."""
    if what == "nothing":
        return ""
    (first,) = _started(start_all(sim.rt, [StartRequest(sim.path, key="k")]))
    sim.settle()
    if what == "ended":
        control.patch_ctx(sim.rt, first.execution_id, {"go": True})
        sim.settle()
    return first.execution_id


def test_batches_with_the_same_keys_in_other_orders_do_not_stop_one_another(sim: Simulation) -> None:
    keys = [f"k{n}" for n in range(20)]

    def ask(number: int) -> list[Answer]:
        ordered = keys if number % 2 else keys[::-1]
        return start_all(
            sim.rt, [StartRequest(sim.path, key=key, on_conflict="cancel_other") for key in ordered]
        )

    answers = [answer for part in _together(ask) for answer in part]
    assert len(_started(answers)) == AT_ONCE * len(keys)
    sim.settle()
    left = [row.key for row in inspect.executions(sim.rt, status="waiting", limit=1000)]
    assert sorted(map(str, left)) == sorted(keys)


CALLER = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: caller, path: tests/caller}
workflow:
  - step: call
    tool: {kind: playbook, path: tests/keyed}
"""
KEYED = GATED.replace("tests/test", "tests/keyed").replace("workflow:", "key: one\nworkflow:")


@pytest.mark.parametrize("policy", ["reject", "cancel_other"])
def test_starts_and_calls_at_once_leave_one_open(sim: Simulation, policy: str) -> None:
    keyed = KEYED.replace("key: one", f"key: {{value: one, on_conflict: {policy}}}")
    for text in (CALLER, keyed):
        catalog.register(sim.rt, text)
    callers = [start(sim.rt, StartRequest("tests/caller")).execution_id for _ in range(AT_ONCE)]
    advance(sim.rt)
    # Each worker leaves its call to the scheduler, which hears of all of them at once.
    while work := [at for at, message in enumerate(sim.mailbox.messages) if message.command is not None]:
        sim.deliver(work[0])

    def act(number: int) -> list[Answer]:
        if number % 2:
            return start_all(sim.rt, [StartRequest("tests/keyed")])
        advance(sim.rt)
        return []

    answers = [answer for part in _together(act) for answer in part]
    sim.settle()
    open_ones = [row for row in inspect.executions(sim.rt, path="tests/keyed") if row.status == "waiting"]
    assert len(open_ones) == 1
    assert all(isinstance(one, StartedExecution | KeyTaken) for one in answers)
    ended = [inspect.execution(sim.rt, one).status for one in callers]
    assert ended.count("failed") >= len(callers) - 1
