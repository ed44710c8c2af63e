"""Who may ask, seen from outside: real starts in an empty home, and a caller that knows only HTTP
and the command."""

from __future__ import annotations

import json
import stat
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import requests

from noetl.cli.services import server_argv
from noetl.client import Client
from noetl.config import Settings
from noetl.errors import TooManyRequests, Unauthenticated
from noetl.store.migrate import upgrade
from tests import zygote
from tests.ports import free_port
from tests.waiting import GUARD_S, until

from .stack import ROOT, environment, fork

pytestmark = pytest.mark.acceptance

#: What a user types, who has no database yet.
SERVER = ("noetl", "server", "--port", "{port}")
GUNICORN = ("gunicorn", "--bind", "127.0.0.1:{port}", "noetl.wsgi:app")

PLAYBOOK = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: asked, path: etl/asked}
workflow: [{step: start, tool: {kind: noop}}]
"""


def noetl(home: Path, *words: str, **settings: object) -> subprocess.CompletedProcess[str]:
    done = zygote.run(
        ["noetl", *words],
        cwd=ROOT,
        env=environment({"home": home, **settings}),
        capture_output=True,
        text=True,
        timeout=GUARD_S,
    )
    assert "Traceback" not in done.stderr, done.stderr
    return done


@contextmanager
def serving(home: Path, log: Path, *words: str, **settings: object) -> Iterator[str]:
    """The address of a server in a process of its own, on a database that is there, once it
    answers; `words` start another one. What it says is in `log`."""
    port = free_port()
    variables = environment({"home": home, "port": port, **settings})
    if not words:
        here = Settings.from_env(variables)
        here.make_home()
        upgrade(here.database)
        words = ("gunicorn", *server_argv("127.0.0.1", port))
    log.unlink(missing_ok=True)
    process = fork([word.format(port=port) for word in words], log, variables)
    try:
        url = f"http://127.0.0.1:{port}"

        def answers() -> bool:
            assert process.poll() is None, log.read_text()
            try:
                return requests.get(f"{url}/api/health", timeout=GUARD_S).status_code in (200, 503)
            except requests.RequestException:
                return False

        until(answers, "the server to answer")
        yield url
    finally:
        process.terminate()
        process.wait(GUARD_S)


def ask(url: str, token: str | None = None, method: str = "GET", **more: Any) -> requests.Response:
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    headers |= more.pop("headers", {})
    return requests.request(method, url, headers=headers, timeout=GUARD_S, **more)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "server.log"


def first_token(home: Path) -> str:
    file = home / "token"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    return file.read_text().strip()


def test_a_server_in_an_empty_home_leaves_a_token_and_asks_strangers_who_they_are(
    home: Path, log: Path
) -> None:
    with serving(home, log, *SERVER) as url:
        token = first_token(home)
        assert ask(f"{url}/api/executions").status_code == 200
        assert ask(f"{url}/api/whoami").json()["principal"] == "anonymous"
        assert ask(f"{url}/api/whoami", token).json()["principal"] == "admin"
        for name in ("X-Forwarded-For", "Forwarded", "Via"):
            refused = ask(f"{url}/api/executions", headers={name: "203.0.113.7"})
            assert (refused.status_code, refused.headers["WWW-Authenticate"][:6]) == (401, "Bearer")
            assert ask(f"{url}/api/executions", token, headers={name: "203.0.113.7"}).status_code == 200
    # Another start makes no other one.
    with serving(home, log) as url:
        assert first_token(home) == token
        assert ask(f"{url}/api/whoami", token).json()["token_id"] == "admin"
    said = log.read_text()
    assert token not in said
    assert "NOETL_OPEN" not in said


def test_whoever_asks_needs_a_token_where_the_server_is_told_so(home: Path, log: Path) -> None:
    with serving(home, log, open="false") as url:
        token = first_token(home)
        assert ask(f"{url}/api/health").status_code == 200
        assert ask(f"{url}/api/executions").status_code == 401
        assert ask(f"{url}/api/executions", token[:-1] + "x").status_code == 401
        assert ask(f"{url}/api/executions", token).status_code == 200

        made = noetl(home, "token", "create", "reader", "--scope", "read")
        reader = made.stdout.strip()
        assert made.stdout == f"{reader}\n"
        body = {"content": PLAYBOOK}
        assert ask(f"{url}/api/catalog", token, "POST", json=body).status_code in (200, 201)
        start = {"path": "etl/asked"}
        assert ask(f"{url}/api/executions", reader).status_code == 200
        refused = ask(f"{url}/api/executions", reader, "POST", json=start)
        assert refused.status_code == 403
        assert "run" in refused.json()["detail"]
        started = ask(f"{url}/api/executions", token, "POST", json=start)
        assert started.status_code == 202

        # Commands on this machine send the token of the home.
        who = json.loads(noetl(home, "whoami", "--server", url, "--json").stdout)
        assert (who["principal"], who["open"]) == ("admin", False)
        unknown = noetl(home, "whoami", "--server", url, token="noetl_nobody_x")
        assert unknown.returncode == 2
        assert "Set NOETL_TOKEN" in unknown.stderr

        assert noetl(home, "token", "revoke", reader.split("_")[1]).returncode == 0
        assert ask(f"{url}/api/executions", reader).status_code == 401

        execution = started.json()["execution_id"]
        entries = json.loads(noetl(home, "audit", "--json").stdout)
        found = {(one["principal"], one["action"], one["subject"]) for one in entries}
        me = noetl_user(entries)
        assert ("admin", "playbook.registered", "etl/asked") in found
        assert ("admin", "playbook.execution.requested", execution) in found
        assert (me, "token.created", reader.split("_")[1]) in found
        assert (me, "token.revoked", reader.split("_")[1]) in found
        assert not any(principal == "reader" for principal, _, _ in found)
        ids = {one["request_id"] for one in entries if one["subject"] == execution}
        assert ids == {started.headers["X-Request-ID"]}
        assert ask(f"{url}/api/audit", token).json()["entries"] == entries
    for text in (token, reader):
        assert text not in log.read_text()


def noetl_user(entries: list[dict[str, Any]]) -> str:
    (found,) = {one["principal"] for one in entries if one["principal"].startswith("os:")}
    return str(found)


def test_a_program_gives_and_takes_tokens(home: Path, log: Path) -> None:
    with serving(home, log, open="false") as url, Client(url, first_token(home)) as admin:
        made = admin.create_token("ci", ["run:etl/*"], expires_s=None, rate="1/hour")
        with Client(url, made["token"]) as ci:
            assert ci.whoami()["scopes"] == ["run:etl/*"]
            # Who has to wait for an hour is not made to. Hours are those of the clock: where one
            # ends behind the first call, a second one is granted.
            with pytest.raises(TooManyRequests) as refused:
                _ = [ci.whoami() for _ in range(2)]
            assert refused.value.retry_after_s > 60
        admin.revoke_token(made["token_id"])
        with Client(url, made["token"]) as ci, pytest.raises(Unauthenticated):
            ci.whoami()
        assert [one["principal"] for one in admin.list_tokens()] == ["admin", "ci"]
        entries = admin.audit(action="token", principal="admin")
        assert [one["action"] for one in entries] == ["token.revoked", "token.created"]


def test_plain_gunicorn_leaves_the_token_as_soon_as_there_is_a_database(home: Path, log: Path) -> None:
    with serving(home, log, *GUNICORN) as url:
        assert not (home / "token").exists()
        assert noetl(home, "db", "upgrade").returncode == 0
        assert ask(f"{url}/api/health").status_code == 200
        assert ask(f"{url}/api/whoami", first_token(home)).json()["principal"] == "admin"


def test_a_start_that_cannot_keep_the_token_says_which_file_and_what_to_do(home: Path) -> None:
    home.mkdir()
    (home / "token").mkdir()
    for words in (("server",), ("up", "--no-flower", "--port", "0")):
        done = noetl(home, *words)
        assert done.returncode == 2
        assert f"{home}/token" in done.stderr
        assert "move it away" in done.stderr


@pytest.mark.parametrize("words", [SERVER, GUNICORN], ids=["noetl", "gunicorn"])
def test_an_open_server_warns_once_at_each_start(home: Path, log: Path, words: tuple[str, ...]) -> None:
    for _ in range(2 if words == GUNICORN else 1):
        with serving(home, log, *words, open="true") as url:
            who = ask(f"{url}/api/whoami", headers={"X-Forwarded-For": "203.0.113.7"})
            assert who.status_code in (200, 503)
        assert log.read_text().count("may run code here without a token; unset NOETL_OPEN") == 1
        noetl(home, "db", "upgrade")


def test_up_says_where_the_token_is_and_its_own_commands_send_it(home: Path, tmp_path: Path) -> None:
    file = tmp_path / "asked.yaml"
    file.write_text(PLAYBOOK)
    run = noetl(home, "up", "--no-flower", "--run", str(file), "--json", open="false")
    assert run.returncode == 0, run.stderr
    assert json.loads(run.stdout)["status"] == "completed"
    token = first_token(home)

    up = noetl(home, "up", "--detach", "--port", "0", "--host", "0.0.0.0")
    try:
        assert up.returncode == 0, up.stderr
        assert f"Token:       {home}/token" in up.stdout
        assert "Requests need a token" in up.stdout
        state = noetl(home, "status", "--json")
        assert state.returncode == 0, state.stdout
        found = json.loads(state.stdout)
        assert (found["needs_token"], found["token"]) == (True, f"{home}/token")
        assert found["flower"] == f"{found['api']}/flower/"
        url = found["api"]
        assert ask(f"{url}/api/executions").status_code == 401
        assert ask(f"{url}/api/executions", token).status_code == 200
        ran = noetl(home, "run", str(file), "--server", url, "--json")
        assert ran.returncode == 0, ran.stderr
    finally:
        down = noetl(home, "down")
    assert down.returncode == 0, down.stderr
    said = up.stdout + up.stderr + run.stderr
    said += "".join(one.read_text(errors="replace") for one in (home / "logs").iterdir())
    assert token not in said


@pytest.mark.full("a stack of its own")
def test_an_open_stack_warns_and_needs_no_token(home: Path, tmp_path: Path) -> None:
    file = tmp_path / "asked.yaml"
    file.write_text(PLAYBOOK)
    words = ("up", "--no-flower", "--host", "0.0.0.0", "--port", "0", "--run", str(file), "--json")
    run = noetl(home, *words, open="true", token="noetl_elsewhere_x")
    assert run.returncode == 0, run.stderr
    assert run.stderr.count("may run code here without a token") == 1


def test_a_home_without_the_token_of_its_database_goes_on(home: Path, tmp_path: Path) -> None:
    """Its database began elsewhere: the token in this home is for another one."""
    file = tmp_path / "asked.yaml"
    file.write_text(PLAYBOOK)
    other = tmp_path / "other"
    database = f"sqlite:///{tmp_path}/shared.db"
    for where, url in ((home, ""), (other, database)):
        settings = {"database_url": url} if url else {}
        if url:
            assert noetl(where, "db", "upgrade", **settings).returncode == 0
        log = tmp_path / f"{where.name}.log"
        with serving(where, log, **settings):
            first_token(where)
    run = noetl(home, "up", "--no-flower", "--run", str(file), "--json", database_url=database)
    assert run.returncode == 0, run.stderr
    assert "holds a token that this database does not take" in run.stderr
    assert (home / "token").exists()


@pytest.mark.parametrize("command", ["noetl server --port 0", "gunicorn noetl.wsgi:app --bind 127.0.0.1:0"])
def test_a_server_does_not_begin_with_an_issuer_that_cannot_be_trusted(home: Path, command: str) -> None:
    ended = zygote.run(
        command.split(),
        cwd=ROOT,
        env=environment({"home": home, "oidc_issuer": "http://issuer.example"}),
        capture_output=True,
        text=True,
        timeout=GUARD_S,
    )
    said = ended.stdout + ended.stderr
    assert ended.returncode != 0, said
    assert said.count("NOETL_OIDC_ISSUER='http://issuer.example' cannot be trusted") == 1, said
