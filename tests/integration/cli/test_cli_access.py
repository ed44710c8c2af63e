"""Tokens, the audit, and as whom commands ask."""

from __future__ import annotations

import csv
import json
import os
import socket
import stat
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from noetl import bootstrap
from noetl.cli.sent_token import token_for
from noetl.config import Settings
from noetl.dispatch.null import NullDispatcher
from noetl.errors import ConfigError, Unauthenticated
from noetl.local_access import find_good_token, keep_first_token, local_caller, read_token
from noetl.store.migrate import upgrade
from noetl.usecases import catalog, tokens
from noetl.usecases.runtime import Runtime
from tests import httpd

from .conftest import GATED, Cli


def audit(cli: Cli, *options: str) -> list[dict[str, Any]]:
    """What was asked for, oldest first."""
    ended = cli("audit", "--json", *options)
    assert ended.code == 0, ended.err
    found: list[dict[str, Any]] = json.loads(ended.out)
    return found[::-1]


# --- tokens --------------------------------------------------------------------------------------


def test_a_token_is_printed_alone_and_once_and_is_good(cli: Cli, home: Path) -> None:
    made = cli("token", "create", "ci", "--scope", "run:etl/*", "--scope", "read", "--rate", "100/minute")
    text = made.out.removesuffix("\n")
    assert (made.code, text.split()) == (0, [text])
    assert "is ci's, may run:etl/*, read, and is good until 20" in made.err
    quiet = cli("token", "create", "ops", "--scope", "operate", "--group", "sre", "--expires", "never", "-q")
    assert (quiet.code, quiet.err) == (0, "")
    with running(home) as rt:
        principal = tokens.recognize(rt, text)
        assert (principal.name, principal.rate) == ("ci", "100/minute")
        assert list(map(str, principal.grants)) == ["run:etl/*", "read"]
        assert tokens.recognize(rt, quiet.out.strip()).groups == ("sre",)
    said = cli("token", "list").out + cli("token", "list", "--json").out + cli("audit").out
    kept = b"".join(file.read_bytes() for file in home.rglob("*") if file.is_file())
    for one in (text, quiet.out.strip()):
        secret = one.split("_", 2)[2]
        assert secret not in said
        assert secret.encode() not in kept


def running(home: Path) -> Any:
    return bootstrap.local(Settings(home=home))


def test_the_list_says_what_each_may_and_how_it_is(cli: Cli, home: Path) -> None:
    made = json.loads(cli("token", "create", "ci", "--scope", "run", "--json").out)
    assert made["token"].startswith(f"noetl_{made['token_id']}_")
    cli("token", "create", "brief", "--scope", "read", "--expires", "0.001s")
    cli("token", "create", "ada", "--scope", "admin", "--expires", "never", "--group", "dev")
    with running(home) as rt:
        tokens.recognize(rt, made["token"])
    assert cli("token", "revoke", made["token"]).out == f"Token {made['token_id']} of ci is revoked.\n"
    rows = json.loads(cli("token", "list", "--json").out)
    assert [(one["principal"], one["scopes"], one["state"]) for one in rows] == [
        ("ci", ["run"], "revoked"),
        ("brief", ["read"], "expired"),
        ("ada", ["admin"], "good"),
    ]
    assert [bool(one["used_at"]) for one in rows] == [True, False, False]
    assert rows[2]["created_by"] == local_caller().principal
    assert "token" not in rows[0]
    header, *lines = [line.split("\t") for line in cli("token", "list").out.splitlines()]
    assert header[:4] == ["id", "principal", "scopes", "state"]
    assert lines[2][1:4] == ["ada", "admin", "good"]
    assert "never" in lines[2]


