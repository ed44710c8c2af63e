"""`noetl catalog`: versions of playbooks under their paths."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import click

from noetl.cli.complaints import warn_of_playbook
from noetl.cli.console import as_json_option, json_out, read_text, table
from noetl.cli.process import open_runtime
from noetl.facts.json import Json, JsonMap
from noetl.net.model import Net
from noetl.usecases import catalog as playbooks


@click.group(epilog="Example: noetl catalog register examples/hello.yaml")
def catalog() -> None:
    """Register playbooks and look them up."""


@catalog.command(
    short_help="Keep playbooks under their paths, in versions.",
    epilog="Example: noetl catalog register examples/*.yaml",
)
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path))
@as_json_option
def register(files: tuple[Path, ...], as_json: bool) -> None:
    """Keep FILES under their metadata.path: a new version where the content changed."""
    with open_runtime() as rt:
        rows = [playbooks.register(rt, read_text(file), str(file)) for file in files]
    if as_json:
        json_out(
            [
                {"path": row.path, "version": row.version, "warnings": playbooks.warnings_of(row)}
                for row in rows
            ]
        )
        return
    for file, row in zip(files, rows, strict=True):
        warn_of_playbook(playbooks.warnings_of(row), str(file))
        click.echo(f"{row.path} version {row.version}")


@catalog.command(name="list", epilog="Example: noetl catalog list --json")
@as_json_option
def list_(as_json: bool) -> None:
    """The newest version of every playbook."""
    with open_runtime() as rt:
        found = playbooks.playbooks(rt)
    rows = [{"path": row.path, "version": row.version, "name": row.name} for row in found]
    if as_json:
        json_out(rows)
    else:
        table(("path", "version", "name"), [tuple(row.values()) for row in rows])


@catalog.command(epilog="Example: noetl catalog show examples/hello --inputs")
@click.argument("path")
@click.option(
    "--version", metavar="N", type=click.IntRange(min=1), help="Which version; the newest unless given."
)
@click.option("--inputs", is_flag=True, help="Print its inputs instead.")
@click.option("--json", "as_json", is_flag=True, help="Answer in JSON: the text, and the inputs.")
def show(path: str, version: int | None, inputs: bool, as_json: bool) -> None:
    """Print a playbook as it was registered."""
    with open_runtime() as rt:
        row = playbooks.playbook(rt, path, version)
        found = list(_rows_of_inputs(playbooks.net_of_version(rt, row))) if inputs or as_json else []
    if as_json:
        json_out({"path": row.path, "version": row.version, "content": row.content, "inputs": found})
    elif inputs:
        table(_COLUMNS, [[_cell(one[name]) for name in _COLUMNS] for one in found])
    else:
        click.echo(row.content, nl=False)


_COLUMNS: Final = ("name", "type", "required", "secret", "default", "description")


def _rows_of_inputs(net: Net) -> Iterator[JsonMap]:
    """`{name, type, required, secret, default, description}` of each input."""
    for one in net.inputs:
        yield {
            "name": one.name,
            "type": one.type,
            "required": one.required,
            "secret": one.secret,
            "default": net.workload[one.name],
            "description": one.description,
        }


def _cell(value: Json) -> str:
    """A value as tables show it: text as it is, nothing for null and false."""
    match value:
        case None | False:
            return ""
        case True:
            return "yes"
        case str():
            return value
        case _:
            return json.dumps(value, ensure_ascii=False)
