"""`noetl sql` and `noetl export`, as somebody at a terminal meets them."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from noetl.projection.tables import TABLES

Cli = Callable[..., Any]

CANARY = "s3cr3t-canary-0815"


@pytest.fixture
def ids(cli: Cli) -> list[str]:
    """Executions of two playbooks, oldest first."""
    return [
        json.loads(cli("run", file, "--json", *more).out)["execution_id"]
        for file, more in (("sum.yaml", ()), ("sum.yaml", ("--set", "a=40")), ("failing.yaml", ()))
    ]


def test_a_question_is_answered_as_a_table(cli: Cli, ids: list[str]) -> None:
    ended = cli("sql", "select execution_id, path, status, error_message from execution order by 1")
    assert ended.code == 0
    assert [line.split("\t") for line in ended.out.splitlines()] == [
        ["execution_id", "path", "status", "error_message"],
        [ids[0], "tests/sum", "completed", ""],
        [ids[1], "tests/sum", "completed", ""],
        [ids[2], "tests/failing", "failed", "no day in []"],
    ]


def test_json_holds_ids_as_texts_instants_in_iso_8601_and_json_as_it_is(cli: Cli, ids: list[str]) -> None:
    ended = cli(
        "sql", "--json", "select execution_id, created_at, ctx, result, 7 as n from execution", "--last", "2"
    )
    newest, before = json.loads(ended.out)
    assert (newest["execution_id"], before["execution_id"]) == (ids[2], ids[1])
    assert before["ctx"] == {"sum": 42}
    assert before["result"] == {"sum": 42, "a": 40}
    assert (before["n"], before["created_at"][10]) == (7, "T")


def test_csv_has_a_header_and_quotes_what_needs_it(cli: Cli, ids: list[str]) -> None:
    ended = cli(
        "sql", "--csv", "select step, result, ['1', 'x,\"y'] as list, null as nothing from step_run limit 1"
    )
    assert list(csv.DictReader(io.StringIO(ended.out))) == [
        {"step": "start", "result": "", "list": '["1", "x,\\"y"]', "nothing": ""}
    ]


def test_without_a_question_tables_and_columns_are_listed(cli: Cli) -> None:
    listed = json.loads(cli("sql", "--json").out)
    assert [(row["table"], row["column"]) for row in listed] == [
        (table.name, column.name) for table in TABLES.values() for column in table.columns
    ]


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (("select * from step_runs",), 'Did you mean "step_run"?'),
        (("select 1", "--json", "--csv"), "--json and --csv exclude each other"),
        (("update execution set status = 'x'",), "The log is read-only: it answers SELECT, and no UPDATE."),
    ],
)
def test_a_question_that_cannot_be_asked_is_wrong_input(cli: Cli, argv: tuple[str, ...], said: str) -> None:
    ended = cli("sql", *argv)
    assert (ended.code, ended.out) == (2, "")
    assert said in ended.err


def test_an_export_tells_what_is_new(cli: Cli, ids: list[str]) -> None:
    first = [
        line.split("\t")
        for line in cli("export", "--to", "out", "--tables", "execution,attempt").out.splitlines()
    ]
    assert first == [["table", "new rows", "all rows"], ["execution", "3", "3"], ["attempt", "3", "3"]]
    cli("run", "sum.yaml")
    again = json.loads(cli("export", "--to", "out", "--json").out)
    assert again["exports"] == 2
    assert again["tables"]["execution"] == [
        {"file": "execution/part-000001.parquet", "rows": 3, "export": 1},
        {"file": "execution/part-000002.parquet", "rows": 1, "export": 2},
    ]
    assert [line.split("\t")[1] for line in cli("export", "--to", "out").out.splitlines()[1:]] == ["0", "0"]


def test_an_unknown_table_is_wrong_input(cli: Cli) -> None:
    ended = cli("export", "--to", "out", "--tables", "step_runs")
    assert ended.code == 2
    assert "There is no table 'step_runs'. Did you mean 'step_run'?" in ended.err
    assert not Path("out").exists()


def test_a_secret_that_a_playbook_used_is_in_no_file_of_an_export(cli: Cli) -> None:
    cli(
        "credential",
        "set",
        "db",
        "--type",
        "postgres",
        "--data",
        json.dumps({"dsn": f"postgresql://u:{CANARY}@127.0.0.1:1/x"}),
    )
    Path("uses.yaml").write_text(
        "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: uses, path: tests/uses}\n"
        "workflow: [{step: start, tool: {kind: postgres, auth: db, command: select 1}}]\n"
    )
    assert cli("run", "uses.yaml").code == 1
    for form in ("jsonl", "clickhouse"):
        assert cli("export", "--to", form, "--format", form).code == 0
    found = [file.read_bytes() for file in Path("jsonl").rglob("*") if file.is_file()]
    assert any(b"tests/uses" in content for content in found)
    assert [content for content in found if CANARY.encode() in content] == []
    told = cli("sql", "select columns(*)::varchar from event_log").out
    assert "tests/uses" in told
    assert CANARY not in told
