"""`noetl result`: large results, looked into and cleared away."""

from __future__ import annotations

import codecs
import contextlib
import json
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Protocol

import click

from noetl.cli.inputs import as_json_option, json_out
from noetl.cli.process import open_runtime
from noetl.cli.remote import connect
from noetl.cli.result_sql import query
from noetl.cli.tables import table
from noetl.client import Client
from noetl.client.operations import RESULTS as STORE
from noetl.errors import BadRequest
from noetl.facts.json import Json
from noetl.facts.nearest import did_you_mean
from noetl.usecases import results
from noetl.usecases.runtime import Runtime

server_option = click.option("--server", metavar="URL", help="Ask a running server instead.")


@click.group(epilog="Example: noetl result head noetl://results/executions/1234567890123/9f86….parquet")
def result() -> None:
    """Look into large results, and clear away those that nobody needs."""


@result.command(
    short_help="Write a result to standard output or a file.",
    epilog="Example: noetl result get noetl://results/executions/1234567890123/9f86….parquet --output "
    "rows.parquet",
)
@click.argument("ref")
@click.option(
    "--output",
    "-o",
    metavar="FILE",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write the bytes that were kept (a table is Parquet).",
)
@server_option
def get(ref: str, output: Path | None, server: str | None) -> None:
    """Write the result REF to standard output, as JSON."""
    with _open_source(server) as source:
        if output is not None:
            _save(source, _full_reference(ref), output)
            return
        for piece in source.text(_full_reference(ref)):
            click.echo(piece, nl=False)
    click.echo()


@result.command(
    short_help="Show the first rows of a result.",
    epilog="Example: noetl result head noetl://results/executions/1234567890123/9f86….parquet -n 20",
)
@click.argument("ref")
@click.option(
    "-n",
    "count",
    metavar="N",
    type=click.IntRange(1, 10_000),
    default=10,
    show_default=True,
    help="How many.",
)
@as_json_option
@server_option
def head(ref: str, count: int, as_json: bool, server: str | None) -> None:
    """Show the first rows of the table, or items of the list, that REF stands for."""
    with _open_source(server) as source:
        rows, length = source.page(_full_reference(ref), count)
    _show(rows, as_json=as_json)
    if length > len(rows) and not as_json:
        click.echo(f"{len(rows)} of {length}", err=True)


@result.command(
    short_help="Ask a result with SQL.",
    epilog="Example: noetl result sql noetl://results/executions/1234567890123/9f86….parquet "
    "'select name, count(*) from result group by name'",
)
@click.argument("ref")
@click.argument("sql")
@as_json_option
def sql(ref: str, sql: str, as_json: bool) -> None:
    """Run one query of DuckDB over the result REF, which it sees as the table `result`, and nothing
    else."""
    with open_runtime() as rt:
        rows = query(rt.results, results.reference_of(_full_reference(ref)), sql)
    _show(rows, as_json=as_json)


@result.command(
    short_help="Clear away results whose time is over.",
    epilog="Example: noetl result gc --dry-run",
)
@click.option("--dry-run", is_flag=True, help="Only say what would go.")
@as_json_option
def gc(dry_run: bool, as_json: bool) -> None:
    """Clear away results whose time is over, as the sweeper does now and then."""
    with open_runtime() as rt:
        done = results.collect(rt, rt.clock(), dry_run=dry_run)
    if as_json:
        json_out({name: getattr(done, name) for name in ("removed", "objects", "kept", "unknown", "logs")})
        return
    for place in done.removed:
        click.echo(place)
    verb = "would be removed" if dry_run else f"removed, with {done.objects} objects"
    click.echo(
        f"{len(done.removed)} places {verb}; {done.kept} kept; logs of {done.logs} executions.", err=True
    )
    if done.unknown:
        click.echo(
            f"{done.unknown} places belong to executions that this database does not know; they stay.",
            err=True,
        )


def _full_reference(ref: str) -> str:
    """The reference with its scheme. Raises BadRequest for what cannot be one."""
    if ref.startswith(STORE):
        return ref
    scheme, separator, _ = ref.partition("://")
    if separator:
        raise BadRequest(
            f"{ref[:200]!r} is no reference to a result of this store: those begin with {STORE}."
            f"{did_you_mean(scheme, ['noetl'])}"
        )
    return STORE + ref.removeprefix("results/")


def _save(source: _ResultReader, ref: str, target: Path) -> None:
    """All of it or nothing: a file that is there is whole."""
    draft = target.with_name(f".{target.name}.part")
    try:
        source.save(ref, draft)
        draft.replace(target)
    except OSError as error:
        raise BadRequest(f"{target} cannot be written: {error.strerror or error}.") from error
    finally:
        with contextlib.suppress(OSError):
            draft.unlink()
    click.echo(f"{target}: {target.stat().st_size:,} bytes", err=True)


def _show(rows: list[Json], *, as_json: bool) -> None:
    if as_json:
        json_out(rows)
    elif not rows:
        click.echo("No rows.", err=True)
    elif all(isinstance(row, Mapping) for row in rows):
        columns = list(dict.fromkeys(name for row in rows for name in row))
        table(columns or ("value",), [[_cell(row.get(name)) for name in columns] for row in rows])
    else:
        table(("value",), [(_cell(row),) for row in rows])


def _cell(value: Json) -> Json:
    return value if isinstance(value, str | None) else json.dumps(value, ensure_ascii=False)


# --- the store of the settings, or that of a server ---


class _ResultReader(Protocol):
    """Where results are fetched from."""

    def page(self, ref: str, limit: int) -> tuple[list[Json], int]:
        """The first items of a list, and its length."""

    def text(self, ref: str) -> Iterator[str]:
        """The JSON of the whole value, in pieces."""

    def save(self, ref: str, target: Path) -> None:
        """Writes the bytes that were kept; of a value its JSON."""


@contextlib.contextmanager
def _open_source(server: str | None) -> Iterator[_ResultReader]:
    if server is not None:
        with connect(server) as client:
            yield _RemoteResults(client)
        return
    with open_runtime() as rt:
        yield _LocalResults(rt)


class _LocalResults:
    """The store of the settings."""

    def __init__(self, rt: Runtime) -> None:
        self._results = rt.results

    def page(self, ref: str, limit: int) -> tuple[list[Json], int]:
        found = results.page(self._results.load, results.reference_of(ref), 0, limit)
        return found.items, found.length

    def text(self, ref: str) -> Iterator[str]:
        return results.json_of(self._results.load(results.reference_of(ref)), self._results.load)

    def save(self, ref: str, target: Path) -> None:
        reference = results.reference_of(ref)
        if results.is_value(reference):
            with target.open("w", encoding="utf-8") as file:
                file.writelines(self.text(ref))
            return
        with self._results.file(reference) as path:
            shutil.copyfile(path, target)


class _RemoteResults:
    """The store of a server."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def page(self, ref: str, limit: int) -> tuple[list[Json], int]:
        found = self._client.result_page(ref, limit=limit)
        return found.items, found.length

    def text(self, ref: str) -> Iterator[str]:
        decoder = codecs.getincrementaldecoder("utf-8")()
        for block in self._client.download(ref):
            yield decoder.decode(block)

    def save(self, ref: str, target: Path) -> None:
        with target.open("wb") as file:
            file.writelines(self._client.download(ref, raw=True))
