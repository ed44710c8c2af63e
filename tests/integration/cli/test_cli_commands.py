"""Every other command, as a new user would try it."""

from __future__ import annotations

import json
import sqlite3
import subprocess
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from noetl.cli.console import align_columns
from noetl.cli.main import COMMANDS
from noetl.store import engine, open_store
from noetl.usecases.ports import WorkerRow

Cli = Callable[..., Any]

GROUPS = {
    "catalog": ["register", "list", "show"],
    "execution": [
        "list",
        "show",
        "events",
        "cancel",
        "pause",
        "resume",
        "patch",
        "replay",
        "explain",
        "diff",
    ],
    "credential": ["set", "list", "delete", "rotate"],
    "token": ["create", "list", "revoke"],
    "db": ["upgrade", "check"],
}
EVERY = [
    *((name,) for name in COMMANDS),
    *((group, name) for group, names in GROUPS.items() for name in names),
]


@pytest.mark.parametrize("command", EVERY, ids=" ".join)
def test_every_help_says_what_it_does_and_gives_an_example(cli: Cli, command: tuple[str, ...]) -> None:
    ended = cli(*command, "--help")
    assert ended.code == 0
    assert ended.out.startswith(f"Usage: noetl {' '.join(command)} [OPTIONS]")
    assert f"Example: noetl {command[0]}" in ended.out


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["catalgo"], "Did you mean 'catalog'?"),
        (["catalog", "lst"], "Did you mean 'list'?"),
        (["execution", "shwo", "1"], "Did you mean 'show'?"),
        (["execution", "list", "--status", "done"], "'completed'"),
        (["execution", "list", "--limit", "0"], "--limit"),
        (["execution", "show", "nonsense"], "There is no execution 'nonsense': nothing has that id"),
        (["execution", "show", "12"], "There is no execution '12'."),
        (["execution", "show", "9" * 40], "There is no execution"),
        (["execution", "events", "12"], "There is no execution '12'."),
        (["execution", "cancel", "12"], "There is no execution '12'."),
        (["execution", "patch", "12", "--set", "a=1"], "There is no execution '12'."),
        (["execution", "patch", "12"], "Missing option '--set'"),
        (["execution", "replay", "12", "--at", "x"], "--at"),
        (["execution", "explain", "12"], "There is no execution '12'."),
        (["execution", "explain", "12", "a", "b"], "unexpected extra argument"),
        (["execution", "diff", "12", "13"], "There is no execution '12'."),
        (["execution", "diff", "12"], "Missing argument 'B'"),
        (["catalog", "show", "nothing"], "There is no playbook 'nothing' in the catalog."),
        (["catalog", "register", "nothing.yaml"], "There is no file 'nothing.yaml'."),
        (["credential", "delete", "nothing"], "There is no credential 'nothing'."),
        (["credential", "delete", "nothing", "--path", "a", "--execution", "1"], "not for both"),
        (
            ["credential", "set", "x", "--type", "generic", "--data", '{"a": 1}', "--execution", "12"],
            "There is no execution '12'.",
        ),
        (["credential", "set", "x", "--type", "postgre", "--data", "{}"], "'postgres'"),
        (["credential", "set", "x", "--type", "generic", "--data", "{}"], "at least one field"),
        (
            ["credential", "set", "x y", "--type", "generic", "--data", '{"a": 1}'],
            "'x y' is not a credential name",
        ),
        (["credential", "set", "x", "--type", "generic", "--data", "[1]"], "--data must hold a mapping"),
        (
            ["credential", "set", "x", "--type", "generic", "--data", "@nothing"],
            "There is no file 'nothing'.",
        ),
        (["credential", "set", "x", "--type", "postgres", "--data", '{"hots": "db"}'], "has no host"),
        (
            ["credential", "set", "x", "--type", "postgres", "--data", '{"dsn": "%%%"}'],
            "`dsn` cannot be read",
        ),
        (["graph", "nothing.yaml"], "There is no file 'nothing.yaml'."),
        (["graph", "sum.yaml", "--format", "svg"], "'mermaid'"),
        (["validate"], "Missing argument"),
        (["validate", "sum.yaml", "--format", "xml"], "'json'"),
        (["schema", "--pretty"], "--pretty"),
        (["server", "--port", "65536"], "--port"),
        (["server", "--port", "http"], "--port"),
        (["worker"], "NOETL_BROKER_URL is not set"),
        (["scheduler"], "NOETL_BROKER_URL is not set"),
        (["worker", "--pool", "gevent"], "'threads'"),
        (["sweeper", "--interval", "0"], "--interval"),
    ],
    ids=lambda value: " ".join(value)[:40] if isinstance(value, list) else "",
)
def test_what_was_typed_wrongly_is_said_in_a_sentence_and_exits_2(
    cli: Cli, argv: list[str], message: str
) -> None:
    ended = cli(*argv)
    assert message in ended.err
    assert (ended.code, ended.out) == (2, "")


