"""What every store promises where people answer at once: one event for each answer that counts, and
one that decides."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from noetl.errors import Conflict
from noetl.facts.approvals import Verdict
from noetl.store import open_store
from noetl.testing import Simulation
from noetl.usecases.access import Grant, Principal
from noetl.usecases.approval_requests import ApprovalRequest
from noetl.usecases.approvals import answer
from noetl.usecases.open_approvals import open_in
from noetl.usecases.ports import ExecutionRow, Store
from noetl.usecases.ports.conditions import Matching, OneOf
from noetl.usecases.turn.advance import advance
from tests.waiting import GUARD_S

ASKS = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: test, path: tests/test}
workload: {count: 1}
workflow:
  - step: start
    tool: {kind: wait, approval: {count: "{{ workload.count }}"}}
"""
PEOPLE = 6
NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)


@pytest.fixture
def sims(store_url: str) -> Iterator[list[Simulation]]:
    """As many processes as there are people."""
    if store_url == "memory://":
        store = open_store(store_url)
        yield [Simulation(ASKS, store=store) for _ in range(PEOPLE)]
        store.close()
        return
    made = [Simulation(ASKS, store=open_store(store_url)) for _ in range(PEOPLE)]
    yield made
    for sim in made:
        sim.rt.store.close()


def at_once(sims: list[Simulation], run: str, answers: list[tuple[str, Verdict]]) -> list[str]:
    """What became of each: `given`, `existing`, or `refused`."""
    gate = threading.Barrier(len(answers))

    def say(sim: Simulation, name: str, verdict: Verdict) -> str:
        gate.wait(GUARD_S)
        try:
            who = Principal(name, (Grant("approve"),))
            given = answer(sim.rt, who, run, ApprovalRequest(verdict))
        except Conflict:
            return "refused"
        return "existing" if given.existing else "given"

    with ThreadPoolExecutor(len(answers)) as pool:
        return list(pool.map(say, sims, *zip(*answers, strict=True)))


def go_on(sim: Simulation) -> None:
    """Whoever answered has told another process."""
    advance(sim.rt)
    sim.settle()


def begin(sims: list[Simulation], count: int) -> str:
    run = sims[0].start({"count": count})
    sims[0].settle()
    return run


def test_of_many_that_answer_at_once_one_decides(sims: list[Simulation]) -> None:
    for _ in range(3):
        run = begin(sims, 1)
        verdicts: list[Verdict] = ["approve", "reject"] * (PEOPLE // 2)
        found = at_once(sims, run, [(f"p{n}", verdict) for n, verdict in enumerate(verdicts)])
        assert sorted(found) == ["given"] + ["refused"] * (PEOPLE - 1)
        go_on(sims[0])
        winner = verdicts[found.index("given")]
        assert sims[0].report(run).row.status == ("completed" if winner == "approve" else "failed")
        assert sims[0].types(run).count("approval.answered") == 1


def test_an_answer_that_is_sent_many_times_at_once_is_one_event(sims: list[Simulation]) -> None:
    run = begin(sims, 2)
    found = at_once(sims, run, [("p", "approve")] * PEOPLE)
    assert sorted(found) == ["existing"] * (PEOPLE - 1) + ["given"]
    assert sims[0].types(run).count("approval.answered") == 1
    assert sims[0].report(run).row.status == "waiting"


def test_as_many_as_are_needed_count_and_nobody_after_them(sims: list[Simulation]) -> None:
    run = begin(sims, 3)
    found = at_once(sims, run, [(f"p{n}", "approve") for n in range(PEOPLE)])
    assert sorted(found) == ["given"] * 3 + ["refused"] * (PEOPLE - 3)
    go_on(sims[0])
    assert len(sims[0].report(run).result["by"]) == 3


def test_how_many_are_open_is_in_the_row(sims: list[Simulation]) -> None:
    run = begin(sims, 2)
    with sims[0].rt.store.read() as tx:
        found = tx.executions.get(run)
    assert found is not None
    assert found.approvals == 1
    (one,) = open_in(sims[0].rt, Principal("p", (Grant("read"),)), run)
    assert one.refusal == "p has no scope `approve` for playbook 'tests/test'."


def test_executions_with_open_approvals_are_found_the_oldest_first(store: Store) -> None:
    rows = [
        ExecutionRow(str(n), "a" if n % 2 else "b/c", 1, "d", "waiting", 1, 1, NOW, NOW) for n in range(1, 13)
    ]
    with store.begin() as tx:
        for row in rows:
            tx.executions.create(replace(row, approvals=int(row.execution_id) % 3))
    with store.read() as tx:
        find = tx.executions.asking

        def ids(found: list[ExecutionRow]) -> list[int]:
            return [int(one.execution_id) for one in found]

        assert ids(find(None, None, 100)) == [1, 2, 4, 5, 7, 8, 10, 11]
        assert ids(find(None, "4", 2)) == [4, 5]
        assert ids(find(OneOf("path", ("a",)), None, 100)) == [1, 5, 7, 11]
        assert ids(find(Matching("path", "^b/.*$"), "5", 1)) == [8]
    with store.begin() as tx:
        values = {"decided_version": 1, "status": "waiting", "next_wake_at": None, "halt": "", "now": NOW}
        tx.executions.save_turn("4", **values, approvals=0)
        tx.executions.save_turn("5", **values)
    with store.read() as tx:
        assert ids(tx.executions.asking(None, "3", 2)) == [5, 7], "what says nothing leaves the number"
