"""`noetl result`: large results, looked into and cleared away."""

from __future__ import annotations

import codecs
import contextlib
import itertools
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final

import click

from noetl.cli.console import as_json_option, json_out, table
from noetl.cli.process import open_runtime
from noetl.cli.remote import connect
from noetl.client import Client
from noetl.client.operations import RESULTS as STORE
from noetl.errors import BadRequest
from noetl.facts import json
from noetl.facts.json import Json, JsonMap
from noetl.facts.nearest import did_you_mean
from noetl.facts.reference import Lazy
from noetl.results.tables import quote_text, rows_of
from noetl.tools.duckdb.tables import TableFile
from noetl.tools.kit.large import CSV, NDJSON, PARQUET
from noetl.usecases import results
from noetl.usecases.ports import Results
from noetl.usecases.runtime import Runtime

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

#: Ending of a reference → what it is to DuckDB.
_CONTENT_TYPES: Final = {".parquet": PARQUET, ".ndjson": NDJSON, ".csv": CSV}
_MEMORY: Final = "1GB"

server_option = click.option("--server", metavar="URL", help="Ask a running server instead.")


@click.group(epilog="Example: noetl result head noetl://results/executions/1234567890123/9f86….parquet")
def result() -> None:
    """Look into large results, and clear away those that are not needed."""


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
        rows = _query(rt.results, results.reference_of(_full_reference(ref)), sql)
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
        json_out(
            {
                name: getattr(done, name)
                for name in ("removed", "objects", "kept", "unknown", "logs", "secrets")
            }
        )
        return
    for place in done.removed:
        click.echo(place)
    verb = "would be removed" if dry_run else f"removed, with {done.objects} objects"
    click.echo(
        f"{len(done.removed)} places {verb}; {done.kept} kept; logs of {done.logs} executions, "
        f"secrets of {done.secrets}.",
        err=True,
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


def _save(source: _LocalResults | _RemoteResults, ref: str, target: Path) -> None:
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


@contextlib.contextmanager
def _open_source(server: str | None) -> Iterator[_LocalResults | _RemoteResults]:
    if server is not None:
        with connect(server) as client:
            yield _RemoteResults(client)
        return
    with open_runtime() as rt:
        yield _LocalResults(rt)


class _LocalResults:
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


# --- SQL over one result ---


def _query(kept: Results, reference: JsonMap, sql: str) -> list[dict[str, Json]]:
    """The rows that `sql` yields over the table `result`, within bounds of memory; nothing else can
    be reached. Raises BadRequest where DuckDB refuses, NotFound where the result is gone."""
    import duckdb  # the driver takes 90 ms, which other commands do without

    with (
        TemporaryDirectory(prefix="noetl-sql-") as scratch,
        _table_file(kept, reference, scratch) as path,
    ):
        try:
            with _open_confined(path, scratch) as connection:
                return rows_of(connection.execute(sql))
        except duckdb.Error as error:
            raise BadRequest(f"The query cannot be run: {str(error).strip()}") from error


@contextlib.contextmanager
def _open_confined(path: Path, scratch: str) -> Iterator[DuckDBPyConnection]:
    """A database that sees one file, as `result`."""
    import duckdb  # see `_query`

    settings: dict[str, str | bool | int | float | list[str]] = {
        "memory_limit": _MEMORY,
        "temp_directory": scratch,
        "autoinstall_known_extensions": False,
        "autoload_known_extensions": False,
        "allow_persistent_secrets": False,
        "python_enable_replacements": False,
    }
    with duckdb.connect(":memory:", config=settings) as connection:
        connection.execute("SET TimeZone = 'UTC'")
        rows = TableFile(path, _CONTENT_TYPES[path.suffix]).scan(connection, "The result")
        connection.execute(f"CREATE VIEW result AS SELECT * FROM {rows}")  # noqa: S608 - quoted
        connection.execute(f"SET allowed_paths = [{quote_text(str(path))}]")
        connection.execute("SET enable_external_access = false")
        connection.execute("SET lock_configuration = true")
        yield connection


@contextlib.contextmanager
def _table_file(kept: Results, reference: JsonMap, scratch: str) -> Iterator[Path]:
    """A file that DuckDB can read, with the rows of the result; any value that is not a list is
    one row."""
    if PurePosixPath(reference["ref"]).suffix in _CONTENT_TYPES:
        with kept.file(reference) as path:
            yield path
        return
    value = kept.load(reference)
    items = itertools.chain.from_iterable(value.pages()) if isinstance(value, Lazy) else value
    path = Path(scratch, "result.ndjson")
    with path.open("w", encoding="utf-8") as out:
        for item in items if isinstance(value, Lazy | list) else [value]:
            row = item if isinstance(item, dict) else {"value": item}
            out.writelines(results.json_of(row, kept.load))
            out.write("\n")
    yield path
