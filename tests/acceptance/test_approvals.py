"""Three people with tokens of their own, a server that asks for them, and nothing but HTTP and the
command: an approval is asked for, answered, and heard once, whoever of NoETL is alive meanwhile."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from re import findall
from typing import Any

import pytest
import requests

from noetl.usecases import catalog, tokens
from tests import services, zygote
from tests.services import RedisServer
from tests.waiting import GUARD_S, until

from .playbooks import head
from .stack import ROOT, Stack

pytestmark = [pytest.mark.acceptance, pytest.mark.postgres, pytest.mark.redis]

FAST = {"lease_s": 10, "heartbeat_s": 2, "resend_s": 5, "sweep_s": 0.5, "open": "false"}
PARTS = ("scheduler", "alone", "sweeper", "api")
PAYS = (
    head("pays")
    + """
workload: {amount: 120}
workflow:
  - step: sign
    tool:
      kind: wait
      approval:
        by: [bob, "group:ops"]
        count: 2
        four_eyes: true
        message: "Pay {{ workload.amount }} EUR?"
        form: {amount: {type: number, max: 500, default: "{{ workload.amount }}"}, note: string}
    next: pay
  - step: pay
    tool: {kind: noop, input: {paid: "{{ sign.values.amount }}", by: "{{ sign.by }}"}}
"""
)


@pytest.fixture
def asking(
    tmp_path: Path, broker: RedisServer, postgres_server: services.Postgres, postgres_template: str
) -> Iterator[Stack]:
    """A stack that wants to know who asks."""
    url = postgres_server.create(postgres_template)
    with Stack(tmp_path / "stack", url, broker.url, PARTS, FAST) as running:
        yield running
    postgres_server.drop(url)


class Person:
    """Somebody with a token, who asks the server as programs, as the command and as a browser
    do."""

    def __init__(self, stack: Stack, name: str, *scopes: str, **more: Any) -> None:
        self.stack = stack
        self.token = tokens.create(stack.rt, name, scopes, **more).text
        self.browser = requests.Session()

    def ask(self, method: str, path: str, **more: Any) -> requests.Response:
        headers = {"Authorization": f"Bearer {self.token}"}
        return requests.request(method, f"{self.stack.api}{path}", headers=headers, timeout=GUARD_S, **more)

    def noetl(self, *words: str) -> subprocess.CompletedProcess[str]:
        environ = {**self.stack.environment, "NOETL_TOKEN": self.token}
        argv = ["noetl", *words, "--server", self.stack.api]
        return zygote.run(argv, cwd=ROOT, env=environ, capture_output=True, text=True, timeout=GUARD_S)

    def look(self, run: str) -> str:
        """The page, in a browser in which one has to sign in first."""
        page = self.browser.get(f"{self.stack.api}/executions/{run}", timeout=GUARD_S)
        if "/login" not in page.url:
            return page.text
        fields = {**fields_of(page.text), "token": self.token}
        seen = self.browser.post(page.url, data=fields, headers={"Origin": self.stack.api}, timeout=GUARD_S)
        assert seen.url.endswith(f"/executions/{run}"), "one comes to what was asked for"
        return seen.text

    def send(self, run: str, origin: str | None = None, **fields: str) -> requests.Response:
        """The form of the page."""
        return self.browser.post(
            f"{self.stack.api}/executions/{run}",
            data=fields,
            headers={"Origin": origin or self.stack.api},
            timeout=GUARD_S,
            allow_redirects=False,
        )


def fields_of(page: str) -> dict[str, str]:
    found = findall(r'<input type="(?:hidden|number|text)" name="([^"]+)" value="([^"]*)"', page)
    return {name: unescape(value) for name, value in found}


def test_three_people_answer_over_the_command_and_the_page(asking: Stack) -> None:
    path = catalog.register(asking.rt, PAYS).path
    alice = Person(asking, "alice", "run", "approve")
    bob = Person(asking, "bob", "approve")
    carol = Person(asking, "carol", f"approve:{path}", groups=["ops"])
    run = str(alice.ask("POST", "/api/executions", json={"path": path}).json()["execution_id"])
    until(lambda: carol.ask("GET", "/api/approvals?mine=true").json()["approvals"], "it to be asked")

    refused = alice.ask("POST", f"/api/executions/{run}/approvals", json={"answer": "approve"})
    assert (refused.status_code, "bob or group:ops" in refused.json()["detail"]) == (403, True)
    assert "Pay 120 EUR?" in bob.noetl("approvals", "--mine").stdout
    for name in ("scheduler", "alone", "sweeper"):
        asking.kill(name)
    answered = bob.noetl(
        "execution", "approve", run, "sign", "--set", "amount=100", "--reason", "less is enough"
    )
    assert answered.stdout == f"{run}: sign is approved.\n", answered.stderr
    again = bob.noetl(
        "execution", "approve", run, "--set", "amount=100", "--reason", "less is enough", "--json"
    )
    assert json.loads(again.stdout)["existing"] is True
    other = bob.noetl("execution", "reject", run)
    assert (other.returncode, "bob has answered step 'sign' already" in other.stderr) == (1, True)
    asking.kill("api")
    asking.start(*PARTS)

    page = carol.look(run)
    assert "bob: approve" in page
    assert "less is enough" in page
    fields = fields_of(page)
    foreign = carol.send(run, "https://evil.example", **fields, answer="approve")
    assert foreign.status_code == 403
    wrong = carol.send(run, **{**fields, "value.amount": "1000"}, answer="approve")
    assert (wrong.status_code, "must be at most 500" in wrong.text) == (422, True)
    given = carol.send(run, **{**fields, "value.amount": "90", "value.note": "fine"}, answer="approve")
    assert (given.status_code, given.headers["Location"]) == (303, f"/executions/{run}")
    asking.wait([run])
    result = carol.ask("GET", f"/api/executions/{run}/result").json()["result"]
    assert result == {"paid": 90, "by": ["bob", "carol"]}
    late = carol.send(run, **fields, answer="reject")
    assert (late.status_code, "has ended (completed)" in late.text) == (409, True)
    check_log(asking, alice, run)


def check_log(asking: Stack, alice: Person, run: str) -> None:
    """Each answer is there once, with who gave it."""
    events = alice.ask("GET", f"/api/executions/{run}/events?limit=1000").json()["events"]
    answers = [one for one in events if one["type"] == "approval.answered"]
    assert [(one["principal"], one["payload"]["values"]) for one in answers] == [
        ("bob", {"amount": 100, "note": None}),
        ("carol", {"amount": 90, "note": "fine"}),
    ]
    assert sum(one["type"] == "wait.matched" for one in events) == 1
    asking.check_log_of(run)
    audited = asking.sql("SELECT principal FROM event WHERE type = 'approval.answered' ORDER BY version")
    assert [row[0] for row in audited] == ["bob", "carol"]