# --- validate, graph, schema ---------------------------------------------------------------------


def test_validate_answers_in_the_documented_shape(cli: Cli) -> None:
    Path("bad.yaml").write_text(Path("sum.yaml").read_text().replace("noop", "nope"))
    Path("binary.yaml").write_bytes(b"a: 1\nb: \xff")
    ended = cli("validate", "sum.yaml", "bad.yaml", "nothing.yaml", "binary.yaml", "--format", "json")
    answer = json.loads(ended.out)
    assert (ended.code, ended.err) == (2, "")
    assert list(answer) == ["ok", "problems"]
    assert answer["ok"] is False
    keys = ["file", "line", "column", "severity", "code", "path", "message", "hint"]
    assert [list(problem) for problem in answer["problems"]] == [keys] * 3
    places = [(problem["file"], problem["line"], problem["code"]) for problem in answer["problems"]]
    assert places == [
        ("bad.yaml", 7, "NOETL302"),
        ("nothing.yaml", 1, "NOETL114"),
        ("binary.yaml", 2, "NOETL102"),
    ]
    assert json.loads(cli("validate", "sum.yaml", "--format", "json").out) == {"ok": True, "problems": []}


def test_validate_in_text_is_one_line_for_each_problem(cli: Cli) -> None:
    Path("bad.yaml").write_text(Path("sum.yaml").read_text().replace("noop", "nope") + "load: {}\n")
    ended = cli("validate", "bad.yaml", "bda.yaml")
    assert ended.code == 2
    first, second, third = ended.out.splitlines()
    assert first.startswith(
        "bad.yaml:7:18: error[NOETL302]: no tool of kind 'nope' is installed (did you mean 'noop'?"
    )
    assert second.startswith("bad.yaml:9:1: warning[NOETL250]:")
    assert third == "bda.yaml:1:1: error[NOETL114]: There is no file 'bda.yaml'. Did you mean 'bad.yaml'?"
    assert ended.err == "2 playbooks: 2 errors, 1 warning.\n"


def test_validate_explains_a_code_with_examples(cli: Cli) -> None:
    ended = cli("validate", "--explain", "noetl302")
    assert (ended.code, ended.err) == (0, "")
    assert ended.out.startswith("### NOETL302\n\nA tool kind that is not installed. (Error.)\n")
    assert "did you mean 'python'?" in ended.out


def test_validate_names_the_nearest_code_of_one_that_there_is_not(cli: Cli) -> None:
    ended = cli("validate", "--explain", "NOETL30")
    assert ended.code == 2
    assert ended.err.startswith("error: There is no code 'NOETL30'. Did you mean 'NOETL3")


def test_validate_counts_what_is_too_much_to_be_shown(cli: Cli) -> None:
    Path("many.yaml").write_text(Path("sum.yaml").read_text() + "".join(f"x{n}: 1\n" for n in range(57)))
    lines = cli("validate", "many.yaml").out.splitlines()
    assert len(lines) == 21
    assert lines[-1] == "many.yaml: and 37 more of NOETL250"
    assert len(json.loads(cli("validate", "many.yaml", "--format", "json").out)["problems"]) == 57


def test_strict_makes_warnings_errors(cli: Cli) -> None:
    Path("warned.yaml").write_text(Path("sum.yaml").read_text() + "load: {}\n")
    assert cli("validate", "warned.yaml").code == 0
    assert cli("validate", "warned.yaml", "--strict").code == 2


