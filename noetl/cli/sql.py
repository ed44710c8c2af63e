"""`noetl sql`: questions about the log."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Sequence
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any, Final
from uuid import UUID

import click

from noetl.cli.inputs import json_out
from noetl.cli.opened import opened
from noetl.cli.tables import table
from noetl.errors import BadRequest
from noetl.exports.query import QueryAnswer, answer_query
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
@click.option("--json", "as_json", is_flag=True, help="QueryAnswer in JSON: a list of rows.")
@click.option("--csv", "as_csv", is_flag=True, help="QueryAnswer in CSV.")
def sql(query: str | None, last: int | None, as_json: bool, as_csv: bool) -> None:
    """QueryAnswer QUERY, one statement in the SQL of DuckDB, from the log; without it, list the
    tables and columns.

    The tables that QUERY names are filled from the database, and nothing else can be reached.
    Executions may run meanwhile.
    """
    if as_json and as_csv:
        raise BadRequest("--json and --csv exclude each other.")
    if query is None:
        _describe(as_json, as_csv)
        return
    with opened() as rt, answer_query(rt, query, last) as answer:
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
        _csv(answer.columns, rows)
    else:
        table(answer.columns, ([_text(value) for value in row] for row in rows))


def _csv(columns: Sequence[str], rows: Iterator[list[Json]]) -> None:
    line = io.StringIO()
    writer = csv.writer(line, lineterminator="\n")
    writer.writerow(columns)
    for row in rows:
        writer.writerow(["" if value is None else _text(value) for value in row])
        if line.tell() > 65_536:
            click.echo(line.getvalue(), nl=False)
            line.seek(0)
            line.truncate()
    click.echo(line.getvalue(), nl=False)


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
