"""The one rule for files: who is trusted when, for every tool that names files, tried from the
command line and in calls."""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import duckdb
import pytest

from noetl.cli.doctor import CHECKS
from noetl.cli.stack_settings import with_files
from noetl.config import Settings
from noetl.facts.outcome import ErrorInfo
from noetl.pipeline.model import Call, Where
from noetl.results import open_results
from noetl.tools.kit.base import Services
from noetl.tools.kit.files import FilePolicy
from noetl.tools.kit.registry import Registry
from tests import zygote

HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: files, path: tests/files}\n"
#: Runs a playbook by `noetl run` from a directory beside it: exit code and report.
Play: TypeAlias = Callable[..., tuple[int, dict[str, Any]]]


@pytest.fixture
def book(tmp_path: Path) -> Path:
    """A playbook's directory, with a home of the engine in it and data."""
    folder = tmp_path / "book"
    (folder / "data").mkdir(parents=True)
    (folder / "data" / "a.csv").write_text("n\n1\n")
    (folder / "data" / "b.csv").write_text("n\n2\n")
    (tmp_path / "here").mkdir()
    return folder


@pytest.fixture
def play(book: Path, tmp_path: Path) -> Play:
    def run(steps: str, **env: str) -> tuple[int, dict[str, Any]]:
        (book / "p.yaml").write_text(HEAD + steps)
        ended = zygote.run(
            ["noetl", "run", str(book / "p.yaml"), "--json"],
            cwd=tmp_path / "here",
            env={**os.environ, "NOETL_HOME": str(book / "home"), **env},
            capture_output=True,
            text=True,
        )
        assert ended.stdout, ended.stderr
        return ended.returncode, json.loads(ended.stdout)

    return run


def results(report: dict[str, Any]) -> dict[str, Any]:
    return {name: step["result"] for name, step in report["steps"].items()}


def test_what_the_user_starts_reaches_files_as_that_user_from_the_playbooks_directory(
    play: Play, book: Path, tmp_path: Path
) -> None:
    out = tmp_path / "elsewhere.csv"
    code, report = play(
        f"""
workflow:
  - step: reads
    tool:
      kind: duckdb
      params: {{one: data/a.csv}}
      commands:
        - SELECT sum(n) AS s FROM read_csv('data/*.csv')
        - SELECT sum(a.n) AS s FROM 'data/a.csv' a JOIN "data/b.csv" b ON a.n < b.n
        - SELECT sum(t.n) AS s FROM read_csv(['data/a.csv', '{book}/data/b.csv']) t, read_csv(:one)
        - COPY (SELECT 3 AS n) TO 'made.csv'
        - COPY (SELECT 4 AS n) TO '{out}'
        - COPY (SELECT 5 AS n, 6 AS m) TO 'parts' (FORMAT csv, PARTITION_BY (n))
        - EXPLAIN SELECT trim('x' FROM 'a.csv') AS kept
        - SELECT trim(both 'v' FROM 'data/a.csv') AS kept
    next: code
  - step: code
    tool:
      kind: python
      code: |
        import os
        result = {{"here": os.getcwd(), "made": open("made.csv").read(), "scratch": os.environ["SCRATCH"],
                  "tmp": os.environ["TMPDIR"]}}
    next: commands
  - step: commands
    tool: {{kind: shell, command: 'pwd; ls parts; test -d "$SCRATCH" && test "$SCRATCH" = "$TMPDIR"'}}
    next: base
  - step: base
    tool: {{kind: sqlite, database: data/x.db, command: SELECT 1 AS one}}
"""
    )

    assert report["error"] is None, report["error"]
    assert code == 0
    found = results(report)
    sums = [found["reads"][f"command_{index}"]["rows"][0]["s"] for index in range(3)]
    assert sums == [3, 1, 3]
    assert found["reads"]["command_7"]["rows"] == [{"kept": "data/a.cs"}]
    assert out.read_text() == "n\n4\n"
    assert found["code"]["here"] == str(book)
    assert found["code"]["made"] == "n\n3\n"
    assert found["code"]["scratch"] == found["code"]["tmp"] != str(book)
    assert found["commands"]["stdout"].splitlines() == [str(book), "n=5"]
    assert (book / "data" / "x.db").exists()
    assert list((tmp_path / "here").iterdir()) == []


