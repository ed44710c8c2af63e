"""`noetl result`: from a playbook's run to what its large result holds."""

from __future__ import annotations

import json
import re
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import duckdb
import pytest
from werkzeug.serving import make_server

from noetl import bootstrap
from noetl.api.app import create_app
from noetl.config import Settings
from noetl.facts.reference import Column, Retention
from noetl.results import open_results

from .conftest import Cli

PLAYBOOK = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: large, path: tests/large}
workflow:
  - step: start
    tool:
      kind: python
      code: |
        result = [{"id": i, "name": f"name {i % 7}", "text": "x" * 30} for i in range(3000)]
"""


@pytest.fixture
def ref(cli: Cli) -> str:
    """The reference that the log holds for a list of 3,000 rows."""
    Path("large.yaml").write_text(PLAYBOOK)
    run = cli("run", "large.yaml", "--quiet", "--json")
    assert run.code == 0, run.err
    events = cli("execution", "events", json.loads(run.out)["execution_id"], "--type", "task.done", "--json")
    found = re.search(r"noetl://results/executions/\d+/[0-9a-f]{64}\.json", events.out)
    assert found is not None
    return found[0]


@pytest.fixture
def table(tmp_path: Path) -> str:
    """The reference of a table of 100 rows in the store of the settings."""
    settings = Settings.from_env()
    settings.make_home()
    store = open_results(settings.results)
    (tmp_path / "t.csv").write_text("".join(f"{number},n{number % 3}\n" for number in range(100)))
    columns = [Column("id", "BIGINT"), Column("name", "VARCHAR")]
    return str(store.put_table(tmp_path / "t.csv", "text/csv", columns, Retention("7"))["ref"])


def test_sql_sees_every_line_of_csv_or_names_the_bad_one(cli: Cli, tmp_path: Path) -> None:
    settings = Settings.from_env()
    settings.make_home()
    store, query = open_results(settings.results), "select count(*) as n from result"
    (tmp_path / "good.csv").write_text("id,name\n1,a\n#2,b\n")
    (tmp_path / "bad.csv").write_text("id,name\n" + "1,a\n" * 3_000 + "2,Lee, Ann\n")
    good, bad = (
        str(store.put_file(tmp_path / name, "text/csv", Retention("7"))["ref"])
        for name in ("good.csv", "bad.csv")
    )

    assert json.loads(cli("result", "sql", good, query, "--json").out) == [{"n": 2}]
    refused = cli("result", "sql", bad, "from result")
    assert refused.code == 2
    assert "CSV Error on Line: 3002" in refused.err


def test_get_writes_the_value(cli: Cli, ref: str) -> None:
    rows = json.loads(cli("result", "get", ref).out)
    assert len(rows) == 3_000
    assert rows[10] == {"id": 10, "name": "name 3", "text": "x" * 30}


def test_get_takes_the_short_form_of_a_reference(cli: Cli, ref: str) -> None:
    short = ref.removeprefix("noetl://results/")
    assert cli("result", "get", short).out == cli("result", "get", ref).out


def test_get_writes_a_table_to_a_file_as_it_was_kept(cli: Cli, table: str) -> None:
    ended = cli("result", "get", table, "--output", "copy.parquet")
    assert (ended.code, ended.out) == (0, "")
    with duckdb.connect() as connection:
        assert connection.execute("SELECT count(*) FROM 'copy.parquet'").fetchone() == (100,)
    assert sorted(path.name for path in Path().glob("*copy*")) == ["copy.parquet"]


def test_head_shows_the_first_rows_as_a_table(cli: Cli, table: str) -> None:
    ended = cli("result", "head", table, "-n", "2")
    assert ended.out == "id\tname\n0\tn0\n1\tn1\n"
    assert ended.err == "2 of 100\n"
    assert json.loads(cli("result", "head", table, "-n", "1", "--json").out) == [{"id": 0, "name": "n0"}]


def test_sql_asks_a_table(cli: Cli, table: str) -> None:
    ended = cli("result", "sql", table, "select name, count(*) as n from result group by 1 order by 1")
    assert ended.out == "name\tn\nn0\t34\nn1\t33\nn2\t33\n"


def test_sql_asks_a_value(cli: Cli, ref: str) -> None:
    ended = cli("result", "sql", ref, "select max(id) as most from result", "--json")
    assert json.loads(ended.out) == [{"most": 2_999}]


@pytest.mark.parametrize(
    "sql",
    [
        "select * from read_text('/etc/passwd')",
        "copy result to 'out.csv'",
        "install httpfs",
        "attach 'x.db'",
        "set enable_external_access = true",
    ],
)
def test_sql_reaches_nothing_but_the_result(cli: Cli, table: str, sql: str) -> None:
    ended = cli("result", "sql", table, sql)
    assert ended.code == 2
    assert ended.err.startswith("error: The query cannot be run: ")
    assert not Path("out.csv").exists()


def test_a_process_that_used_the_database_ends_without_a_word(
    program: Callable[..., subprocess.Popen[str]], table: str
) -> None:
    with program("result", "sql", table, "select count(*) as n from result", true=True) as process:
        out, err = process.communicate()
    assert (process.returncode, out, err) == (0, "n\n100\n", "")


def test_a_mistake_in_sql_is_reported(cli: Cli, table: str) -> None:
    ended = cli("result", "sql", table, "select nam from result")
    assert ended.code == 2
    assert '"name"' in ended.err


@pytest.mark.parametrize(
    ("ref", "why"),
    [
        ("noetll://results/x", "Did you mean 'noetl'?"),
        ("file:///etc/passwd", "no reference to a result"),
        ("x", "is no reference to a result"),
        (f"executions/7/{'0' * 64}.parquet", "is gone"),
        (f"executions/7/{'0' * 64}.json", "is gone"),
    ],
)
@pytest.mark.parametrize("command", [["get"], ["head"], ["sql"]])
def test_a_reference_to_nothing_is_reported(cli: Cli, command: list[str], ref: str, why: str) -> None:
    ended = cli("result", *command, ref, *(["select 1"] if command == ["sql"] else []))
    assert ended.code == 2
    assert why in ended.err


def test_head_of_anything_but_a_list_says_so(cli: Cli) -> None:
    settings = Settings.from_env()
    ref = open_results(settings.results).put({"a": 1}, Retention("7"))["ref"]
    assert "is no list" in cli("result", "head", ref).err


def test_gc_removes_what_is_over_and_says_what_stays(
    cli: Cli, ref: str, table: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "0 places removed" in cli("result", "gc").err
    monkeypatch.setenv("NOETL_RESULTS_KEEP_S", "0.001")
    place = ref.removeprefix("noetl://results/").rpartition("/")[0]
    dry = cli("result", "gc", "--dry-run")
    assert (dry.out, "1 places would be removed; 0 kept" in dry.err) == (f"{place}\n", True)
    assert "1 places belong to executions that this database does not know" in dry.err
    assert json.loads(cli("result", "gc", "--json").out)["removed"] == [place]
    assert "is gone" in cli("result", "get", ref).err
    assert cli("result", "get", table).code == 0


@pytest.fixture
def server() -> Iterator[str]:
    """The address of an API over the store of the settings."""
    settings = Settings.from_env()
    with bootstrap.local(settings) as rt:
        app = create_app(rt, settings)
        served = make_server("127.0.0.1", 0, app, threaded=True)
        thread = threading.Thread(target=served.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{served.server_port}"
        served.shutdown()
        thread.join()
        served.server_close()


def test_a_server_is_asked_for_the_same(cli: Cli, table: str, server: str) -> None:
    for command in (["get", table], ["head", table, "-n", "3"], ["head", table, "--json"]):
        assert cli("result", *command, "--server", server).out == cli("result", *command).out
    cli("result", "get", table, "-o", "there.parquet", "--server", server)
    cli("result", "get", table, "-o", "here.parquet")
    assert Path("there.parquet").read_bytes() == Path("here.parquet").read_bytes()
    gone = f"executions/7/{'0' * 64}.json"
    assert "is gone" in cli("result", "get", gone, "--server", server).err
    assert cli("result", "head", gone, "--server", server).code == 2
