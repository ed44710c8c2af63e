"""`/explain` and `/diff` over HTTP: answers are held against their models by the fixtures."""

from __future__ import annotations

from flask.testing import FlaskClient

from noetl.testing import Simulation


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