#: SQL that would reach what the engine keeps to itself; {home} is NOETL_HOME, which lies in the
#: playbook's directory.
PRIVATE = [
    "from read_text('{home}/secret.key')",
    "from read_text('home/secret.key')",
    "from read_text(['data/a.csv', 'home/secret.key'])",
    "from read_text('data/link')",
    "from read_blob('/proc/self/environ')",
    "from read_text('/proc/self/task/../environ')",
    "from read_text('proc/self/environ')",
    "from read_csv('{home}/*')",
    "from read_csv('{home}/../home/*.key')",
    "from read_text('file://{home}/secret.key')",
    "from read_text('{home}/' || 'secret.key')",
    "from read_text(concat('/pro', 'c/self/environ'))",
    "from query('from read_text(''{home}/secret.key'')')",
    "from glob('/proc/self/*')",
    "from sniff_csv('{home}/secret.key')",
    "copy (select 1) to '{home}/x.csv'",
    "copy t from '{home}/secret.key'",
    "export database '{home}/out'",
    "attach '{home}/noetl.db' as log (type sqlite)",
    "attach 'sqlite:{home}/noetl.db' as log",
    "load '{home}/evil.duckdb_extension'",
    # Other ways to write a text, and names that stand where no file is looked for.
    "copy t from $${home}/secret.key$$",
    "copy t from E'{home}/secret.key'",
    "copy t from $x${home}/secret.key$x$",
    "copy (select 1) to $${home}/x.csv$$",
    "export database $${home}/out$$",
    "attach $${home}/noetl.db$$ as log (type sqlite)",
    "attach or replace '{home}/noetl.duckdb' as log",
    "attach E'{home}\\/noetl.duckdb' as log",
    "describe from '{home}/*.csv'",
    "describe '~/home/*.csv'",
    "describe 'file://localhost{home}/s.csv'",
    "pivot 'home/s.csv' on k",
    """from "query"('from read_text(''{home}/secret.key'')')""",
    "prepare p as copy (select 1) to $1; execute p('{home}/x.csv')",
    "set variable v = '{home}/x.csv'; copy (select 1) to (getvariable('v'))",
    "set log_query_path = '{home}/x.log'; select 1",
    "call enable_logging(storage = 'file', storage_path = '{home}/x.log'); select 1",
    "set secret_directory = '{home}/x'; create persistent secret s (type http, extra_http_headers map {{}})",
    "from enable_logging(storage = 'file', storage_path = '{home}/x.log'); select 1",
    "pragma enable_profiling = 'json'; pragma profiling_output = '{home}/x.json'; select 1",
    "from read_text('da*/link')",
    "set extension_directory = '{home}/x'; install json",
    "set file_search_path = '{home}'; from read_text('s.' || 'csv')",
    "set allowed_directories = ['/']; from read_text('{home}/' || 'secret.key')",
    "set enable_external_access = true; from read_text('{home}/' || 'secret.key')",
    "from stored.view",
    "from stored.macro('{home}/secret.key')",
]


@pytest.mark.parametrize("external", [False, True])
def test_sql_never_reaches_the_engines_home_or_the_environments_of_processes(
    book: Path, tmp_path: Path, external: bool
) -> None:
    home = book / "home"
    home.mkdir()
    (home / "secret.key").write_text("s3cret")
    (home / "s.csv").write_text("k\ns3cret\n")
    (book / "data" / "link").symlink_to(home / "secret.key")
    (book / "proc").symlink_to("/proc")
    sqlite3.connect(home / "noetl.db").execute("CREATE TABLE t (a)").connection.close()
    duckdb.connect(str(home / "noetl.duckdb")).close()
    with duckdb.connect(str(book / "stored.duckdb")) as stored:
        stored.execute(f"create view view as from read_text('{home}/secret.key')")
        stored.execute("create macro macro(name) as table from read_text(name)")
    policy = Settings(home=home).file_policy([book], started_by_user=True)
    registry = Registry(Services(files=policy, scratch=tmp_path / "scratch"))
    passed = []
    for sql in PRIVATE:
        config = {
            "commands": [
                # Who may attach does it before all else; in between stands what is kept in a
                # database.
                *([f"attach '{book}/stored.duckdb' as stored (read_only)"] if external else []),
                *([sql.format(home=home)] if sql.startswith("attach") else []),
                "create table t (a text)",
                *sql.format(home=home).split("; "),
            ],
            "allow_external": external,
            **(
                {}
                if external or "stored" not in sql
                else {"database": f"{book}/stored.duckdb", "read_only": True}
            ),
        }
        found = registry.run(_call("duckdb", config))
        if found.error is None or "s3cret" in str(found):  # type: ignore[union-attr]
            passed.append(sql)
    assert passed == []
    for kind in ("duckdb", "sqlite"):
        for name in (str(home / "noetl.db"), "home/noetl.db", "home/other.db"):
            error = failure(registry, kind, {"database": name, "command": "SELECT 1"})
            assert "keeps to itself" in error.message
    assert "SQLITE_AUTH" in str(
        registry.run(_call("sqlite", {"command": f"ATTACH '{home}/noetl.db' AS log"}))
    )
    assert sorted(one.name for one in home.iterdir()) == ["noetl.db", "noetl.duckdb", "s.csv", "secret.key"]
    registry.close()


