"""`/explain` and `/diff` over HTTP: answers are held against their models by the fixtures."""

from __future__ import annotations

from flask.testing import FlaskClient

from noetl.history.shape import timeline_as_json
from noetl.testing import Simulation
from noetl.usecases.timeline import timeline

CIRCLE = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: circle, path: tests/circle}
workflow:
  - step: start
    next: each
  - step: each
    loop: {in: [1, 2], iterator: n}
    tool: {kind: noop}
    set: {ctx.n: "{{ ctx.n | default(0) + 1 }}"}
    next: {arcs: [{step: each, when: "{{ ctx.n < 5 }}"}]}
"""


def test_why_a_step_waits_is_answered_with_the_rules_and_what_they_read(
    client: FlaskClient, sim: Simulation
) -> None:
    run = sim.run({"wait_for_go": True}).row.execution_id
    answer = client.get(f"/api/executions/{run}/explain")
    assert answer.status_code == 200
    start, gate = answer.json["steps"]
    assert (answer.json["status"], start["why"]) == ("waiting", "It ran as the entry.")
    assert (gate["standing"], gate["waits"][0]["kind"]) == ("waiting", "admission")
    rule = gate["waits"][0]["rules"][0]
    assert rule["names"] == {"wait_for_go": True, "ctx.go": None}
    assert rule["said"] == "did not hold"


def test_one_step_and_an_earlier_version_can_be_asked_for(client: FlaskClient, sim: Simulation) -> None:
    run = sim.run().row.execution_id
    one = client.get(f"/api/executions/{run}/explain?step=gate&version=3").json
    assert [(step["step"], step["standing"]) for step in one["steps"]] == [("gate", "not_run")]
    assert one["version"] == 3


def test_what_is_not_there_is_answered(client: FlaskClient, sim: Simulation) -> None:
    run = sim.run().row.execution_id
    for path, status, told in (
        (f"{run}/explain?step=gaet", 404, "Did you mean 'gate'?"),
        (f"{run}/explain?version=999", 400, "has versions 0 to"),
        (f"{run}/explain?version=-1", 400, "version"),
        ("12/explain", 404, "There is no execution '12'."),
        (f"{run}/diff/12", 404, "There is no execution '12'."),
        (f"12/diff/{run}", 404, "There is no execution '12'."),
        (f"{run}/diff/nonsense", 404, "nothing has that id or business key"),
        (f"{run}/diff/{run}?limit=0", 400, "limit"),
    ):
        answer = client.get(f"/api/executions/{path}")
        assert (answer.status_code, told in answer.text) == (status, True), (path, answer.text)


def test_two_executions_are_compared(client: FlaskClient, sim: Simulation) -> None:
    one, other = (sim.run({"n": n}).row.execution_id for n in (2, 5))
    found = client.get(f"/api/executions/{one}/diff/{other}?limit=1").json
    assert (found["same"], found["a"]["execution_id"], found["b"]["execution_id"]) == (False, one, other)
    assert found["inputs"] == {
        "shown": [{"path": "payload.n", "change": "changed", "a": 2, "b": 5}],
        "more": 1,
    }
    same = client.get(f"/api/executions/{one}/diff/{one}").json
    assert (same["same"], same["summary"]) == (True, "They went the same way to the same results.")


def test_a_timeline_shows_what_ran_when_and_what_every_version_is_called(
    client: FlaskClient, sim: Simulation
) -> None:
    run = sim.run().row.execution_id
    answer = client.get(f"/api/executions/{run}/timeline")
    assert answer.status_code == 200
    found = answer.json
    assert (found["execution_id"], found["status"]) == (run, "completed")
    assert len(found["at_ms"]) == found["version"]
    assert list(found["steps"]) == ["start", "gate"]
    for name, step in found["steps"].items():
        (one,) = step["runs"]
        assert (one["run_id"], one["status"], one["loop"]) == (f"{name}#1", "done", None)
        assert one["segments"][-1][2] == one["end_ms"]
        assert (one["critical"], step["runs_left_out"]) == (True, 0)
    (arc,) = found["arcs"].values()
    assert (len(arc["taken"]), arc["missed"]) == (1, [])
    assert found["critical"] == ["start#1", "gate#1"]
    for version in range(1, found["version"] + 1):
        state = client.get(f"/api/executions/{run}/state?version={version}").json
        assert state["status"] == called(found["statuses"], version)
        for name, step in found["steps"].items():
            assert state["steps"].get(name, {}).get("status") == called(step["changes"], version)


def called(changes: list[list[object]], version: int) -> object:
    """What the last change up to that version says; None where there is none."""
    before = [status for at, status in changes if at <= version]  # type: ignore[operator]
    return before[-1] if before else None


def test_a_timeline_marks_iterations_and_leaves_old_runs_out() -> None:
    sim = Simulation(CIRCLE)
    run = sim.run().row.execution_id
    found = timeline_as_json(timeline(sim.rt, run), most_runs=2)
    step = found["steps"]["each"]
    assert ([one["run_id"] for one in step["runs"]], step["runs_left_out"]) == (["each#4", "each#5"], 3)
    loop = step["runs"][0]["loop"]
    assert (loop["total"], loop["mode"]) == (2, "sequential")
    assert (len(loop["done"]), loop["failed"], loop["cancelled"]) == (2, [], [])


def test_of_an_execution_that_is_not_there_there_is_no_timeline(client: FlaskClient) -> None:
    answer = client.get("/api/executions/12/timeline")
    assert (answer.status_code, "There is no execution '12'." in answer.text) == (404, True)
