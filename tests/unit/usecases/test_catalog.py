"""The catalog remembers only what is in the database."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

import pytest

from noetl.errors import PlaybookInvalid
from noetl.net.codec import digest, from_json, to_json
from noetl.testing import Simulation
from noetl.usecases import catalog, inspect
from noetl.usecases.ports import PlaybookRow
from noetl.usecases.retry import RetryRequest, retry
from noetl.usecases.start import StartRequest, start

PLAYBOOK = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: {{name: {name}, path: tests/{name}}}
workflow:
  - step: start
    tool: {{kind: noop}}
"""


def test_others_know_of_a_net_once_its_transaction_has_committed() -> None:
    """Starts at the same instant in threads of a server were refused: there was no such net yet."""
    sim = Simulation(PLAYBOOK.format(name="known"))
    row = PlaybookRow("tests/new", 1, PLAYBOOK.format(name="new"), "sha", "", sim.now)
    with catalog.keeping_nets(sim.rt) as tx:
        digests = {catalog.renew(sim.rt, tx, row).digest for _ in range(2)}
        assert sim.rt.compiled.get("sha") is None
    assert digests == {sim.rt.compiled.get("sha")}


def test_the_process_that_starts_a_playbook_makes_the_net_that_was_registered() -> None:
    sim = Simulation(PLAYBOOK.format(name="known"))
    registered = catalog.register(sim.rt, PLAYBOOK.format(name="flow"), "flow.yaml")
    sim.rt.compiled.clear()
    with catalog.keeping_nets(sim.rt) as tx:
        assert catalog.renew(sim.rt, tx, registered).digest == registered.digest


def test_a_net_whose_transaction_came_to_nothing_is_kept_by_the_next_one() -> None:
    sim = Simulation(PLAYBOOK.format(name="known"))
    row = PlaybookRow("tests/new", 1, PLAYBOOK.format(name="new"), "sha", "", sim.now)
    with suppress(ZeroDivisionError), catalog.keeping_nets(sim.rt) as tx:
        catalog.renew(sim.rt, tx, row)
        _ = 1 / 0
    with sim.rt.store.begin() as tx:
        digest = catalog.renew(sim.rt, tx, row).digest
    with sim.rt.store.read() as tx:
        assert tx.nets.get(digest) is not None


def test_a_playbook_whose_net_is_stored_is_not_compiled_again() -> None:
    sim = Simulation(PLAYBOOK.format(name="known"))
    digests = []
    for _ in range(3):
        with sim.rt.store.begin() as tx:
            row = catalog.find(tx, "tests/known", None)
            digests.append(catalog.renew(sim.rt, tx, row).digest)
    assert {*digests} == {sim.rt.compiled.get(row.content_sha256)}


MISSPELT = PLAYBOOK.format(name="old").replace("tool:", "tools:")


def test_a_version_that_older_programs_registered_with_a_misspelt_key_goes_on_starting() -> None:
    sim = Simulation(PLAYBOOK.format(name="known"))
    row = PlaybookRow("tests/old", 1, MISSPELT, catalog.sha256_of(MISSPELT), "", sim.now, "old")
    with sim.rt.store.begin() as tx:
        tx.playbooks.add(row)
    started = start(sim.rt, StartRequest("tests/old")).execution_id
    sim.run()
    assert inspect.execution(sim.rt, started).status == "completed"
    with pytest.raises(PlaybookInvalid, match="NOETL212"):
        catalog.register(sim.rt, MISSPELT)


def test_warnings_are_kept_with_the_version_and_follow_the_compiler() -> None:
    sim = Simulation(PLAYBOOK.format(name="known"))
    text = PLAYBOOK.format(name="warned") + "    remark: x\n"
    row = catalog.register(sim.rt, text, "a.yaml")
    [warning] = catalog.warnings_of(catalog.playbook(sim.rt, "tests/warned"))
    warning = {key: value for key, value in warning.items() if value is not None}
    assert warning == {
        "source": "playbook",
        "code": "NOETL250",
        "file": "a.yaml",
        "line": 8,
        "column": 5,
        "path": "workflow[0].remark",
        "message": "the key 'remark' means nothing here",
        "hint": warning["hint"],
    }
    # A program that kept none registered it.
    with sim.rt.store.begin() as tx:
        tx.playbooks.keep_warnings(row.path, row.version, [])
    assert catalog.register(sim.rt, text, "b.yaml").version == row.version
    assert len(catalog.warnings_of(catalog.playbook(sim.rt, "tests/warned"))) == 1
    with pytest.raises(PlaybookInvalid, match="remark"):
        catalog.register(sim.rt, text, strict=True)