def test_what_was_revoked_is_no_longer_good(cli: Cli, home: Path) -> None:
    text = cli("token", "create", "ci", "--scope", "run", "-q").out.strip()
    assert cli("token", "revoke", text.split("_")[1]).code == 0
    assert cli("token", "revoke", text.split("_")[1]).code == 0
    with running(home) as rt, pytest.raises(Unauthenticated, match="was revoked"):
        tokens.recognize(rt, text)


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["create", "ci"], "Missing option '--scope'"),
        (["create", "ci", "--scope", "rum"], "Did you mean 'run'?"),
        (["create", "ci", "--scope", "work:python"], "Workers use no token and need no scope"),
        (["create", "ci", "--scope", "run:"], "grants no path"),
        (["create", "two words", "--scope", "run"], "is no name for a principal"),
        (["create", "anonymous", "--scope", "run"], "is no name for a principal"),
        (["create", "ci", "--scope", "run", "--expires", "soon"], "--expires never, or for how long: 'soon'"),
        (["create", "ci", "--scope", "run", "--expires", "0"], "A token is good for up to 3660 days"),
        (["create", "ci", "--scope", "run", "--rate", "many"], "write it like 100/minute"),
        (["create", "ci", "--scope", "run", "--group", ""], "is no name for a group"),
        (["revoke", "nothing"], "There is no token 'nothing'"),
    ],
)
def test_what_was_typed_wrongly_makes_no_token(cli: Cli, argv: list[str], message: str) -> None:
    ended = cli("token", *argv)
    assert (ended.code, ended.out) == (2, "")
    assert message in ended.err
    assert json.loads(cli("token", "list", "--json").out) == []


def test_the_help_says_that_workers_need_no_token(cli: Cli) -> None:
    said = " ".join(cli("token", "create", "--help").out.split())
    assert (
        "Workers use no token and need no scope: they reach the database and the broker themselves." in said
    )


def test_the_id_that_was_meant_is_named(cli: Cli) -> None:
    token_id = json.loads(cli("token", "create", "ci", "--scope", "run", "--json").out)["token_id"]
    assert f"Did you mean '{token_id}'?" in cli("token", "revoke", token_id[:-1]).err


# --- as whom commands ask ------------------------------------------------------------------------


def test_every_command_asks_as_the_user_in_one_request(cli: Cli) -> None:
    def waiting() -> str:
        execution_id: str = json.loads(cli("run", "gated.yaml", "--no-wait", "--json").out)["execution_id"]
        return execution_id

    assert cli("catalog", "register", "sum.yaml").code == 0
    first, second = waiting(), waiting()
    Path("newer.yaml").write_text(f"{GATED}# newer\n")
    steps = [
        ["execution", "patch", first, "--set", "later=1"],
        ["execution", "pause", first],
        ["execution", "cancel", first],
        ["execution", "cancel", second],
        ["execution", "retry", first, "--quiet", "--playbook", "newer.yaml"],
        ["credential", "set", "db", "--type", "generic", "--data", '{"password": "topsecret"}'],
        ["credential", "delete", "db"],
        ["token", "create", "ci", "--scope", "run"],
    ]
    for argv in steps:
        ended = cli(*argv)
        assert ended.code in (0, 3), (argv, ended.err)
    found = audit(cli)
    assert {one["principal"] for one in found} == {local_caller().principal}
    acted = [one["action"] for one in found if one["action"] != "playbook.registered"]
    assert acted == [
        "playbook.execution.requested",
        "playbook.execution.requested",
        "ctx.patched",
        "playbook.pause.requested",
        "playbook.cancel.requested",
        "playbook.cancel.requested",
        "playbook.execution.requested",
        "credential.saved",
        "credential.deleted",
        "token.created",
    ]
    requests = [one["request_id"] for one in found]
    by_request = {name: {one["action"] for one in found if one["request_id"] == name} for name in requests}
    # The first run and the retry register and start, in one request; other commands do one thing.
    assert [sorted(actions) for actions in by_request.values() if len(actions) > 1] == [
        ["playbook.execution.requested", "playbook.registered"]
    ] * 2
    assert len(by_request) == 1 + 2 + len(steps)
    assert "topsecret" not in cli("audit", "--format", "jsonl").out


