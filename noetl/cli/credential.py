"""`noetl credential`: secrets, encrypted before they reach the database."""

from __future__ import annotations

import sys

import click

from noetl import bootstrap
from noetl.cli.complaints import word
from noetl.cli.inputs import json_out, payload_of
from noetl.cli.opened import opened
from noetl.cli.tables import table
from noetl.config import Settings
from noetl.errors import BadRequest, ToolError
from noetl.facts.json import JsonMap
from noetl.facts.nearest import did_you_mean
from noetl.tools.vault import POSTGRES_FIELDS, postgres_dsn, unknown_postgres_fields
from noetl.usecases import credentials


@click.group(epilog="Example: noetl credential list")
def credential() -> None:
    """Keep credentials, encrypted. Tasks name them with `auth: NAME`."""


@credential.command(
    name="set",
    epilog='Example: noetl credential set warehouse --type postgres --data \'{"host": "db", "user": "etl", '
    '"password": "...", "database": "dw"}\'',
)
@click.argument("name")
@click.option("--type", "kind", required=True, type=click.Choice(credentials.TYPES), help="What it opens.")
@click.option(
    "--data", required=True, metavar="JSON|@FILE", help="Its fields; `-` reads them from standard input."
)
def set_(name: str, kind: str, data: str) -> None:
    """Create or replace the credential NAME."""
    fields = payload_of(data if data != "-" else sys.stdin.read(), "--data")
    if kind == "postgres" and fields:
        _check_postgres(fields)
    settings = Settings.from_env()
    settings.make_home()
    vault = bootstrap.vault(settings)
    with opened() as rt:
        credentials.save(rt, vault.encrypt, name, kind, fields)
    click.echo(f"Credential {name} is set.")


def _check_postgres(fields: JsonMap) -> None:
    """Refuses what no connection can be made of, and names what no connection will look at."""
    try:
        postgres_dsn(fields)
    except ToolError as error:
        raise BadRequest(error.message) from error
    for name in unknown_postgres_fields(fields):
        hint = did_you_mean(name, POSTGRES_FIELDS)
        click.echo(f"{word('warning', 'yellow')}: connections do not use the field {name!r}.{hint}", err=True)


@credential.command(name="list", epilog="Example: noetl credential list --json")
@click.option("--json", "as_json", is_flag=True, help="Answer in JSON.")
def list_(as_json: bool) -> None:
    """Names and types; never the secrets."""
    with opened() as rt:
        rows = credentials.credentials(rt)
    if as_json:
        json_out([{"name": row.name, "type": row.type, "updated_at": row.updated_at} for row in rows])
        return
    table(
        ("name", "type", "updated"),
        [(row.name, row.type, f"{row.updated_at:%Y-%m-%d %H:%M}") for row in rows],
    )


@credential.command(epilog="Example: noetl credential delete warehouse")
@click.argument("name")
def delete(name: str) -> None:
    """Forget the credential NAME."""
    with opened() as rt:
        credentials.delete(rt, name)
    click.echo(f"Credential {name} is gone.")
