"""Executions are given what their playbook declares: all faults at once, text by type, and secrets
that no event, row or answer tells."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from noetl.errors import BadRequest, Conflict, InputsInvalid, Unavailable
from noetl.facts.events import Evaluated, Requested
from noetl.facts.json import Json, JsonMap
from noetl.testing import Simulation
from noetl.tools.secrets.vault import FernetVault, generate_key
from noetl.usecases import catalog, credentials, results
from noetl.usecases.ports import KeyOwner
from noetl.usecases.runtime import RuntimeLimits, encrypts_nothing
from noetl.usecases.safe import Safe
from noetl.usecases.secrets import Sources
from noetl.usecases.start import StartRequest, start, start_all
from noetl.usecases.sweep import sweep

CANARY = "Kanari-of-the-caller"
HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\n"
PARCEL = (
    HEAD
    + """\
metadata: {name: parcel, path: tests/parcel}
inputs:
  zip: {type: string, pattern: "^[0-9]{5}$", required: true}
  count: {type: integer, min: 1, max: 10, default: 1}
  express: boolean
  token: {type: string, secret: true, min_length: 3}
  to: {properties: {street: {type: string, required: true}, pin: {type: integer, secret: true}}}
workload: {carrier: {name: post}}
workflow:
  - step: start
    tool:
      kind: noop
      input: {zip: "{{ zip }}", count: "{{ count }}", express: "{{ express }}", token: "{{ token }}", to: "{{ to }}"}
"""
)


def with_keys(sim: Simulation) -> Simulation:
    """`sim` as a process that has keys."""
    vault = FernetVault(generate_key())
    sim.rt = replace(sim.rt, seal=vault.seal, encrypt=vault.encrypt)
    sim.vault = vault  # type: ignore[attr-defined]
    return sim


@pytest.fixture
def sim() -> Simulation:
    return with_keys(Simulation(PARCEL))


def faults_of(sim: Simulation, payload: JsonMap, **overrides: Json) -> list[str]:
    with pytest.raises(InputsInvalid) as caught:
        sim.start(payload, **overrides)
    return [f"{one['path']}: {one['message']}" for one in caught.value.faults]


def requested(sim: Simulation, execution_id: str) -> Requested:
    (first, *_) = sim.events(execution_id)
    assert isinstance(first.fact, Requested)
    return first.fact


def opened(sim: Simulation, reference: Any) -> Any:
    """What a tool gets for a reference."""
    sources = Sources(provider=lambda name: pytest.fail(name), token=lambda order: pytest.fail(str(order)))
    return Safe(sim.rt.store, lambda: sim.vault, sources).open(reference, {}).value  # type: ignore[attr-defined]


# --- what is taken --------------------------------------------------------------------------------


def test_texts_are_read_by_their_types_and_defaults_fill_in(sim: Simulation) -> None:
    report = sim.run({"zip": "01234", "express": "true"}, count="3")
    assert report.result == {"zip": "01234", "count": 3, "express": True, "token": None, "to": None}
    assert sim.run({"zip": "01234"}).result["count"] == 1
    assert report.warnings == []


def test_overrides_win_over_the_payload_part_by_part(sim: Simulation) -> None:
    report = sim.run({"zip": "01234", "to": {"street": "a"}, "count": 2}, to={"street": "b"}, count=5)
    assert (report.result["to"], report.result["count"]) == ({"street": "b"}, 5)


def test_what_payload_lacks_an_override_may_give(sim: Simulation) -> None:
    assert sim.run({}, zip="01234").result["zip"] == "01234"
    assert sim.run({"zip": "01234", "to": {}}, to={"street": "b"}).result["to"] == {"street": "b"}


def test_keys_of_the_workload_are_known_and_added_ones_are_taken(sim: Simulation) -> None:
    sim.start({"zip": "01234", "carrier": {"name": "dhl"}})
    sim.start({"zip": "01234"}, **{"+debug": True, "carrier": {"name": "ups"}})


# --- what is refused ------------------------------------------------------------------------------


def test_everything_that_is_wrong_is_told_at_once_and_nothing_is_recorded(sim: Simulation) -> None:
    found = faults_of(
        sim, {"zip": 1234, "count": "x", "to": {"stret": "a"}, "zipp": "1"}, express="yes", carrier={"nam": 1}
    )
    assert found == [
        "zip: must be text, and is 1234; write it in quotes",
        'count: must be a whole number, and is "x"',
        'express: must be true or false, and is "yes"',
        "to.street: is required, and was not given",
        "to.stret: is not declared. Did you mean 'street'?",
        "zipp: is not declared. Did you mean 'zip'?",
        "carrier.nam: is not there to be set; write '+carrier.nam' to add a new key",
    ]
    with sim.rt.store.read() as tx:
        assert tx.executions.find(limit=1) == []
        assert tx.credentials.find_of_lineages() == []


def test_an_empty_request_lacks_what_is_required(sim: Simulation) -> None:
    assert faults_of(sim, {}) == ["zip: is required, and was not given"]


def test_the_sentence_names_the_playbook_and_all_faults(sim: Simulation) -> None:
    with pytest.raises(InputsInvalid, match=r"'tests/parcel'.*zip: .*; count: "):
        sim.start({"count": 0})


def test_a_fault_of_one_request_of_many_spoils_no_other(sim: Simulation) -> None:
    requests = [StartRequest(sim.path, payload={"zip": zip}) for zip in ("01234", "1", "56789")]
    answers = start_all(sim.rt, requests)
    assert [isinstance(one, InputsInvalid) for one in answers] == [False, True, False]


def test_a_playbook_without_inputs_is_as_it_was() -> None:
    sim = Simulation(PARCEL.replace(PARCEL[PARCEL.index("inputs:") : PARCEL.index("workload:")], ""))
    report = sim.run({"zip": 1234, "count": "x", "nothing": 1})
    assert (report.result["zip"], report.result["count"]) == (1234, "x")
    assert [one["place"] for one in report.warnings if one["place"] == "payload.nothing"] == [
        "payload.nothing"
    ]
    with pytest.raises(BadRequest, match="has no 'carier' to set"):
        sim.start({}, carier=1)


DEFAULTED = (
    HEAD
    + """\
