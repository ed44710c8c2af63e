"""States as JSON and back: equal, whatever they hold."""

from __future__ import annotations

import json

from playbooks import playbook

from noetl.engine.evolve import replay
from noetl.engine.run_state import LoopState, Run, SparseValues
from noetl.engine.state import State, initial_state
from noetl.facts.outcome import ErrorInfo
from noetl.testing import Simulation
from noetl.usecases import inspect, snapshots
from noetl.usecases.runtime import RuntimeLimits


def through_text(state: State) -> State:
    return snapshots.from_json(json.loads(json.dumps(snapshots.to_json(state))))


def test_what_a_later_version_kept_besides_is_passed_over() -> None:
    state = State("1", runs={"start#1": Run("start#1", "start", {}, 1)})
    kept = json.loads(json.dumps(snapshots.to_json(state)))
    for part in (kept, kept["runs"]["start#1"], kept["notices"]):
        part["kept_by_later_versions"] = 1
    assert snapshots.from_json(kept) == state


def test_a_state_with_a_loop_of_many_iterations_survives_json() -> None:
    # 20,000 bits are more decimal digits than Python reads or writes.
    count = 20_000
    loop = LoopState(
        count,
        list(range(count)),
        "parallel",
        16,
        SparseValues(count).put(7, {"n": 1}),
        SparseValues(count),
        SparseValues(count).put(7, 12),
        ended=(1 << count) - 1,
        failed=1 << 19_999,
        errors={19_999: ErrorInfo("python", "no")},
        partial={3: {"a": 1}},
        suspended={4: None, 5: "2026-01-01T00:00:00+00:00"},
    )
    state = State(
        "1",
        version=9,
        runs={"each#1": Run("each#1", "each", {}, 2, loop=loop), "a#1": Run("a#1", "a", {}, 3)},
    )
    assert through_text(state) == state


def test_an_execution_goes_on_from_its_snapshot_and_the_events_behind_it() -> None:
    steps = "".join(
        f"""
        - step: s{n}
          tool: {{kind: python, code: "result = {n}", set: {{ctx.n{n}: {n}}}}}
          next: s{n + 1}"""
        for n in range(20)
    )
    sim = Simulation(
        playbook(steps + "\n        - step: s20\n          tool: {kind: noop}\n"),
        limits=RuntimeLimits(snapshot_events=10),
    )
    run = sim.start()
    while sim.mailbox.messages:
        sim.deliver()
        sim.rt.states.clear()
        state = inspect.state_at(sim.rt, run)
        whole = replay(initial_state(run), sim.events(run))
        assert through_text(state) == state == whole
    report = sim.report(run)
    assert (report.row.status, len(report.ctx)) == ("completed", 20)
    with sim.rt.store.read() as tx:
        assert tx.snapshots.get(run) is not None
