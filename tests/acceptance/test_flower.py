"""Flower as `noetl up` starts it, seen through the server by who has signed in, and by nobody
else."""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest
import requests

from noetl.client import Client
from tests import zygote
from tests.waiting import GUARD_S, until

from .playbooks import head
from .stack import environment, kill_all
from .test_up import left_behind

pytestmark = pytest.mark.acceptance

CANARY = "tr0ub4dor"
PLAYBOOK = head("shown") + (
    f"workload: {{secret: {CANARY}}}\n"
    """workflow:
  - step: count
    tool: {kind: python, input: {given: "{{ secret }}"}, code: "result = {'length': len(given)}"}
"""
)


@dataclass(frozen=True)
class Seen:
    """A stack of `noetl up`: its address, its admin's token, and the port of its Flower."""

    url: str
    admin: str
    port: int

    def sign_in(self, *scopes: str) -> requests.Session:
        """As a browser does it: the form, then the cookie."""
        with Client(self.url, self.admin) as client:
            token = client.create_token("somebody", list(scopes))["token"]
        session = requests.Session()
        session.headers["Origin"] = self.url
        page = session.get(f"{self.url}/login", timeout=GUARD_S).text
        (mark,) = re.findall(r'name="form_key" value="([^"]+)"', page)
        form = {"form_key": mark, "token": token, "next": "/"}
        answer = session.post(f"{self.url}/login", data=form, timeout=GUARD_S, allow_redirects=False)
        assert answer.status_code == 303, answer.text
        return session


def noetl(home: Path, *words: str, expect: int = 0, **settings: object) -> str:
    run = zygote.run(
        ["noetl", *words],
        env=environment({"home": home, "open": "false", **settings}),
        capture_output=True,
        text=True,
        timeout=GUARD_S,
    )
    assert run.returncode == expect, run.stdout + run.stderr
    return str(run.stdout if not expect else run.stderr)


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Seen]:
    home = tmp_path_factory.mktemp("seen") / "home"
    try:
        noetl(home, "up", "--detach", "--port", "0", "-c", "1")
        found = json.loads(noetl(home, "status", "--json"))
        listens = [
            one.laddr.port
            for one in psutil.Process(found["pids"]["flower"]).net_connections("inet")
            if one.status == psutil.CONN_LISTEN
        ]
        assert found["flower"] == f"{found['api']}/flower/"
        yield Seen(found["api"], (home / "token").read_text().strip(), listens[0])
    finally:
        kill_all(left_behind(home))


def ask(
    seen: Seen, session: requests.Session, path: str, method: str = "GET", **more: Any
) -> requests.Response:
    return session.request(
        method, f"{seen.url}/flower/{path}", timeout=GUARD_S, allow_redirects=False, **more
    )


def test_flower_is_seen_by_who_has_signed_in_and_names_no_payload(seen: Seen) -> None:
    with Client(seen.url, seen.admin) as client:
        started = client.start(client.register(PLAYBOOK).path)
        client.wait(started.execution_id, GUARD_S)
    reader = seen.sign_in("read")
    assert "Workers" in ask(seen, reader, "").text
    columns = {"draw": 1, "start": 0, "length": 10, "search[value]": "", "order[0][column]": 0}
    columns |= {"order[0][dir]": "asc", "columns[0][data]": "name"}

    def names() -> list[str]:
        found = ask(seen, reader, "tasks/datatable", "POST", data=columns)
        assert found.status_code == 200, found.text
        return [one["name"] for one in found.json()["data"]]

    until(lambda: any(name.endswith("shown:count") for name in names()), "Flower to show the step")
    (task,) = (
        name
        for name, one in ask(seen, reader, "api/tasks").json().items()
        if one["name"].endswith("shown:count")
    )
    page = ask(seen, reader, f"task/{task}")
    assert (page.status_code, started.execution_id in page.text) == (200, True)
    shown = [page, *(ask(seen, reader, path) for path in ("tasks", "api/tasks", f"api/task/info/{task}"))]
    assert not [one.url for one in shown if CANARY in one.text]