metadata: {name: defaulted, path: tests/defaulted}
inputs:
  a: {type: integer, default: "{{ execution_id }}"}
  token: {secret: true, default: "{{ payload.other | default('plain') }}"}
workflow:
  - {step: start, tool: {kind: noop, input: {a: "{{ a }}"}}}
"""
)


def test_what_templates_of_defaults_come_to_is_checked_when_they_are_rendered() -> None:
    report = Simulation(DEFAULTED).run()
    assert report.row.status == "failed"
    assert report.row.error is not None
    assert report.row.error["kind"] == "client_error"
    assert "a: must be a whole number" in report.row.error["message"]
    assert "token: is a secret" in report.row.error["message"]
    assert "plain" not in report.row.error["message"]


# --- secrets --------------------------------------------------------------------------------------


def texts_of(sim: Simulation) -> Iterator[str]:
    """All that the store holds of an execution, but for ciphertext."""
    with sim.rt.store.read() as tx:
        for row in tx.executions.find(limit=100):
            yield str(row)
            for event in tx.events.read(row.execution_id):
                yield str(event)
            yield from map(str, tx.commands.open_of(row.execution_id))
        yield from map(str, tx.credentials.find_of_lineages())


def test_a_secret_is_a_reference_in_the_log_and_only_tools_get_its_value(sim: Simulation) -> None:
    run = sim.start({"zip": "01234", "token": CANARY, "to": {"street": "a", "pin": "7391"}}, count=2)
    sim.settle()
    token = requested(sim, run).payload["token"]
    assert {key: token[key] for key in ("kind", "execution", "input")} == {
        "kind": "secret_ref",
        "execution": run,
        "input": "token",
    }
    assert opened(sim, token) == CANARY
    assert opened(sim, requested(sim, run).payload["to"]["pin"]) == 7391
    assert sim.report(run).result["token"] == token
    assert not any(CANARY in text or "7391" in text for text in texts_of(sim))


def test_an_override_is_sealed_as_well_and_wins(sim: Simulation) -> None:
    run = sim.start({"zip": "01234", "token": "of-the-payload"}, token=CANARY)
    sim.settle()
    (evaluated,) = [event.fact for event in sim.events(run) if isinstance(event.fact, Evaluated)]
    assert opened(sim, evaluated.workload["token"]) == CANARY
    assert not any(CANARY in text or "of-the-payload" in text for text in texts_of(sim))


def test_two_executions_are_compared_by_a_hash_that_only_this_installation_makes(sim: Simulation) -> None:
    def hash_of(token: str, one: Simulation = sim) -> str:
        return str(requested(one, one.start({"zip": "01234", "token": token})).payload["token"]["hash"])

    assert hash_of(CANARY) == hash_of(CANARY)
    assert hash_of(CANARY) != hash_of("another")
    assert hash_of(CANARY) != hash_of(CANARY, with_keys(Simulation(PARCEL)))


def test_faults_of_secrets_tell_no_value(sim: Simulation) -> None:
    found = faults_of(sim, {"zip": "01234", "token": "ab", "to": {"street": "a", "pin": CANARY}})
    assert found == [
        "token: must have at least 3 characters",
        "to.pin: must be a whole number, and is something else",
    ]


def ask(sim: Simulation, token: str) -> str:
    request = StartRequest(sim.path, payload={"zip": "01234", "token": token}, idempotency_key="k")
    return start(sim.rt, request).execution_id


def test_the_same_key_and_secret_are_the_same_execution(sim: Simulation) -> None:
    first = ask(sim, CANARY)
    assert ask(sim, CANARY) == first
    with pytest.raises(Conflict):
        ask(sim, "another")
    with sim.rt.store.read() as tx:
        assert tx.credentials.lineage_ids(None, 10) == [first]


def test_what_is_kept_of_a_request_differs_from_installation_to_installation(sim: Simulation) -> None:
    found = set()
    for one in (sim, with_keys(Simulation(PARCEL))):
        ask(one, CANARY)
        with one.rt.store.begin() as tx:
            found.add(tx.idempotency.claim({"k": KeyOwner("other", "1")}, one.now)["k"].request_sha256)
    assert len(found) == 2


def test_a_process_without_a_key_starts_nothing_that_is_given_a_secret() -> None:
    sim = Simulation(PARCEL)
    sim.rt = replace(sim.rt, encrypt=encrypts_nothing)
    sim.start({"zip": "01234"})
    with pytest.raises(Unavailable, match="no key"):
        sim.start({"zip": "01234", "token": CANARY})


def test_what_was_given_outlives_its_execution_and_goes_with_its_results() -> None:
    sim = with_keys(Simulation(PARCEL, limits=RuntimeLimits(slice_s=3600.0, results_keep_s=60)))
    run = sim.start({"zip": "01234", "token": CANARY})
    sim.settle()
    reference = requested(sim, run).payload["token"]
    sweep(sim.rt)
    assert opened(sim, reference) == CANARY
    assert results.collect(sim.rt, sim.now).secrets == 0
    sim.pass_time(61)
    assert results.collect(sim.rt, sim.now, dry_run=True).secrets == 1
    assert opened(sim, reference) == CANARY
    assert results.collect(sim.rt, sim.now).secrets == 1
    with pytest.raises(Exception, match="went when its results did"):
        opened(sim, reference)


def test_kept_for_ever_where_results_are(sim: Simulation) -> None:
    run = sim.start({"zip": "01234", "token": CANARY})
    sim.settle()
    sim.pass_time(10_000_000)
    assert results.collect(sim.rt, sim.now).secrets == 0
    assert opened(sim, requested(sim, run).payload["token"]) == CANARY


def test_they_are_in_no_list_of_credentials_and_are_encrypted_anew_with_the_others(sim: Simulation) -> None:
    run = sim.start({"zip": "01234", "token": CANARY})
    assert credentials.credentials(sim.rt) == []
    older = sim.vault  # type: ignore[attr-defined]
    newer = FernetVault(generate_key())
    rotated = replace(sim.rt, encrypt=newer.encrypt)
    assert credentials.rotate(rotated, older.decrypt) == 1
    with sim.rt.store.read() as tx:
        (row,) = tx.credentials.find_of_lineages()
    assert newer.decrypt(row.data) == {"value": CANARY}
    assert row.place == run


# --- calls ----------------------------------------------------------------------------------------


def call(given: str) -> str:
    return HEAD + (
        "metadata: {name: caller, path: tests/caller}\nworkflow:\n"
        f"  - step: start\n    tool: {{kind: playbook, path: tests/parcel, input: {given}}}\n"
    )


def caller(given: str, **options: Any) -> Simulation:
    made = with_keys(Simulation(call(given), **options))
    catalog.register(made.rt, PARCEL)
    return made


def test_what_a_call_hands_over_is_read_and_checked_as_a_payload_is() -> None:
    report = caller("{zip: '01234', count: '{{ 2 + 1 }}', express: 'true'}").run()
    assert report.result == {"zip": "01234", "count": 3, "express": True, "token": None, "to": None}


def test_a_call_with_faults_fails_with_all_of_them_and_makes_no_execution() -> None:
    made = caller("{zip: 1, coumt: 2}")
    report = made.run()
    error = report.row.error
    assert error is not None
    assert (error["kind"], error["type"]) == ("client_error", "InputsInvalid")
    assert "zip: must be text" in error["message"]
    assert "coumt: is not declared" in error["message"]
    with made.rt.store.read() as tx:
        assert [row.path for row in tx.executions.find(limit=10)] == ["tests/caller"]


def test_a_secret_that_a_call_hands_over_is_sealed_for_the_called_execution() -> None:
    made = caller(f"{{zip: '01234', token: '{CANARY}'}}")
    run = made.start()
    made.settle()
    with made.rt.store.read() as tx:
        (child,) = tx.executions.find(parent=run, limit=10)
    assert opened(made, requested(made, child.execution_id).payload["token"]) == CANARY
    own = json.dumps([str(event) for event in made.events(child.execution_id)])
    assert CANARY not in own


def test_a_secret_input_that_is_handed_on_stays_the_caller_s() -> None:
    text = call("{zip: '01234', token: '{{ workload.key }}'}").replace(
        "workflow:", "inputs: {key: {secret: true}}\nworkflow:"
    )
    made = with_keys(Simulation(text))
    catalog.register(made.rt, PARCEL)
    run = made.start({"key": CANARY})
    made.settle()
    with made.rt.store.read() as tx:
        (child,) = tx.executions.find(parent=run, limit=10)
    reference = requested(made, child.execution_id).payload["token"]
    assert (reference["execution"], reference["input"]) == (run, "key")
    assert opened(made, reference) == CANARY
    assert not any(CANARY in text for text in texts_of(made))


def test_a_value_too_large_for_the_log_is_taken_unread() -> None:
    text = call("{zip: '01234', to: {street: \"{{ 'a' * 500 }}\"}}")
    made = with_keys(Simulation(text, limits=RuntimeLimits(slice_s=3600.0, inline_bytes=300)))
    catalog.register(made.rt, PARCEL)
    report = made.run()
    assert report.row.status == "completed", report.row.error