def test_network_extensions_and_other_databases_stay_behind_allow_external(
    book: Path, tmp_path: Path
) -> None:
    policy = FilePolicy(as_user=True, directories=(book,))
    registry = Registry(Services(files=policy, scratch=tmp_path / "scratch"))
    for sql in (
        "ATTACH 'x.db'",
        "INSTALL httpfs",
        "FORCE INSTALL httpfs",
        "LOAD httpfs",
        "UPDATE EXTENSIONS",
    ):
        assert "set `allow_external: true`" in failure(registry, "duckdb", {"command": sql}).message
    error = failure(registry, "duckdb", {"command": "from read_csv('https://127.0.0.1:1/x.csv')"})
    assert error.type == "PermissionException"
    config = {"commands": ["ATTACH 'x.db' AS x", "CREATE TABLE x.t AS SELECT 1 AS a"], "allow_external": True}
    assert registry.run(_call("duckdb", config)).error is None  # type: ignore[union-attr]
    assert (book / "x.db").exists()
    # The network is reached by hosts that stand in the text, or in `files`: without its extension
    # DuckDB asks for that.
    for given in (
        {"command": "from read_text('https://127.0.0.1:1/x')"},
        {"command": "from read_text('https://127.0.0.1' || ':1/x')", "files": "https://127.0.0.1:1/"},
    ):
        error = failure(registry, "duckdb", {**given, "allow_external": True})
        assert "httpfs" in error.message or "that SQL computes" in error.message  # before DuckDB 2.0
    allowed = [
        "create temporary secret s (type http, extra_http_headers map {})",
        "set threads = 1",
        "set timezone = 'UTC'",
        "select 1 as n",
    ]
    assert registry.run(_call("duckdb", {"commands": allowed, "allow_external": True})).error is None  # type: ignore[union-attr]
    registry.close()


def test_a_pattern_is_looked_up_without_following_links_and_ends(book: Path, tmp_path: Path) -> None:
    (book / "itself").symlink_to(".")
    (book / "again").symlink_to(".")
    (book / "all").symlink_to("/")
    registry = Registry(
        Services(files=FilePolicy(as_user=True, directories=(book,)), scratch=tmp_path / "scratch")
    )
    found = registry.run(_call("duckdb", {"command": "select sum(n) as s from read_csv('**/*.csv')"}))
    assert found.result["rows"] == [{"s": 3}]  # type: ignore[union-attr]
    assert (
        "No files found" in failure(registry, "duckdb", {"command": "from read_csv('**/none.csv')"}).message
    )
    registry.close()


#: Names that lead out of the root, as tasks of each kind name files; {root} is the root, {name} the
#: name.
TASKS: dict[str, dict[str, Any]] = {
    "python": {"script": "{name}"},
    "sqlite": {"database": "{name}", "command": "SELECT 1"},
    "duckdb database": {"database": "{name}", "command": "SELECT 1"},
    "duckdb reads": {"command": "FROM read_text('{name}')"},
    "duckdb pattern": {"command": "FROM read_text('{name}*')"},
    "duckdb parameter": {"command": "FROM read_text($1)", "params": ["{name}"]},
    "duckdb writes": {"command": "COPY (SELECT 1) TO '{name}'"},
    "duckdb files": {"command": "SELECT 1", "files": "{name}"},
    "duckdb external": {"command": "FROM read_text('{name}')", "allow_external": True},
    "duckdb attach": {"command": "SELECT 1", "attach": {"x": {"type": "sqlite", "database": "{name}"}}},
    "artifact get": {"action": "get", "uri": "{name}"},
    "artifact put": {"action": "put", "uri": "{name}", "data": "x"},
    "artifact file": {"action": "put", "key": "x", "file": "{name}"},
    "artifact to": {"action": "get", "key": "there", "to": "{name}"},
    "transfer reads": {
        "source": {"kind": "file", "file": "{name}", "format": "csv"},
        "target": {"kind": "result"},
    },
    "transfer sqlite": {
        "source": {"kind": "sqlite", "database": "{name}", "query": "SELECT 1"},
        "target": {"kind": "result"},
    },
    "http verify": {"url": "https://127.0.0.1:1/", "verify": "{name}"},
}