def test_files_pages_and_numbers_of_flower_are_all_below_one_path(seen: Seen) -> None:
    reader = seen.sign_in("read")
    for path in ("", "workers", "tasks", "broker"):
        page = ask(seen, reader, path)
        assert page.status_code == 200, path
        led = re.findall(r'(?:href|src)="(/[^"]*)"', page.text)
        assert led
        assert [one for one in led if not one.startswith("/flower")] == []
    for path in set(re.findall(r'(?:href|src)="/flower/(static/[^"]*)"', page.text)):
        assert ask(seen, reader, path).status_code == 200, path
    assert "flower_events_total" in ask(seen, reader, "metrics").text
    missing = ask(seen, reader, "nothing")
    assert (missing.status_code, "sandbox" in missing.headers["Content-Security-Policy"]) == (404, True)


def test_flower_says_nothing_to_anybody_else(seen: Seen) -> None:
    for path in ("", "tasks", "static/js/flower.js", "metrics", "healthcheck", "api/workers"):
        answer = ask(seen, requests.Session(), path)
        assert (answer.status_code, answer.headers["Location"].split("?")[0]) == (303, "/login")
        direct = requests.get(f"http://127.0.0.1:{seen.port}/flower/{path}", timeout=GUARD_S)
        # What anybody may have, of whatever Flower there is: its files, and that it lives.
        is_open = path.startswith("static/") or path in ("healthcheck", "metrics")
        assert direct.status_code == (200 if is_open else 401), path
    with socket.socket() as probe, pytest.raises(ConnectionRefusedError):
        probe.connect(("127.0.0.2", seen.port))


def test_only_who_may_operate_everything_steers_workers_and_nobody_sends_tasks(seen: Seen) -> None:
    reader, operator = seen.sign_in("read"), seen.sign_in("operate")
    workers = until(
        lambda: list(ask(seen, reader, "api/workers?refresh=1").json()), "Flower to know the workers"
    )
    (code,) = (one for one in workers if one.startswith("code@"))
    grow = f"api/worker/pool/grow/{code}?n=1"
    assert ask(seen, reader, grow, "POST").status_code == 403
    assert ask(seen, operator, grow, "POST", headers={"Origin": "null"}).status_code == 403
    assert ask(seen, operator, grow).status_code in (404, 405), "GET changes nothing"
    answer = ask(seen, operator, grow, "POST")
    assert (answer.status_code, "Growing" in answer.text) == (200, True), answer.text
    for task in ("async-apply", "apply", "send-task"):
        for method in ("GET", "POST"):
            answer = ask(seen, operator, f"api/task/{task}/noetl.run", method)
            assert answer.status_code == 403, (task, method)


def test_no_flower_is_started_beside_one_that_is_named(tmp_path: Path) -> None:
    named: dict[str, object] = {"flower_url": "http://127.0.0.2:1"}
    up = ("up", "--detach", "--port", "0", "-c", "1")
    assert "set NOETL_FLOWER_AUTH=name:password" in noetl(tmp_path, *up, expect=1, **named)
    named["flower_auth"] = "noetl:pass-word"
    try:
        noetl(tmp_path, *up, **named)
        found = json.loads(noetl(tmp_path, "status", "--json", **named))
        assert "flower" not in found["pids"]
        assert found["flower"] == f"{found['api']}/flower/"
        token = (tmp_path / "token").read_text().strip()
        asked = Seen(found["api"], token, 1).sign_in("read").get(found["flower"], timeout=GUARD_S)
        assert (asked.status_code, "No Flower answers at http://127.0.0.2:1." in asked.text) == (503, True)
    finally:
        kill_all(left_behind(tmp_path))


def test_a_server_does_not_start_for_a_flower_that_everybody_in_a_network_may_use(tmp_path: Path) -> None:
    said = noetl(tmp_path, "server", "--port", "0", expect=4, flower_url="http://127.0.0.2:1")
    (line,) = [one for one in said.splitlines() if one.startswith("error: ")]
    assert "set NOETL_FLOWER_AUTH=name:password" in line