def test_graph_and_schema(cli: Cli) -> None:
    assert cli("graph", "sum.yaml").out.startswith("flowchart TD\n")
    dot = cli("graph", "sum.yaml", "--format", "dot").out
    assert dot.startswith("digraph")
    assert not dot.endswith("\n\n")
    assert json.loads(cli("schema").out)["type"] == "object"


# --- catalog -------------------------------------------------------------------------------------


def test_the_catalog_keeps_versions(cli: Cli) -> None:
    assert (
        cli("catalog", "register", "sum.yaml", "gated.yaml").out
        == "tests/sum version 1\ntests/gated version 1\n"
    )
    Path("sum.yaml").write_text(Path("sum.yaml").read_text().replace("a: 1", "a: 2"))
    assert json.loads(cli("catalog", "register", "sum.yaml", "--json").out) == [
        {"path": "tests/sum", "version": 2, "warnings": []}
    ]
    listed = json.loads(cli("catalog", "list", "--json").out)
    assert sorted((one["path"], one["version"], one["name"]) for one in listed) == [
        ("tests/gated", 1, "gated"),
        ("tests/sum", 2, "sum"),
    ]
    assert cli("catalog", "show", "tests/sum").out == Path("sum.yaml").read_text()
    assert "{a: 1" in cli("catalog", "show", "tests/sum", "--version", "1").out
    assert "Did you mean 'tests/sum'?" in cli("catalog", "show", "tests/smu").err
    assert "has no version 9" in cli("catalog", "show", "tests/sum", "--version", "9").err


# --- executions ----------------------------------------------------------------------------------


@pytest.fixture
def failed(cli: Cli) -> str:
    """The id of an execution that failed."""
    return str(json.loads(cli("run", "failing.yaml", "--json").out)["execution_id"])


def test_executions_are_listed_and_shown(cli: Cli, failed: str) -> None:
    cli("run", "sum.yaml", "-q")
    rows = json.loads(cli("execution", "list", "--json").out)
    assert [(row["path"], row["status"]) for row in rows] == [
        ("tests/sum", "completed"),
        ("tests/failing", "failed"),
    ]
    assert "T" in rows[0]["created_at"]
    only = json.loads(cli("execution", "list", "--json", "--status", "failed", "--path", "tests/failing").out)
    assert [row["execution_id"] for row in only] == [failed]
    header, line = cli("execution", "list", "--status", "failed").out.splitlines()
    assert header.split("\t") == ["execution", "status", "playbook", "started", "error"]
    assert line.startswith(f"{failed}\tfailed\ttests/failing@1\t")

    shown = cli("execution", "show", failed)
    assert shown.code == 0
    assert "failing.yaml:12: error: ValueError: no day in []" in shown.out
    assert json.loads(cli("execution", "show", failed, "--json").out)["error"]["line"] == 12


def test_events_are_reported_in_order_and_by_type(cli: Cli, failed: str) -> None:
    lines = cli("execution", "events", failed, "--json", "--follow").out.splitlines()
    events = [json.loads(line) for line in lines]
    assert [event["version"] for event in events] == list(range(1, len(events) + 1))
    assert events[-1]["type"] == "playbook.processed"
    (one,) = cli("execution", "events", failed, "--type", "step.failed").out.splitlines()
    assert "step.failed" in one
    assert cli("execution", "events", failed, "--after", "5", "--limit", "2", "--json").out.count("\n") == 2
    wrong = cli("execution", "events", failed, "--type", "step.faild")
    assert (wrong.code, "Did you mean 'step.failed'?" in wrong.err) == (2, True)


def test_replay_shows_what_was_true(cli: Cli, failed: str) -> None:
    view = json.loads(cli("execution", "replay", failed, "--json").out)
    assert set(view) == {"execution_id", "version", "status", "inputs", "ctx", "steps", "marking"}
    assert (view["status"], view["marking"]) == ("failed", {"tokens": [], "running": []})
    early = json.loads(cli("execution", "replay", failed, "--at", "5", "--json").out)
    assert (early["version"], early["status"]) == (5, "running")
    assert json.loads(cli("execution", "replay", failed, "--version", "5", "--json").out) == early
    beyond = cli("execution", "replay", failed, "--at", "999")
    assert (beyond.code, "has versions 0 to" in beyond.err) == (2, True)