def test_roots_hold_for_every_tool_and_every_way_to_write_a_name(tmp_path: Path) -> None:
    root, outside = tmp_path / "root", tmp_path / "outside"
    root.mkdir()
    outside.mkdir()
    (outside / "x").write_text("n\n1\n")
    (root / "link").symlink_to(outside / "x")
    (root / "folder").symlink_to(outside)
    (root / "up").symlink_to("..")
    results = open_results(f"file://{tmp_path / 'results'}", tmp_path / "scratch")
    services = Services(
        files=FilePolicy(roots=(root,)),
        scratch=tmp_path / "scratch",
        results=results,
        artifacts_url=f"file://{tmp_path / 'results'}/artifacts",
        allow_private_networks=True,
    )
    registry = Registry(services)
    kept = registry.run(_call("artifact", {"action": "put", "key": "there", "data": "x"}))
    assert kept.error is None  # type: ignore[union-attr]
    names = [
        "../outside/x",
        f"{outside}/x",
        "link",
        "folder/x",
        "up/outside/x",
        "/etc/passwd",
        f"{root}/../outside/x",
    ]
    other = {}
    for task, config in TASKS.items():
        for name in names:
            error = failure(registry, task.partition(" ")[0], _filled(config, name))
            if "leads out of" not in error.message or "NOETL_FILE_ROOTS" not in error.message:
                other[f"{task}: {name}"] = error.message
    assert other == {}
    for task, config in TASKS.items():
        for name in ("a\0b", "%2e%2e/outside/x", "x" * 300):
            # Some of these may name files below the root; none leads out of it, or ends in a
            # defect.
            found = registry.run(_call(task.partition(" ")[0], _filled(config, name)))
            assert "n\\n1" not in str(found), (task, name)
            assert "failed with" not in str(found), (task, name)
    assert [one.name for one in outside.iterdir()] == ["x"]
    assert sorted(one.name for one in tmp_path.iterdir()) == ["outside", "results", "root", "scratch"]
    assert (outside / "x").read_text() == "n\n1\n"
    registry.close()


def test_without_roots_only_scratch_and_artifacts_are_left_to_what_the_user_did_not_start(
    tmp_path: Path,
) -> None:
    (tmp_path / "x").write_text("n\n1\n")
    settings = Settings(home=tmp_path / "home")
    services = Services(
        files=settings.file_policy(),
        scratch=tmp_path / "scratch",
        results=open_results(f"file://{tmp_path / 'results'}", tmp_path / "scratch"),
        artifacts_url=f"file://{tmp_path / 'results'}/artifacts",
        directories=lambda _: (tmp_path,),
    )
    registry = Registry(services)
    for task, config in TASKS.items():
        for name in ("x", str(tmp_path / "x")):
            if task == "artifact to":
                continue
            message = failure(registry, task.partition(" ")[0], _filled(config, name)).message
            assert "set NOETL_FILE_ROOTS on the worker" in message, (task, name)
    assert registry.run(_call("artifact", {"action": "put", "key": "k", "data": "x"})).error is None  # type: ignore[union-attr]
    assert registry.run(_call("duckdb", {"command": "SELECT 1"})).error is None  # type: ignore[union-attr]
    code = {"code": "import os\nresult = os.getcwd() == os.environ['SCRATCH']"}
    assert registry.run(_call("python", code)).result is True  # type: ignore[union-attr]
    registry.close()


