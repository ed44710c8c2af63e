"""`noetl sql` and `noetl export`: the log as tables, to ask and to take away."""

from __future__ import annotations

import csv
import sys
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any, Final, cast, get_args
from uuid import UUID

import click
from click.shell_completion import CompletionItem

from noetl.cli.console import as_json_option, json_out, table
from noetl.cli.process import open_runtime
from noetl.errors import BadRequest
from noetl.exports.export import ExportRequest
from noetl.exports.export import export as write_export
from noetl.exports.folder import Format
from noetl.exports.query import QueryAnswer, answer_query
from noetl.facts import json
from noetl.facts.json import Json
from noetl.projection.tables import TABLES

#: Beyond this, readers of JSON round: ids of executions are texts, as in the API.
_EXACT: Final = 1 << 53


@click.command(
    short_help="Ask the log in SQL.",
    epilog='Example: noetl sql "select status, count(*) as n from execution group by status"',
)
@click.argument("query", required=False)
@click.option(
    "--last", metavar="N", type=click.IntRange(min=1), help="Only the newest N executions; all unless given."
)
@click.option("--json", "as_json", is_flag=True, help="Answer in JSON: a list of rows.")
@click.option("--csv", "as_csv", is_flag=True, help="Answer in CSV.")
def sql(query: str | None, last: int | None, as_json: bool, as_csv: bool) -> None:
    """Answer QUERY, one statement in the SQL of DuckDB, from the log; without it, list the
    tables and columns.

    The tables that QUERY names are filled from the database, and nothing else can be reached.
    Executions may run meanwhile.
    """
    if as_json and as_csv:
        raise BadRequest("--json and --csv exclude each other.")
    if query is None:
        _describe(as_json, as_csv)
        return
    with open_runtime() as rt, answer_query(rt, query, last) as answer:
        _show(answer, as_json, as_csv)


def _describe(as_json: bool, as_csv: bool) -> None:
    header = ("table", "column", "type", "meaning")
    rows = [
        (one.name, column.name, column.type, column.meaning)
        for one in TABLES.values()
        for column in one.columns
    ]
    _show(QueryAnswer(header, iter(rows)), as_json, as_csv)


def _show(answer: QueryAnswer, as_json: bool, as_csv: bool) -> None:
    rows = ([_cell(value) for value in row] for row in answer.rows)
    if as_json:
        json_out([dict(zip(answer.columns, row, strict=True)) for row in rows])
    elif as_csv:
        writer = csv.writer(sys.stdout, lineterminator="\n")
        writer.writerow(answer.columns)
        writer.writerows(map(_text, row) for row in rows)
    else:
        table(answer.columns, ([_text(value) for value in row] for row in rows))


def _cell(value: Any) -> Json:
    """A value of DuckDB as JSON. Numbers that others would round are texts."""
    match value:
        case datetime():
            # Ours have no zone, and are UTC; others are the query's own.
            return value.isoformat()
        case date() | time() | UUID() | Decimal() | timedelta():
            return str(value)
        case bytes():
            return value.hex()
        case int() if abs(value) > _EXACT:
            return str(value)
        case dict():
            return {str(key): _cell(one) for key, one in value.items()}
        case list() | tuple():
            return [_cell(one) for one in value]
        case _:
            return value


def _text(value: Json) -> Json:
    return json.dumps(value, ensure_ascii=False) if isinstance(value, dict | list) else value


def _complete_directory(
    _ctx: click.Context, _param: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    return [CompletionItem(incomplete, type="dir")]


@click.command(
    short_help="Write the log as tables: Parquet, JSON lines, ClickHouse.",
    epilog="Example: noetl export --to warehouse --format parquet",
)
@click.option(
    "--to",
    metavar="DIR|URL",
    required=True,
    shell_complete=_complete_directory,
    help="Directory, or fsspec URL such as s3://bucket/noetl.",
)
@click.option(
    "--format",
    "format_",
    metavar="FORMAT",
    type=click.Choice(get_args(Format)),
    help="parquet (default), jsonl, or clickhouse: Parquet, a schema and a script that loads it.",
)
@click.option("--tables", metavar="A,B", help="Only these; all of them unless given. See `noetl sql`.")
@as_json_option
def export(to: str, format_: str | None, tables: str | None, as_json: bool) -> None:
    """Write executions, step runs, tasks, events and the rest as tables.

    A later export to the same directory adds files with what is new since then. Its manifest.json
    names the files that count. Executions may run meanwhile.
    """
    names = [name.strip() for name in (tables or "").split(",") if name.strip()]
    with open_runtime() as rt:
        manifest = write_export(rt, ExportRequest(to, cast("Format | None", format_), names))
    parts_of = manifest.tables.items()
    if as_json:
        files = {
            name: [{"file": part.file, "rows": part.rows, "export": part.export} for part in parts]
            for name, parts in parts_of
        }
        json_out({"to": to, "format": manifest.format, "exports": manifest.exports, "tables": files})
        return
    rows = [
        (
            name,
            sum(part.rows for part in parts if part.export == manifest.exports),
            sum(part.rows for part in parts),
        )
        for name, parts in parts_of
    ]
    table(("table", "new rows", "all rows"), rows)