@pytest.mark.parametrize(
    "verb", [["cancel"], ["pause"], ["resume"], ["patch", "--set", "a=1"]], ids=lambda verb: verb[0]
)
def test_what_has_ended_cannot_be_steered(cli: Cli, failed: str, verb: list[str]) -> None:
    ended = cli("execution", verb[0], failed, *verb[1:])
    assert ended.code == 1
    assert f"Execution {failed} has ended (failed)." in ended.err


def test_a_waiting_execution_can_be_cancelled(cli: Cli) -> None:
    waiting = json.loads(cli("run", "gated.yaml", "--no-wait", "--json").out)["execution_id"]
    told = cli("execution", "cancel", waiting, "--reason", "wrong day")
    assert (told.code, told.out.startswith(f"{waiting}: cancel requested")) == (0, True)
    assert cli("execution", "resume", waiting, "--quiet").code == 1
    assert json.loads(cli("execution", "show", waiting, "--json").out)["status"] == "cancelled"


# --- credentials ---------------------------------------------------------------------------------


def test_a_credential_is_kept_for_a_path_beside_the_one_for_all_and_keys_rotate(cli: Cli, home: Path) -> None:
    secret = '{"token": "s3cret"}'
    assert cli("credential", "set", "api", "--type", "http", "--data", secret).code == 0
    scoped = cli("credential", "set", "api", "--type", "http", "--data", secret, "--path", "team/a")
    assert scoped.out == "Credential api is set for path team/a.\n"
    rows = json.loads(cli("credential", "list", "--json").out)
    assert [(row["name"], row["scope"], row["place"]) for row in rows] == [
        ("api", "global", ""),
        ("api", "path", "team/a"),
    ]
    before = (home / "secret.key").read_text()

    assert cli("credential", "rotate", "--new-key").out == "2 credentials encrypted with the newest key.\n"

    new, old = (home / "secret.key").read_text().strip().split(",")
    assert old == before.strip() != new
    (home / "secret.key").write_text(new)
    assert cli("credential", "rotate").code == 0
    (home / "secret.key").write_text(old)
    refused = cli("credential", "rotate")
    assert refused.code != 0
    assert "Credential 'api' stays as it is, and so do all others: " in refused.err
    wrong = cli("credential", "delete", "api", "--path", "team")
    assert "Credential 'api' is kept for global and path team/a, not for path team." in wrong.err
    assert (
        cli("credential", "delete", "api", "--path", "team/a").out
        == "Credential api is gone for path team/a.\n"
    )


def test_credentials_are_kept_listed_and_forgotten_and_never_shown(cli: Cli, home: Path) -> None:
    Path("secret.json").write_text('{"token": "s3cret"}')
    assert cli("credential", "set", "api", "--type", "http", "--data", "@secret.json").code == 0
    warned = cli(
        "credential", "set", "db", "--type", "postgres", "--data", '{"host": "h", "pasword": "s3cret"}'
    )
    assert warned.code == 0
    assert "do not use the field 'pasword'. Did you mean 'password'?" in warned.err
    assert "s3cret" not in warned.out + warned.err
    rows = json.loads(cli("credential", "list", "--json").out)
    assert [(row["name"], row["type"], "T" in row["updated_at"]) for row in rows] == [
        ("api", "http", True),
        ("db", "postgres", True),
    ]
    assert b"s3cret" not in b"".join(path.read_bytes() for path in home.glob("noetl.db*"))
    assert "Did you mean 'api'?" in cli("credential", "delete", "apii").err
    assert cli("credential", "delete", "api").out == "Credential api is gone.\n"


