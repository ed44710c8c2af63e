"""Labels and inputs of executions: where they come from, who keeps them, and what is left out."""

from __future__ import annotations

from typing import Any

import pytest
from families import CALLS, STAYS, TENFOLD, Family
from playbooks import playbook

from noetl.errors import BadRequest, Conflict
from noetl.facts.events import Requested
from noetl.facts.json import Json, JsonMap
from noetl.facts.labels import MOST
from noetl.testing import Simulation
from noetl.usecases import catalog, inspect, specimens
from noetl.usecases.facets import MOST_BYTES, read_facets
from noetl.usecases.fork import ForkRequest, fork
from noetl.usecases.migrate import MigrateRequest, migrate
from noetl.usecases.ports import ExecutionRow
from noetl.usecases.retry import RetryRequest, retry
from noetl.usecases.start import StartRequest, start

NAMED = "metadata: {name: test, path: tests/test"
LABELLED = f"{NAMED}, labels: {{team: data, tier: 1}}"


def labelled(workflow: str = TENFOLD, root: str = "workload: {n: 1}") -> str:
    text = playbook(workflow, root)
    assert NAMED in text
    return text.replace(NAMED, LABELLED)


def begin(sim: Simulation, payload: JsonMap | None = None, **more: Any) -> ExecutionRow:
    row = start(sim.rt, StartRequest(sim.path, payload=payload or {}, **more)).row
    sim.settle()
    return row


def labels_of(sim: Simulation, execution_id: str) -> dict[str, str]:
    """Those in its row, which are those in its log."""
    found = read_facets(inspect.execution(sim.rt, execution_id).labels)
    fact = sim.events(execution_id)[0].fact
    assert isinstance(fact, Requested)
    assert fact.labels == found
    return found


def inputs_of(sim: Simulation, execution_id: str) -> dict[str, str]:
    return read_facets(inspect.execution(sim.rt, execution_id).inputs)


# --- labels ---------------------------------------------------------------------------------------


def test_those_of_the_start_win_over_those_of_the_playbook() -> None:
    sim = Simulation(labelled())
    assert labels_of(sim, begin(sim).execution_id) == {"team": "data", "tier": "1"}
    row = begin(sim, labels={"tier": True, "env": "prod"})
    assert labels_of(sim, row.execution_id) == {"team": "data", "tier": "true", "env": "prod"}
    assert sim.report(row.execution_id).as_json()["labels"]["env"] == "prod"


def test_one_without_labels_has_none() -> None:
    sim = Simulation(playbook(TENFOLD))
    row = begin(sim)
    assert (row.labels, labels_of(sim, row.execution_id)) == (None, {})
    assert sim.report(row.execution_id).as_json()["labels"] == {}


@pytest.mark.parametrize(
    ("labels", "told"),
    [
        ({"te am": "x"}, "The labels have the name 'te am', and names are made of letters, digits"),
        ({"": "x"}, "The labels have the name '', and names"),
        ({"größe": "x"}, "The labels have the name 'größe', and names"),
        ({"n" * 64: "x"}, "of 64 characters, more than 63"),
        ({"team": "x" * 201}, "The labels have 201 characters as 'team', more than 200"),
        ({"team": "a\nb"}, "have a character as 'team' that cannot be printed (U+000A)"),
        ({"team": None}, "The labels have no text as 'team', but null"),
        ({"team": ["x"]}, "The labels have no text as 'team', but a list"),
        ({"team": {"x": 1}}, "The labels have no text as 'team', but a mapping"),
        ({f"l{n}": n for n in range(MOST - 1)}, "The labels are 51, more than 50"),
    ],
)
def test_what_is_none_is_refused(labels: JsonMap, told: str) -> None:
    sim = Simulation(labelled())
    with pytest.raises(BadRequest) as raised:
        begin(sim, labels=labels)
    assert told in raised.value.message
    assert inspect.executions(sim.rt) == []


def test_they_are_a_part_of_the_request_that_a_key_stands_for() -> None:
    sim = Simulation(labelled())
    first = begin(sim, labels={"env": "prod"}, idempotency_key="k")
    assert begin(sim, labels={"env": "prod"}, idempotency_key="k").execution_id == first.execution_id
    with pytest.raises(Conflict):
        begin(sim, labels={"env": "test"}, idempotency_key="k")


def test_a_called_execution_has_those_of_its_own_playbook() -> None:
    family = Family(CALLS, TENFOLD)
    child = playbook(TENFOLD, "workload: {n: 1}").replace(
        NAMED, "metadata: {name: child, path: tests/child, labels: {part: inner}"
    )
    catalog.register(family.sim.rt, child)
    run = start(family.sim.rt, StartRequest(family.sim.path, labels={"env": "prod"})).execution_id
    family.sim.settle()
    (called,) = family.children(run)
    assert labels_of(family.sim, run) == {"env": "prod"}
    assert labels_of(family.sim, called) == {"part": "inner"}
    assert inputs_of(family.sim, called) == {"n": "7"}


