"""What a playbook names has to be there before anything of it begins."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from families import called
from playbooks import playbook

from noetl.errors import Conflict, KeyTaken, NoetlError, PrerequisitesMissing
from noetl.facts.json import JsonMap
from noetl.facts.outcome import ErrorInfo, failed
from noetl.net.model import KindInfo
from noetl.pipeline.model import Call
from noetl.testing import KINDS, Simulation
from noetl.usecases import catalog, credentials, inspect, migrate, retry
from noetl.usecases.credentials import Audience
from noetl.usecases.migrate import MigrateRequest
from noetl.usecases.retry import RetryRequest
from noetl.usecases.start import StartedExecution, StartRequest, start, start_all

POSTGRES = KindInfo("postgres", queue="postgres", effects="none", credentials=("auth", "replica.auth"))
LOAD = '- step: start\n  tool: {kind: noop}\n  next: load\n- step: load\n  tool: {kind: postgres, auth: shop, command: "select 1"}\n'


class Shop:
    """A playbook whose names are asked for, as in production; its tools stay simulated. Calls of
    `postgres` in `broken` fail."""

    def __init__(self, workflow: str, root: str = "") -> None:
        self.calls: list[Any] = []
        self.broken: set[str] = set()
        tools = {"postgres": self._call}
        self.sim = Simulation(playbook(workflow, root), tools, kinds={**KINDS, "postgres": POSTGRES})
        self.sim.rt = replace(self.sim.rt, checks_prerequisites=True)

    def _call(self, call: Call) -> Any:
        self.calls.append(call.config["command"])
        if call.config["command"] in self.broken:
            return failed(ErrorInfo("sql", "no luck"))
        return {"rows": []}

    def keep(self, name: str, **of: Any) -> None:
        credentials.save(self.sim.rt, name, "generic", {"a": "1"}, Audience(**of))

    def forget(self, name: str) -> None:
        credentials.delete(self.sim.rt, name)

    def register(self, path: str, workflow: str, root: str = "") -> None:
        catalog.register(self.sim.rt, called(path, workflow, root), "called.yaml")

    def ask(self, **more: Any) -> StartedExecution:
        return start(self.sim.rt, StartRequest(self.sim.path, **more))

    def refuse(self, **more: Any) -> list[JsonMap]:
        """What is missing where a start is refused."""
        with pytest.raises(PrerequisitesMissing) as caught:
            self.ask(**more)
        return [dict(one) for one in caught.value.faults]

    def run(self) -> inspect.Report:
        return self.sim.run()


def names(faults: list[JsonMap]) -> list[Any]:
    return [one["name"] for one in faults]


# --- what is asked for ----------------------------------------------------------------------------


def test_everything_that_is_missing_is_said_at_once_with_its_place_and_nothing_is_written() -> None:
    shop = Shop(
        """
        - step: start
          loop: {in: [1], iterator: n}
          tool:
            - {name: read, kind: postgres, auth: shop, replica: {auth: shpo2}, command: "select 1"}
            - name: write
              kind: postgres
              auth: {credential: shpo2}
              command: "select 2"
          finally: tidy
          next: sub
        - step: sub
          tool: {kind: playbook, path: tests/none, version: 3}
          next: other
        - step: other
          tool: {kind: http, url: "{{ keychain.api.url }}"}
        - step: tidy
          tool: {kind: playbook, path: tests/gone}
        """,
        "keychain: [{name: api, credential: web}, {name: unused, credential: not_asked}]",
    )
    shop.keep("shop2")

    faults = shop.refuse(idempotency_key="k")

    told = {(one["kind"], one["name"], one["version"]): (one["step"], one["entry"]) for one in faults}
    assert told == {
        ("credential", "shop", None): ("start", None),
        ("credential", "shpo2", None): ("start", None),
        ("credential", "web", None): ("other", "api"),
        ("playbook", "tests/none", 3): ("sub", None),
        ("playbook", "tests/gone", None): ("tidy", None),
    }
    by_name = {str(one["name"]): one for one in faults}
    assert [(one["file"], one["line"]) for one in (by_name["web"], by_name["shop"])] == [
        ("test.yaml", 4),
        ("test.yaml", 10),
    ]
    assert by_name["web"]["column"] == len("keychain: [{name: api, credential: ") + 1
    assert by_name["shpo2"]["message"] == "There is no credential 'shpo2'. Did you mean 'shop2'?"
    assert "noetl credential set web --type" in str(by_name["web"]["message"])
    assert "There is no playbook 'tests/none' in the catalog" in str(by_name["tests/none"]["message"])
    assert inspect.executions(shop.sim.rt) == []


def test_names_that_only_a_run_knows_and_those_that_nothing_comes_to_are_not_asked_for() -> None:
    shop = Shop(
        """
        - step: start
          tool: {kind: postgres, auth: "{{ workload.auth }}", command: "select 1"}
          next: [{step: sub, when: "{{ false }}"}]
        - step: sub
          tool: {kind: playbook, path: "tests/{{ workload.auth }}"}
        - step: island
          tool: {kind: postgres, auth: nowhere, command: "select 1"}
        """,
        "workload: {auth: shop}",
    )
    assert shop.run().row.status == "completed"


def test_what_comes_while_it_runs_is_declared() -> None:
    shop = Shop(
        LOAD + "  next: sub\n- step: sub\n  tool: {kind: playbook, path: tests/late}\n",
        "provides: {credentials: [shop], playbooks: [tests/late]}",
    )
    asked = shop.ask()
    shop.register("tests/late", "- step: start\n  tool: {kind: noop, input: {a: 1}}\n")
    shop.sim.rest()
    assert inspect.execution(shop.sim.rt, asked.execution_id).status == "completed"


def test_a_credential_counts_for_the_playbooks_that_it_is_kept_for() -> None:
    shop = Shop(LOAD)
    shop.keep("shop", scope="path", place="other")
    assert "is kept for path other, not for playbook 'tests/test'" in str(shop.refuse()[0]["message"])
    shop.keep("shop", scope="path", place="tests")
    assert shop.run().row.status == "completed"


def test_a_pinned_version_has_to_be_there() -> None:
    shop = Shop("- step: start\n  tool: {kind: playbook, path: tests/sub, version: 2}\n")
    shop.register("tests/sub", "- step: start\n  tool: {kind: noop}\n")
    assert "has no version 2" in str(shop.refuse()[0]["message"])
    shop.register("tests/sub", "- step: start\n  tool: {kind: noop, input: {a: 1}}\n")
    assert shop.run().row.status == "completed"


def test_a_playbook_may_call_itself() -> None:
    shop = Shop("- step: start\n  tool: {kind: playbook, path: tests/test}\n")
    assert shop.ask().row.status == "pending"


# --- requests with keys, and many at once ---------------------------------------------------------


def test_a_request_that_has_its_execution_is_answered_with_it_whatever_is_gone_since() -> None:
    shop = Shop(LOAD)
    assert names(shop.refuse(idempotency_key="k")) == ["shop"]
    shop.keep("shop")
    first = shop.ask(idempotency_key="k")
    shop.forget("shop")
    again = shop.ask(idempotency_key="k")
    assert (first.existing, again.existing, again.execution_id) == (False, True, first.execution_id)


def test_an_open_execution_answers_for_its_key_and_gives_way_to_none_that_cannot_begin() -> None:
    shop = Shop(LOAD, "key: one")
    shop.keep("shop")
    first = shop.ask()
    shop.forget("shop")
    assert shop.ask(on_conflict="return").execution_id == first.execution_id
    assert names(shop.refuse(on_conflict="cancel_other")) == ["shop"]
    shop.keep("shop")
    with pytest.raises(KeyTaken):
        shop.ask()
    shop.sim.rest()
    assert inspect.execution(shop.sim.rt, first.execution_id).status == "completed"


def test_of_many_requests_each_is_answered_by_itself() -> None:
    shop = Shop(LOAD)
    shop.register("tests/plain", "- step: start\n  tool: {kind: noop}\n")
    asked = [StartRequest(path) for path in (shop.sim.path, "tests/plain", shop.sim.path)]
    answers = start_all(shop.sim.rt, asked)
    assert [isinstance(one, NoetlError) for one in answers] == [True, False, True]


# --- calls, retries, migrations -------------------------------------------------------------------


def test_a_call_is_refused_before_there_is_a_child_and_its_step_may_handle_that() -> None:
    shop = Shop(
        """
        - step: start
          tool: {kind: playbook, path: tests/sub}
          next: [{step: handle, when: "{{ event.name == 'call.error' }}", args: {why: "{{ error.type }}"}}]
        - step: handle
          tool: {kind: noop}
        """
    )
    shop.register("tests/sub", LOAD)
    report = shop.run()
    assert (report.row.status, report.result) == ("completed", {"why": "PrerequisitesMissing"})
    assert len(inspect.executions(shop.sim.rt)) == 1


def test_a_retry_asks_for_what_runs_again_and_not_for_what_stands() -> None:
    shop = Shop(
        """
        - step: start
          tool: {kind: postgres, auth: once, command: first}
          next: load
        - step: load
          tool: {kind: postgres, auth: shop, command: second}
        """
    )
    shop.keep("once")
    shop.keep("shop")
    shop.broken = {"second"}
    failed_id = shop.run().row.execution_id
    shop.forget("once")
    shop.forget("shop")

    for attempt in (retry.plan, retry.retry):
        with pytest.raises(PrerequisitesMissing) as caught:
            attempt(shop.sim.rt, RetryRequest(failed_id))
        assert names(list(caught.value.faults)) == ["shop"]

    shop.keep("shop")
    shop.broken.clear()
    again = retry.retry(shop.sim.rt, RetryRequest(failed_id)).execution_id
    shop.sim.rest()
    assert inspect.execution(shop.sim.rt, again).status == "completed"
    assert shop.calls == ["first", "second", "second"]


def test_a_migration_asks_for_what_the_other_version_will_run() -> None:
    waits = (
        "- step: start\n  tool: {kind: wait, signal: go}\n  next: end\n- step: end\n  tool: {kind: noop}\n"
    )
    shop = Shop(waits)
    open_id = shop.ask().execution_id
    shop.sim.settle()
    catalog.register(shop.sim.rt, playbook(waits.replace("{kind: noop}", "{kind: postgres, auth: shop}")))
    with pytest.raises(Conflict, match="cannot be migrated now: There is no credential 'shop'"):
        migrate.migrate(shop.sim.rt, MigrateRequest(open_id))
    shop.keep("shop")
    assert migrate.migrate(shop.sim.rt, MigrateRequest(open_id)).status == "pending"