# --- settings, homes, databases ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "value", "word"),
    [
        ("NOETL_LOG_LEVEL", "LOUD", "expected one of"),
        ("NOETL_PORT", "http", "expected a whole number"),
        ("NOETL_PORT", "70000", "from 0 to 65535"),
        ("NOETL_LEASE_S", "nan", "expected a number of seconds"),
        ("NOETL_HEARTBEAT_S", "0", "expected a number of seconds"),
        ("NOETL_SWEEP_S", "-1", "expected a number of seconds"),
        ("NOETL_TASK_TIMEOUT_S", "soon", "expected a number of seconds"),
        ("NOETL_LOOP_MAX_IN_FLIGHT", "0", "from 1 to"),
        ("NOETL_INLINE_BYTES", "1e3", "expected a whole number"),
        ("NOETL_PYTHON_MEMORY_MB", "-5", "from 16 to"),
        ("NOETL_ALLOW_PRIVATE_NETWORKS", "maybe", "expected true or false"),
        ("NOETL_HOME", "", "it is empty"),
        ("NOETL_HOME", "~nobody-of-this-name/x", "set NOETL_HOME"),
        ("NOETL_DATABASE_URL", "nonsense", "cannot be read"),
        ("NOETL_DATABASE_URL", "mysql://x/y", "not supported"),
        ("NOETL_RESULTS_URL", "nowhere://x", "cannot be opened"),
    ],
)
def test_a_setting_that_cannot_be_used_is_named(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, name: str, value: str, word: str
) -> None:
    monkeypatch.setenv(name, value)
    for argv in (["run", "sum.yaml"], ["execution", "list"], ["catalog", "list"]):
        ended = cli(*argv)
        assert (ended.code, ended.out) == (2, "")
        assert word in ended.err
        assert len(ended.err.splitlines()) == 1


@pytest.mark.parametrize("argv", [["run", "sum.yaml", "-q"], ["execution", "list"], ["db", "upgrade"], ["credential", "set", "a", "--type", "generic", "--data", '{"a": 1}']])  # fmt: skip
@pytest.mark.parametrize("below", ["", "/below"])
def test_a_home_that_is_a_file_is_said_so(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, argv: list[str], below: str
) -> None:
    (tmp_path / "file").write_text("not a directory")
    monkeypatch.setenv("NOETL_HOME", f"{tmp_path}/file{below}")
    ended = cli(*argv)
    assert (ended.code, ended.out) == (2, "")
    assert f"The directory {tmp_path}/file{below} cannot be made" in ended.err
    assert "set NOETL_HOME" in ended.err
    checked = cli("doctor")
    assert checked.code == 1
    assert f"miss home: {tmp_path}/file{below}" in checked.out


@pytest.mark.parametrize("content", [b"no database at all" * 500, None], ids=["garbage", "overwritten"])
@pytest.mark.parametrize(
    "argv", [["run", "sum.yaml"], ["execution", "list"], ["db", "check"], ["doctor"]], ids=" ".join
)
def test_a_damaged_database_is_said_so(cli: Cli, home: Path, argv: list[str], content: bytes | None) -> None:
    cli("db", "upgrade")
    file = home / "noetl.db"
    if content is None:
        with sqlite3.connect(file) as connection:
            connection.execute("PRAGMA journal_mode=DELETE")
        connection.close()
        content = file.read_bytes()[:4096] + b"\xa5" * 40_000
    for path in home.glob("noetl.db*"):
        path.unlink()
    file.write_bytes(content)
    ended = cli(*argv)
    assert ended.code == 1
    assert f"{file} is damaged" in ended.out + ended.err


