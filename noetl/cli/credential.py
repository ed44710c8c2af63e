"""`noetl credential`: secrets, encrypted before they reach the database."""

from __future__ import annotations

import sys
from collections.abc import Callable

import click

from noetl import bootstrap
from noetl.cli.address import execution_option
from noetl.cli.complaints import warn
from noetl.cli.console import as_json_option, is_asked, json_out, payload_of, table
from noetl.cli.credential_form import ask_fields
from noetl.cli.process import open_runtime
from noetl.config import Settings
from noetl.errors import BadRequest, ToolError
from noetl.facts.json import JsonMap
from noetl.facts.nearest import did_you_mean
from noetl.tools.sql.dsn import POSTGRES_FIELDS, postgres_dsn, unknown_postgres_fields
from noetl.usecases import credentials


def _audience_options(command: Callable[..., None]) -> Callable[..., None]:
    command = execution_option("--execution", "For this execution alone; it goes with the execution.")(
        command
    )
    return click.option("--path", metavar="PATH", help="For playbooks with this path, and below it.")(command)


@click.group(epilog="Example: noetl credential list")
def credential() -> None:
    """Keep credentials, encrypted. Tasks name them with `auth: NAME`."""


@credential.command(
    name="set",
    epilog="Example: noetl credential set warehouse --type postgres",
)
@click.argument("name")
@click.option("--type", "kind", required=True, type=click.Choice(credentials.TYPES), help="What it opens.")
@click.option(
    "--data",
    metavar="JSON|@FILE",
    help="Its fields; `-` reads them from standard input. Without it they are asked for.",
)
@_audience_options
def set_(name: str, kind: str, data: str | None, path: str | None, execution: str | None) -> None:
    """Create or replace the credential NAME: for all playbooks, unless told otherwise.

    Without --data a person is asked for each field, and secrets are not shown.
    """
    of = credentials.audience(path, execution)
    fields = _read_fields(kind, data)
    if kind == "postgres" and fields:
        _check_postgres(fields)
    with open_runtime() as rt:
        credentials.save(rt, name, kind, fields, of)
    click.echo(f"Credential {name} is set{_for(of)}.")


def _read_fields(kind: str, data: str | None) -> JsonMap:
    if data is not None:
        return payload_of(data if data != "-" else sys.stdin.read(), "--data")
    if not is_asked():
        raise click.UsageError("Give the fields with --data: nobody can be asked for them here.")
    return ask_fields(kind)


def _for(of: credentials.Audience) -> str:
    return "" if of == credentials.EVERYBODY else f" for {of}"


def _check_postgres(fields: JsonMap) -> None:
    """Refuses fields that make no connection, and names those that no connection uses."""
    try:
        postgres_dsn(fields)
    except ToolError as error:
        raise BadRequest(error.message) from error
    for name in unknown_postgres_fields(fields):
        warn(f"connections do not use the field {name!r}.{did_you_mean(name, POSTGRES_FIELDS)}")


@credential.command(name="list", epilog="Example: noetl credential list --json")
@as_json_option
def list_(as_json: bool) -> None:
    """Names, types and whom they are for; never the secrets."""
    with open_runtime() as rt:
        rows = credentials.credentials(rt)
    if as_json:
        fields = ("name", "type", "scope", "place", "updated_at")
        json_out([{field: getattr(row, field) for field in fields} for row in rows])
    else:
        table(
            ("name", "type", "for", "updated"),
            [
                (row.name, row.type, f"{row.scope} {row.place}".strip(), f"{row.updated_at:%Y-%m-%d %H:%M}")
                for row in rows
            ],
        )


@credential.command(epilog="Example: noetl credential delete warehouse")
@click.argument("name")
@_audience_options
def delete(name: str, path: str | None, execution: str | None) -> None:
    """Forget the credential NAME: the one for all playbooks, unless told otherwise."""
    of = credentials.audience(path, execution)
    with open_runtime() as rt:
        credentials.delete(rt, name, of)
    click.echo(f"Credential {name} is gone{_for(of)}.")


@credential.command(epilog="Example: noetl credential rotate --new-key")
@click.option("--new-key", is_flag=True, help="First put a new key in front of those in the key file.")
def rotate(new_key: bool) -> None:
    """Encrypt all credentials anew, with the newest key.

    The older keys stay where they are: executions that began with them need them until they have
    ended.
    """
    settings = Settings.from_env()
    settings.make_home()
    keys = bootstrap.keys(settings)
    if new_key:
        keys.add()
    with open_runtime() as rt:
        count = credentials.rotate(rt, keys.vault().decrypt)
    click.echo(f"{count} credential{'' if count == 1 else 's'} encrypted with the newest key.")
