"""`noetl audit`: who asked for what, and when."""

from __future__ import annotations

import csv
import io
import itertools
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Literal, TypeAlias, assert_never, get_args

import click

from noetl.cli.address import execution_option
from noetl.cli.console import as_json_option, json_out, table
from noetl.cli.process import open_runtime
from noetl.errors import BadRequest
from noetl.facts import json
from noetl.facts.durations import seconds
from noetl.facts.json import Json
from noetl.usecases import audit as use_case
from noetl.usecases import inspect
from noetl.usecases.ports import AuditEntry, AuditFilter
from noetl.usecases.runtime import Runtime

Format: TypeAlias = Literal["text", "json", "jsonl", "csv"]

#: Entries that are shown unless told otherwise; exports have all.
SHOWN = 50


@click.command(epilog="Example: noetl audit --principal ci --since 24h")
@click.option("--principal", metavar="NAME", help="Only requests of this principal, like ci or os:ada.")
@click.option(
    "--action", metavar="NAME", help="Only this, or what begins with it and a dot: token.created, token."
)
@execution_option("--execution", "Only what was asked of this execution (id or key).")
@click.option("--request", "request_id", metavar="ID", help="Only of this request (X-Request-ID).")
@click.option("--since", metavar="INSTANT", help="From then on: 2026-01-31T12:00:00Z, or 1h for an hour ago.")
@click.option("--until", metavar="INSTANT", help="Before that.")
@click.option(
    "--limit",
    metavar="N",
    type=click.IntRange(1),
    help=f"How many, the newest first.  [default: {SHOWN}; for jsonl and csv all]",
)
@click.option(
    "--format",
    "form",
    type=click.Choice(get_args(Format)),
    default="text",
    show_default=True,
    help="How they are printed; jsonl and csv export all that match.",
)
@as_json_option
def audit(
    principal: str | None,
    action: str | None,
    execution: str | None,
    request_id: str | None,
    since: str | None,
    until: str | None,
    limit: int | None,
    form: Format,
    as_json: bool,
) -> None:
    """Who asked for what, and when, newest first: by requests to a server, and by commands as
    os:<user>."""
    if as_json and form not in ("text", "json"):
        raise BadRequest(f"--json and --format {form} contradict each other; leave one of them out.")
    with open_runtime() as rt:
        if execution is not None:
            inspect.execution(rt, execution)  # raises NotFound
        now = rt.clock()
        where = AuditFilter(
            principal=principal,
            action=action,
            subject=execution,
            request_id=request_id,
            since=_read_instant("--since", since, now),
            until=_read_instant("--until", until, now),
        )
        _print(_find(rt, where, form, limit), "json" if as_json else form)


def _find(rt: Runtime, where: AuditFilter, form: Format, limit: int | None) -> Iterator[AuditEntry]:
    match form:
        case "text" | "json":
            return _first(rt, where, limit or SHOWN)
        case "jsonl" | "csv":
            return use_case.all_entries(rt, where) if limit is None else _first(rt, where, limit)
        case _:
            assert_never(form)


def _first(rt: Runtime, where: AuditFilter, limit: int) -> Iterator[AuditEntry]:
    if limit <= use_case.PAGE:
        return iter(use_case.entries(rt, where, limit=limit))
    return itertools.islice(use_case.all_entries(rt, where), limit)


def _read_instant(option: str, text: str | None, now: datetime) -> datetime | None:
    """An instant in ISO 8601, or how long ago it was. Raises BadRequest."""
    if text is None:
        return None
    try:
        at = now - timedelta(seconds=seconds(text.removeprefix("-")))
    except (ValueError, OverflowError):
        at = _read_iso(option, text)
    return (at if at.tzinfo else at.replace(tzinfo=UTC)).astimezone(UTC)


def _read_iso(option: str, text: str) -> datetime:
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        raise BadRequest(
            f"{option} {text[:80]!r} is no instant: write 2026-01-31T12:00:00Z, or 1h for an hour ago."
        ) from None


def _print(entries: Iterator[AuditEntry], form: Format) -> None:
    match form:
        case "text":
            _print_table(entries)
        case "json":
            json_out([use_case.entry_view(entry) for entry in entries])
        case "jsonl":
            for entry in entries:
                click.echo(json.dumps(use_case.entry_view(entry), ensure_ascii=False))
        case "csv":
            _print_csv(use_case.entry_view(entry) for entry in entries)
        case _:
            assert_never(form)


def _print_table(entries: Iterable[AuditEntry]) -> None:
    table(
        ("when", "principal", "action", "subject", "request", "detail"),
        [
            (
                *(f"{entry.recorded_at:%Y-%m-%d %H:%M:%S}", entry.caller.principal, entry.action),
                *(entry.subject, entry.caller.request_id, _as_text(dict(entry.detail))),
            )
            for entry in entries
        ],
    )


def _print_csv(rows: Iterator[dict[str, Json]]) -> None:
    names = ("number", "recorded_at", "principal", "request_id", "action", "subject", "version", "detail")
    _print_csv_line(names)
    for row in rows:
        _print_csv_line([_as_text(row[name]) for name in names])


def _print_csv_line(cells: Iterable[str]) -> None:
    line = io.StringIO()
    csv.writer(line, lineterminator="").writerow([_as_plain(cell) for cell in cells])
    click.echo(line.getvalue())


def _as_plain(cell: str) -> str:
    """Spreadsheets compute what begins so; with a quote before it they show it."""
    return f"'{cell}" if cell.startswith(("=", "+", "-", "@", "\t", "\r")) else cell


def _as_text(value: Json) -> str:
    if value is None or value == {}:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