def test_a_database_that_another_process_holds_is_said_so(
    cli: Cli, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cli("db", "upgrade")
    monkeypatch.setattr(engine, "PATIENCE", 0.2)
    holder = sqlite3.connect(home / "noetl.db", isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    ended = cli("catalog", "register", "sum.yaml")
    holder.execute("ROLLBACK")
    holder.close()
    assert (ended.code, ended.out) == (1, "")
    assert f"{home}/noetl.db was held by another process" in ended.err


def test_the_schema_is_made_and_checked(cli: Cli) -> None:
    assert cli("db", "check").code == 1
    assert cli("db", "upgrade").out.startswith("Upgraded from nothing to ")
    assert cli("db", "upgrade").out.startswith("The schema is at ")
    assert cli("db", "check").out == "The schema is up to date.\n"


@pytest.mark.parametrize("command", [("status",), ("db", "check"), ("catalog", "list")])
def test_every_command_warns_of_mistyped_settings(
    program: Callable[..., subprocess.Popen[str]], monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...]
) -> None:
    monkeypatch.setenv("NOETL_DATABSE_URL", "postgresql://db/noetl")
    _, said = program(*command).communicate()
    assert said.count("Nothing reads NOETL_DATABSE_URL: did you mean NOETL_DATABASE_URL?") == 1


def test_doctor_finds_mistyped_settings(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    assert cli("doctor").code == 0
    monkeypatch.setenv("NOETL_DATABSE_URL", "x")
    ended = cli("doctor", "--json")
    (found,) = [one for one in json.loads(ended.out) if not one["ok"]]
    assert (ended.code, found["name"], found["detail"]) == (1, "settings", "nothing reads NOETL_DATABSE_URL")
    assert found["advice"] == "Unset what is not needed. Did you mean NOETL_DATABASE_URL?"


def test_doctor_finds_a_broker_that_does_not_answer(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NOETL_BROKER_URL", "redis://user:s3cret@127.0.0.1:9/0")
    ended = cli("doctor", "--json")
    (found,) = [one for one in json.loads(ended.out) if not one["ok"]]
    assert (ended.code, found["name"]) == (1, "broker")
    assert found["detail"].startswith("127.0.0.1:9/0: The broker does not answer")
    assert "s3cret" not in ended.out + ended.err


def test_doctor_finds_hosts_whose_clocks_are_off(
    cli: Cli, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NOETL_DATABASE_URL", postgres_url)
    store, seen = open_store(postgres_url), datetime.now(UTC)
    with store.begin() as tx:
        tx.workers.see(WorkerRow("near:1", "worker", (), seen, seen, 0.5))
    near = cli("doctor", "--json")
    with store.begin() as tx:
        tx.workers.see(WorkerRow("far:2", "worker", (), seen, seen, -4.25))
    store.close()
    far = cli("doctor", "--json")

    (clocks,) = [one for one in json.loads(near.out) if one["name"] == "clocks"]
    assert (clocks["ok"], clocks["detail"]) == (True, "within 3 s of the database's, 2 compared")
    (clocks,) = [one for one in json.loads(far.out) if one["name"] == "clocks"]
    assert far.code == 1
    assert "far:2 4.2 s behind (at most 3 s" in clocks["detail"]


def test_doctor_tells_of_messages_that_were_refused_and_lists_them(cli: Cli, home: Path) -> None:
    def told() -> str:
        (found,) = [one for one in json.loads(cli("doctor", "--json").out) if one["name"] == "messages"]
        assert found["ok"]
        return str(found["detail"])

    assert told() == "none was refused"
    cli("db", "upgrade")
    assert told() == "none was refused"
    assert cli("doctor", "--letters").out == ""
    store = open_store(f"sqlite:///{home}/noetl.db")
    with store.begin() as tx:
        for number in range(2):
            tx.dead_letters.add(
                "broker:http", "no JSON", f"garbage {number}", datetime(2026, 1, 2, tzinfo=UTC)
            )
    store.close()
    assert told().startswith("2 refused, the last at 2026-01-02T00:00:00+00:00 from broker:http")
    assert cli("doctor").code == 0
    listed = cli("doctor", "--letters").out.splitlines()
    assert listed[:2] == ["2026-01-02T00:00:00+00:00 broker:http: no JSON", "    garbage 1"]
    assert len(listed) == 4
    letters = json.loads(cli("doctor", "--letters", "--json").out)
    assert [letter["body"] for letter in letters] == ["garbage 1", "garbage 0"]


# --- tables --------------------------------------------------------------------------------------


def test_only_the_last_column_of_a_table_is_cut() -> None:
    rows = [["execution", "error"], ["117227802240208939", "x" * 200], ["1", ""]]
    assert align_columns(rows, 40) == [
        "execution           error",
        "117227802240208939  " + "x" * 19 + "…",
        "1",
    ]