def test_the_audit_is_filtered_by_who_what_and_when(cli: Cli) -> None:
    run = json.loads(cli("run", "sum.yaml", "--json", "--key", "order-7").out)["execution_id"]
    cli("token", "create", "ci", "--scope", "run")
    assert [one["action"] for one in audit(cli, "--action", "token")] == ["token.created"]
    assert audit(cli, "--action", "tok") == []
    assert [one["subject"] for one in audit(cli, "--execution", run)] == [run]
    me = local_caller().principal
    assert len(audit(cli, "--principal", me)) == 3
    assert audit(cli, "--principal", "somebody") == []
    one = audit(cli, "--action", "token.created")[0]
    assert audit(cli, "--request", one["request_id"]) == [one]
    assert len(audit(cli, "--since", "1h")) == 3
    assert audit(cli, "--until", "1h") == []
    assert audit(cli, "--since", one["recorded_at"]) == [one]
    assert one not in audit(cli, "--until", one["recorded_at"])
    assert audit(cli, "--since", "2999-01-01") == []
    assert audit(cli, "--limit", "1") == [one]


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["--since", "yesterday"], "--since 'yesterday' is no instant"),
        (["--until", "2026-13-01"], "--until '2026-13-01' is no instant"),
        (["--execution", "12"], "There is no execution '12'."),
        (["--json", "--format", "csv"], "contradict each other"),
        (["--format", "xml"], "'jsonl'"),
        (["--limit", "0"], "--limit"),
    ],
)
def test_an_audit_that_cannot_be_asked_for_is_said_so(cli: Cli, argv: list[str], message: str) -> None:
    ended = cli("audit", *argv)
    assert (ended.code, ended.out) == (2, "")
    assert message in ended.err


