"""The audit: what somebody outside asked for, and nothing else."""

from __future__ import annotations

import pytest

from noetl.facts.callers import Caller
from noetl.testing import Simulation
from noetl.usecases import audit, cache, catalog, control, fork
from noetl.usecases.fork import ForkRequest
from noetl.usecases.ports import AuditFilter
from noetl.usecases.runtime import Runtime
from noetl.usecases.start import StartRequest, start

BODY = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: x, path: x}
workflow:
  - step: start
    spec: {policy: {admit: {rules: [{when: "{{ ctx.go }}", then: {allow: true}}, {else: {then: {allow: false}}}]}}}
"""


@pytest.fixture
def sim() -> Simulation:
    return Simulation(BODY)


@pytest.fixture
def rt(sim: Simulation) -> Runtime:
    return sim.rt.acting_for(Caller("ada", "r-1"))


def told(rt: Runtime) -> list[tuple[str, str]]:
    return [(one.action, one.subject) for one in reversed(audit.entries(rt, AuditFilter()))]


def test_what_nobody_outside_asked_for_is_not_told(sim: Simulation) -> None:
    execution_id = sim.start()
    sim.settle()
    control.cancel(sim.rt, execution_id)
    catalog.register(sim.rt, BODY.replace("path: x", "path: y"))
    cache.clear(sim.rt, everything=True)
    assert told(sim.rt) == []


def test_what_somebody_asked_for_is_told_once(sim: Simulation, rt: Runtime) -> None:
    execution_id = start(rt, StartRequest("x")).execution_id
    sim.settle()
    control.pause(rt, execution_id)
    control.resume(rt, execution_id)
    control.patch_ctx(rt, execution_id, {"a": 1})
    control.cancel(rt, execution_id)
    sim.settle()
    catalog.register(rt, BODY.replace("path: x", "path: y"))
    catalog.register(rt, BODY.replace("path: x", "path: y"))
    cache.clear(rt, everything=True)
    assert told(rt) == [
        ("playbook.execution.requested", execution_id),
        ("playbook.pause.requested", execution_id),
        ("playbook.resumed", execution_id),
        ("ctx.patched", execution_id),
        ("playbook.cancel.requested", execution_id),
        ("playbook.registered", "y"),
        ("cache.cleared", "*"),
    ]


def test_a_fork_is_told_and_not_what_it_copies(sim: Simulation, rt: Runtime) -> None:
    execution_id = start(rt, StartRequest("x")).execution_id
    sim.settle()
    row = fork.fork(sim.rt.acting_for(Caller("bob", "r-2")), ForkRequest(execution_id, 1))
    entries = audit.entries(rt, AuditFilter(principal="bob"))
    assert {one.subject for one in entries} == {row.execution_id}
    assert len(told(rt)) == 1 + len(entries)


def test_all_entries_are_read_page_by_page(rt: Runtime, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit, "PAGE", 2)
    for number in range(5):
        with rt.store.begin() as tx:
            rt.record(tx, "x", str(number))
    assert [one.subject for one in audit.all_entries(rt, AuditFilter())] == ["4", "3", "2", "1", "0"]
    view = audit.entry_view(audit.entries(rt, AuditFilter(), limit=1)[0])
    assert (view["principal"], view["request_id"], view["subject"], view["version"]) == (
        "ada",
        "r-1",
        "4",
        None,
    )
