"""`noetl export`: the log as tables, in files."""

from __future__ import annotations

from typing import cast, get_args

import click

from noetl.cli.completion import complete_directory
from noetl.cli.inputs import json_out
from noetl.cli.opened import opened
from noetl.cli.tables import table
from noetl.exports.export import ExportRequest
from noetl.exports.export import export as write
from noetl.exports.folder import Format, Manifest


@click.command(
    short_help="Write the log as tables: Parquet, JSON lines, ClickHouse.",
    epilog="Example: noetl export --to warehouse --format parquet",
)
@click.option(
    "--to",
    metavar="DIR|URL",
    required=True,
    shell_complete=complete_directory,
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
@click.option("--json", "as_json", is_flag=True, help="Answer in JSON.")
def export(to: str, format_: str | None, tables: str | None, as_json: bool) -> None:
    """Write executions, step runs, tasks, events and the rest as tables.

    A later export to the same directory adds files with what is new since then. Its manifest.json
    names the files that count. Executions may run meanwhile.
    """
    names = [name.strip() for name in (tables or "").split(",") if name.strip()]
    with opened() as rt:
        manifest = write(rt, ExportRequest(to, cast("Format | None", format_), names))
    if as_json:
        json_out(
            {
                "to": to,
                "format": manifest.format,
                "exports": manifest.exports,
                "tables": {
                    name: [{"file": part.file, "rows": part.rows, "export": part.export} for part in parts]
                    for name, parts in manifest.tables.items()
                },
            }
        )
        return
    _show(manifest)


def _show(manifest: Manifest) -> None:
    rows = [
        (
            name,
            sum(part.rows for part in parts if part.export == manifest.exports),
            sum(part.rows for part in parts),
        )
        for name, parts in manifest.tables.items()
    ]
    table(("table", "new rows", "all rows"), rows)