def test_roots_hold_for_what_the_user_starts_too_and_the_commands_directories_are_among_them(
    play: Play, book: Path, tmp_path: Path
) -> None:
    (tmp_path / "outside.py").write_text("result = 'outside'")
    (tmp_path / "here" / "there.py").write_text("result = 'there'")
    (tmp_path / "roots").mkdir()
    (tmp_path / "roots" / "last.py").write_text("result = 'last'")
    (tmp_path / "here" / "back").symlink_to(book)
    (book / "own.py").write_text("result = 'own'")
    steps = """
workflow:
  - step: own
    tool: {kind: python, script: {file: back/own.py}}
    next: there
  - step: there
    tool: {kind: python, script: there.py}
    next: last
  - step: last
    tool: {kind: python, script: last.py}
    next: missing
  - step: missing
    tool: {kind: python, script: SCRIPT}
"""
    roots = {"NOETL_FILE_ROOTS": str(tmp_path / "roots")}
    _, report = play(steps.replace("SCRIPT", "nowhere.py"), **roots)
    assert [report["steps"][name]["result"] for name in ("own", "there", "last")] == ["own", "there", "last"]
    places = f"{book} or {tmp_path / 'here'} or {tmp_path / 'roots'}"
    assert f"there is no such file in {places}" in report["error"]["message"]
    _, report = play(steps.replace("SCRIPT", "../outside.py"), **roots)
    assert "leads out of" in report["error"]["message"]
    code, report = play(steps.replace("last.py", "own.py").replace("SCRIPT", "../outside.py"))
    assert (code, report["result"]) == (0, "outside")


def _filled(value: Any, name: str) -> Any:
    if isinstance(value, dict):
        return {key: _filled(inner, name) for key, inner in value.items()}
    if isinstance(value, list):
        return [_filled(inner, name) for inner in value]
    return value.replace("{name}", name) if isinstance(value, str) else value


def _call(kind: str, config: dict[str, Any]) -> Call:
    return Call(kind, config, {}, {}, Where("1", "r", "s"), "t", 1, "key")


def failure(registry: Registry, kind: str, config: dict[str, Any]) -> ErrorInfo:
    found = registry.run(_call(kind, config))
    assert found.error is not None, (kind, config, found)  # type: ignore[union-attr]
    return found.error  # type: ignore[union-attr]


def test_up_works_for_the_user_on_loopback_alone_and_makes_its_directories_roots_where_there_are_some(
    book: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    file = book / "p.yaml"
    assert with_files(Settings(), [file]).files == "user"
    assert with_files(Settings(host="localhost"), [file]).file_roots == ()
    assert with_files(Settings(host="0.0.0.0"), [file]).files == ""
    assert with_files(Settings(files="roots"), [file]).files == "roots"
    assert with_files(Settings(file_roots=(Path("/data"),)), [file]).file_roots == (
        Path("/data"),
        book,
        tmp_path,
    )
    assert not Settings(host="0.0.0.0").file_policy().as_user


def test_doctor_warns_of_code_in_a_process_beside_roots(tmp_path: Path) -> None:
    def said(**settings: Any) -> tuple[bool, str]:
        found = next(
            one
            for one in (check(Settings(home=tmp_path, **settings)) for check in CHECKS)
            if one.name == "files"
        )
        return found.ok, found.detail + found.advice

    assert said()[0]
    ok, text = said(file_roots=(tmp_path,))
    assert not ok
    assert "NOETL_PYTHON_ISOLATION=sandbox" in text
    assert said(file_roots=(tmp_path,), python_isolation="sandbox")[0]


def test_a_playbook_in_the_home_itself_reaches_what_is_its_own_there_and_nothing_of_the_engine(
    tmp_path: Path,
) -> None:
    policy = Settings(home=tmp_path).file_policy([tmp_path], started_by_user=True)
    registry = Registry(Services(files=policy, scratch=tmp_path / "scratch"))
    (tmp_path / "secret.key").write_text("s3cret")
    for sql in (
        "FROM read_text('secret.key')",
        "FROM read_text('sec' || 'ret.key')",
        "FROM read_text('*.key')",
    ):
        assert "s3cret" not in str(registry.run(_call("duckdb", {"command": sql})))
    for config in ({"command": "COPY (SELECT 1 AS n) TO 'own.csv'"}, {"command": "FROM 'own.csv'"}):
        assert registry.run(_call("duckdb", config)).error is None  # type: ignore[union-attr]
    assert registry.run(_call("sqlite", {"database": "own.db", "command": "SELECT 1"})).error is None  # type: ignore[union-attr]
    assert failure(registry, "sqlite", {"database": "noetl.db", "command": "SELECT 1"}).type == "BadPath"
    registry.close()