def test_only_the_first_of_many_warnings_are_kept_and_the_last_one_counts_the_others() -> None:
    sim = Simulation(PLAYBOOK.format(name="known"))
    many = "".join(f"    remark_{number}: x\n" for number in range(catalog.MOST_WARNINGS + 7))
    row = catalog.register(sim.rt, PLAYBOOK.format(name="many") + many)
    warnings = catalog.warnings_of(row)
    assert len(warnings) == catalog.MOST_WARNINGS + 1
    assert warnings[-1]["message"].startswith("7 more warnings")


LAX = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: lax, path: tests/lax}
workflow:
  - step: start
    tool:
      kind: python
      code: raise ValueError('passed')
      spec: {policy: {rules: [{when: "{{ error.retryable }}", then: {do: retry}}]}}
    next: broken
  - step: broken
    tool: {kind: python, code: "raise ValueError('broken')"}
"""


def _register_with_an_earlier_release(sim: Simulation, text: str) -> PlaybookRow:
    """As one did whose nets said nothing of errors that no rule takes."""
    row = catalog.register(sim.rt, text)
    with sim.rt.store.begin() as tx:
        body = from_json(tx.nets.get(row.digest) or {})
        steps = [
            replace(step, tasks=tuple(replace(task, unmatched="continue") for task in step.tasks))
            for step in body.transitions
        ]
        net = replace(body, transitions=tuple(steps))
        tx.nets.put(digest(net), to_json(net))
        told = {"code": "NOETL553", "message": "after an error the pipeline goes on", "hint": None}
        tx.playbooks.keep_warnings(row.path, row.version, [told])
    sim.rt.compiled.put(row.content_sha256, digest(net))
    return row


def _upgrade(sim: Simulation) -> None:
    """What another process knows, that of a later release."""
    sim.rt.compiled.clear()


def test_executions_and_their_retries_keep_the_net_of_the_release_that_began_them() -> None:
    sim = Simulation(PLAYBOOK.format(name="known"))
    _register_with_an_earlier_release(sim, LAX)
    began = start(sim.rt, StartRequest("tests/lax")).execution_id
    sim.run()
    _upgrade(sim)
    again = retry(sim.rt, RetryRequest(began)).execution_id
    new = start(sim.rt, StartRequest("tests/lax")).execution_id
    sim.run()
    failed = {one: (inspect.execution(sim.rt, one).error or {})["step"] for one in (began, again, new)}
    assert failed == {began: "broken", again: "broken", new: "start"}


def test_the_first_start_after_an_upgrade_says_what_means_something_else() -> None:
    sim = Simulation(PLAYBOOK.format(name="known"))
    _register_with_an_earlier_release(sim, LAX)
    _upgrade(sim)
    for _ in range(2):
        started = start(sim.rt, StartRequest("tests/lax"))
        assert [(one["code"], one["line"]) for one in started.warnings] == [("NOETL590", 10)]
    row = catalog.playbook(sim.rt, "tests/lax")
    assert [one["code"] for one in row.warnings] == ["NOETL590"]


def test_warnings_that_mean_what_they_meant_outlive_an_upgrade() -> None:
    sim = Simulation(PLAYBOOK.format(name="known"))
    catalog.register(sim.rt, PLAYBOOK.format(name="warned") + "    remark: x\n", "a.yaml")
    _upgrade(sim)
    [warning] = start(sim.rt, StartRequest("tests/warned")).warnings
    assert (warning["code"], warning["file"]) == ("NOETL250", "a.yaml")