def test_a_retry_and_a_fork_keep_those_of_their_source() -> None:
    sim = Simulation(labelled())
    first = begin(sim, {"n": 5}, labels={"env": "prod"}).execution_id
    wanted = {"team": "data", "tier": "1", "env": "prod"}
    # Whatever the playbook says today.
    catalog.register(sim.rt, labelled().replace("team: data", "team: other"))
    again = retry(sim.rt, RetryRequest(first, version=2, overrides={"n": 6}))
    assert (labels_of(sim, again.execution_id), inputs_of(sim, again.execution_id)) == (wanted, {"n": "6"})
    forked = fork(sim.rt, ForkRequest(first, before="start"))
    assert (labels_of(sim, forked.execution_id), inputs_of(sim, forked.execution_id)) == (wanted, {"n": "5"})


def test_a_migration_keeps_those_of_its_source() -> None:
    waits = "- step: start\n  tool: {kind: wait, signal: go}"
    sim = Simulation(labelled(waits))
    first = begin(sim, labels={"env": "prod"}).execution_id
    catalog.register(sim.rt, labelled(waits + "\n  next: end\n- step: end\n  tool: {kind: noop}"))
    made = migrate(sim.rt, MigrateRequest(first)).execution_id
    assert labels_of(sim, made) == {"team": "data", "tier": "1", "env": "prod"}
    assert inputs_of(sim, made) == {"n": "1"}


def test_a_specimen_has_those_that_it_had() -> None:
    there, here = Simulation(labelled(STAYS)), Simulation(playbook(TENFOLD))
    first = begin(there, {"n": 4}, labels={"env": "prod"}).execution_id
    lines = [line.encode() for line in specimens.export(there.rt, first)]
    kept = specimens.keep(here.rt, specimens.check(here.rt, lines)).row
    assert labels_of(here, kept.execution_id) == {"team": "data", "tier": "1", "env": "prod"}
    assert inputs_of(here, kept.execution_id) == {"n": "4"}


# --- inputs ---------------------------------------------------------------------------------------

GIVEN = "workload: {customer: acme, n: 1, dry: true, day: '{{ now() }}', rows: [1], to: {x: 1}, no: null}"


def given(sim: Simulation, payload: JsonMap | None = None, **overrides: Json) -> dict[str, str]:
    return inputs_of(sim, begin(sim, payload, overrides=overrides).execution_id)


def test_they_are_what_the_workload_has_at_its_top_as_texts() -> None:
    sim = Simulation(playbook(TENFOLD, GIVEN))
    assert given(sim) == {"customer": "acme", "n": "1", "dry": "true"}
    assert given(sim, {"n": 1.5, "day": "2026-01-31", "no": False}, customer="other") == {
        "customer": "other",
        "n": "1.5",
        "dry": "true",
        "day": "2026-01-31",
        "no": "false",
    }


def test_what_is_replaced_by_a_list_or_a_mapping_is_left_out() -> None:
    sim = Simulation(playbook(TENFOLD, GIVEN))
    assert given(sim, {"customer": ["acme"], "n": {"a": 1}}) == {"dry": "true"}


def test_secrets_are_left_out() -> None:
    root = "inputs: {n: integer, token: {type: string, secret: true}}"
    sim = Simulation(playbook(TENFOLD, root))
    row = begin(sim, {"n": 3, "token": "hunter2"})
    assert row.inputs == '{"n":"3"}'


def test_long_texts_are_cut_and_only_so_much_is_kept() -> None:
    sim = Simulation(playbook(TENFOLD))
    kept = given(sim, {"a": "x" * 500, "b": "ü" * 500})
    assert kept == {"a": "x" * 200, "b": "ü" * 200}
    row = begin(sim, {f"name{n}": "é" * 200 for n in range(50)})
    assert row.inputs is not None
    assert list(read_facets(row.inputs)) == [f"name{n}" for n in range(9)]
    assert MOST_BYTES - 420 < len(row.inputs.encode()) <= MOST_BYTES


def test_what_no_database_holds_is_replaced() -> None:
    sim = Simulation(playbook(TENFOLD))
    assert given(sim, {"a": "x\0y\ud800", 'b"c': "x"}) == {"a": "x\0y?"}


def test_they_are_asked_for() -> None:
    sim = Simulation(labelled(root=GIVEN))
    first = begin(sim, {"n": 1.5}, labels={"env": "prod"}).execution_id
    second = begin(sim, {"customer": 'a"b', "n": 2}, labels={"team": "Data"}).execution_id

    def find(where: str, **labels: str) -> list[str]:
        return [row.execution_id for row in inspect.executions(sim.rt, where=where, labels=labels)]

    assert find("label.team = 'data' and input.customer = 'acme'") == [first]
    assert find("input.customer = 'a\"b'") == [second]
    assert find("input.n in (2, '1.5')", env="prod") == [first]
    assert find("label.env is null") == [second]
    assert find("input.dry = true", team="Data") == [second]
    assert find("input.dry = true", team="Data", env="prod") == []