def test_exports_have_all_that_matches_and_tables_the_newest(
    cli: Cli, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("noetl.usecases.audit.PAGE", 7)
    with running(home) as rt:
        asking = rt.acting_for(local_caller())
        for number in range(60):
            with asking.store.begin() as tx:
                asking.record(tx, "thing.done", f"=thing {number}", {"n": number})
    lines = cli("audit", "--format", "jsonl").out.splitlines()
    assert [json.loads(line)["detail"]["n"] for line in lines] == list(range(59, -1, -1))
    rows = list(csv.DictReader(cli("audit", "--format", "csv").out.splitlines()))
    assert [json.loads(row["detail"])["n"] for row in rows] == list(range(59, -1, -1))
    # No spreadsheet computes it.
    assert rows[0]["subject"] == "'=thing 59"
    assert len(cli("audit").out.splitlines()) == 51
    assert len(json.loads(cli("audit", "--json", "--limit", "55").out)) == 55
    assert len(cli("audit", "--format", "csv", "--limit", "3").out.splitlines()) == 4


# --- the first token -----------------------------------------------------------------------------


@pytest.fixture
def settings(home: Path) -> Settings:
    made = Settings(home=home)
    made.make_home()
    upgrade(made.database)
    return made


@pytest.fixture
def rt(settings: Settings) -> Iterator[Runtime]:
    opened = bootstrap.runtime(settings, NullDispatcher())
    yield opened
    bootstrap.close(opened)


def test_the_first_start_leaves_a_token_that_only_its_user_reads(rt: Runtime, settings: Settings) -> None:
    before = os.umask(0)
    try:
        keep_first_token(rt, settings)
    finally:
        os.umask(before)
    assert stat.S_IMODE(settings.token_file.stat().st_mode) == 0o600
    text = settings.token_file.read_text().removesuffix("\n")
    principal = tokens.recognize(rt, text)
    assert (principal.name, principal.may("admin")) == ("admin", True)
    (row,) = tokens.tokens(rt)
    assert (row.expires_at, row.created_by) == (None, local_caller().principal)
    assert [one.name for one in settings.home_dir.iterdir() if one.name.endswith(".draft")] == []


def test_a_database_has_one_first_token(rt: Runtime, settings: Settings, tmp_path: Path) -> None:
    keep_first_token(rt, settings)
    settings.token_file.unlink()
    keep_first_token(rt, settings)
    assert not settings.token_file.exists()
    elsewhere = Settings(home=tmp_path / "elsewhere", database_url=settings.database)
    keep_first_token(rt, elsewhere)
    assert not elsewhere.token_file.exists()


def test_another_database_of_the_same_home_takes_the_token_that_is_there(
    rt: Runtime, settings: Settings, tmp_path: Path
) -> None:
    keep_first_token(rt, settings)
    text = read_token(settings.token_file)
    assert text is not None
    other = Settings(home=settings.home, database_url=f"sqlite:///{tmp_path}/other.db")
    upgrade(other.database)
    there = bootstrap.runtime(other, NullDispatcher())
    try:
        keep_first_token(there, other)
        assert tokens.recognize(there, text).name == "admin"
    finally:
        bootstrap.close(there)
    assert read_token(settings.token_file) == text
    assert find_good_token(rt, settings) == text


def test_a_start_that_died_between_file_and_database_is_made_up_for(rt: Runtime, settings: Settings) -> None:
    kept: list[str] = []

    def die(text: str) -> None:
        kept.append(text)
        settings.token_file.write_text(text)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        tokens.create_first(rt, die)
    assert not tokens.has_first(rt)
    keep_first_token(rt, settings)
    assert find_good_token(rt, settings) == kept[0]


@pytest.mark.parametrize("content", [b"", b"something else", b"\xff\xfe", b"noetl_admin_short"])
def test_what_else_stands_in_the_place_of_the_token_is_not_overwritten(
    rt: Runtime, settings: Settings, content: bytes
) -> None:
    settings.token_file.write_bytes(content)
    with pytest.raises(ConfigError, match="move it away"):
        keep_first_token(rt, settings)
    assert settings.token_file.read_bytes() == content
    assert tokens.tokens(rt) == []


@pytest.mark.skipif(os.geteuid() == 0, reason="root writes everywhere")
def test_a_home_that_cannot_be_written_is_said_so(rt: Runtime, settings: Settings) -> None:
    settings.home_dir.chmod(0o500)
    try:
        with pytest.raises(ConfigError, match="cannot be written to"):
            keep_first_token(rt, settings)
    finally:
        settings.home_dir.chmod(0o700)


def test_a_token_that_cannot_be_kept_is_said_so_unless_somebody_has_another(
    rt: Runtime, settings: Settings, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("no directory")
    blocked = Settings(home=tmp_path / "file" / "home", database_url=settings.database)
    with pytest.raises(ConfigError):
        keep_first_token(rt, blocked)
    assert tokens.tokens(rt) == []
    full = Settings(home=Path("/proc"), database_url=settings.database)
    with pytest.raises(ConfigError, match=r"cannot be written to /proc/token \(.*NOETL_HOME"):
        keep_first_token(rt, full)
    assert tokens.tokens(rt) == []
    tokens.create(rt, "ada", ["admin"])
    keep_first_token(rt, full)
    assert [row.principal for row in tokens.tokens(rt)] == ["ada"]


# --- which token is sent -------------------------------------------------------------------------


@pytest.fixture
def server() -> Iterator[httpd.Server]:
    running = httpd.started()
    running.routes["/api/whoami"] = lambda to: to.json(
        {"principal": "ci", "groups": [], "scopes": ["run"], "token_id": "abc", "open": False}
    )
    yield running
    httpd.stopped(running)


def sent(server: httpd.Server) -> str | None:
    found: str | None = server.seen[-1]["headers"].get("authorization")
    return found


def test_commands_send_the_setting_else_the_token_of_the_home(
    cli: Cli, server: httpd.Server, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert cli("whoami", "--server", server.url).code == 0
    assert sent(server) is None
    home.mkdir()
    (home / "token").write_text("noetl_admin_kept\n")
    assert cli("whoami", "--server", server.url).code == 0
    assert sent(server) == "Bearer noetl_admin_kept"
    monkeypatch.setenv("NOETL_TOKEN", "noetl_abc_given")
    ended = cli("whoami", "--server", server.url)
    assert sent(server) == "Bearer noetl_abc_given"
    assert ended.out.splitlines()[:2] == ["Principal:  ci (token abc)", "Scopes:     run"]
    assert json.loads(cli("whoami", "--server", server.url, "--json").out)["open"] is False


def test_without_a_server_the_one_of_the_settings_is_asked(
    cli: Cli, server: httpd.Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NOETL_PORT", server.url.rpartition(":")[2])
    assert "ci" in cli("whoami").out


@pytest.mark.parametrize(
    ("server", "is_sent"),
    [
        ("http://127.0.0.1:1", True),
        ("http://localhost", True),
        ("http://[::1]:9", True),
        ("http://build.example:8642", True),
        ("http://BUILD.example:8642/", True),
        ("http://build.example:8643", False),
        ("https://build.example", False),
        ("http://build.example", False),
        ("http://ada@build.example:8642", False),
        ("http://build.example:8642@evil.example", False),
        ("http://evil.example", False),
        ("http://evil.example:8642", False),
        ("http://127.0.0.1@evil.example:8642", False),
        ("http://evil.example:8642\\@127.0.0.1", False),
        ("http://127.0.0.1.evil.example:8642", False),
        ("http://build.example:port", False),
    ],
)
def test_the_token_of_the_home_leaves_for_no_other_server(home: Path, server: str, *, is_sent: bool) -> None:
    home.mkdir()
    (home / "token").write_text("noetl_admin_kept\n")
    settings = Settings(home=home, host="build.example", port=8642)
    assert token_for(server, settings) == ("noetl_admin_kept" if is_sent else None)


def test_another_address_of_this_machine_is_sent_nothing(cli: Cli, home: Path) -> None:
    address = outer_address()
    if address is None:
        pytest.skip("this machine has no address but those of loopback")
    home.mkdir()
    (home / "token").write_text("noetl_admin_kept\n")
    with socket.socket() as listening:
        listening.bind((address, 0))
        listening.listen()
        listening.settimeout(20)
        heard: list[bytes] = []

        def answer() -> None:
            connection, _ = listening.accept()
            with connection:
                heard.append(connection.recv(65536))
                connection.sendall(b"HTTP/1.1 404 No\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}")

        thread = threading.Thread(target=answer)
        thread.start()
        cli("whoami", "--server", f"http://{address}:{listening.getsockname()[1]}")
        thread.join()
    assert heard[0].startswith(b"GET /api/whoami")
    assert b"noetl_admin_kept" not in heard[0]


def outer_address() -> str | None:
    found = [
        one.address for all_ in psutil.net_if_addrs().values() for one in all_ if one.family == socket.AF_INET
    ]
    return next((address for address in found if not address.startswith("127.")), None)


@pytest.mark.parametrize(("status", "code"), [(401, 2), (403, 2), (429, 1)])
def test_what_a_server_refuses_is_said_with_what_to_do(
    cli: Cli, server: httpd.Server, status: int, code: int
) -> None:
    server.routes["/api/whoami"] = lambda to: to.json({"detail": "No."}, status=status, retry_after="0")
    ended = cli("whoami", "--server", server.url)
    assert (ended.code, ended.out) == (code, "")
    assert f"No. (HTTP {status})" in ended.err
    assert ("Set NOETL_TOKEN" in ended.err) == (status == 401)


# --- doctor --------------------------------------------------------------------------------------


def tokens_line(cli: Cli) -> dict[str, Any]:
    found: dict[str, Any] = next(
        one for one in json.loads(cli("doctor", "--json").out) if one["name"] == "tokens"
    )
    return found


ASKS = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: asks, path: tests/asks}
workflow:
  - step: start
    tool:
      - post: {kind: noop, input: {to: "{{ callback.answer.url }}"}}
      - answer: {kind: wait, callback: {}}
"""


def test_doctor_says_where_services_call_back(cli: Cli, rt: Runtime, monkeypatch: pytest.MonkeyPatch) -> None:
    def line() -> dict[str, Any]:
        found = json.loads(cli("doctor", "--json").out)
        return next(one for one in found if one["name"] == "callbacks")  # type: ignore[no-any-return]

    assert line()["detail"] == "services are handed addresses below http://127.0.0.1:8642"
    monkeypatch.setenv("NOETL_HOST", "0.0.0.0")
    assert line()["ok"], "no playbook needs it"
    catalog.register(rt, ASKS)
    found = line()
    assert (found["ok"], "tests/asks waits for a call" in found["detail"]) == (False, True)
    assert "NOETL_PUBLIC_URL" in found["advice"]
    monkeypatch.setenv("NOETL_PUBLIC_URL", "https://noetl.example.com")
    assert line()["ok"]


def test_doctor_says_how_it_is_with_tokens(
    cli: Cli, rt: Runtime, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "is made by the first start" in tokens_line(cli)["detail"]
    keep_first_token(rt, settings)
    found = tokens_line(cli)
    assert found["ok"]
    assert str(settings.token_file) in found["detail"]
    settings.token_file.chmod(0o644)
    found = tokens_line(cli)
    assert (found["ok"], found["advice"]) == (False, f"Run `chmod 600 {settings.token_file}`.")
    settings.token_file.chmod(0o600)
    text = read_token(settings.token_file)
    assert text is not None
    monkeypatch.setenv("NOETL_TOKEN", text)
    assert "NOETL_TOKEN is set" in tokens_line(cli)["detail"]
    assert text not in cli("doctor").out
    monkeypatch.setenv("NOETL_OPEN", "true")
    assert tokens_line(cli)["ok"]
    monkeypatch.setenv("NOETL_HOST", "0.0.0.0")
    found = tokens_line(cli)
    assert not found["ok"]
    assert "who can reach 0.0.0.0:8642 may run code here without a token" in found["detail"]
