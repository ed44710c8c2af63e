"""`noetl whoami`: who this user is to a server."""

from __future__ import annotations

from collections.abc import Iterable

import click

from noetl.cli.console import as_json_option, json_out
from noetl.cli.remote import connect, own_server
from noetl.config import Settings


@click.command(epilog="Example: noetl whoami --server http://127.0.0.1:8642")
@click.option(
    "--server",
    metavar="URL",
    help="Which server.  [default: the stack that runs on this home, else NOETL_HOST and NOETL_PORT]",
)
@as_json_option
def whoami(server: str | None, as_json: bool) -> None:
    """Ask a server who commands are to it, and what they may do there: with the token that they
    send it, or without one."""
    with connect(server or own_server(Settings.from_env())) as client:
        found = client.whoami()
    if as_json:
        json_out(found)
        return
    click.echo(f"Principal:  {found['principal']}{_in_brackets('token', found['token_id'])}")
    click.echo(f"Scopes:     {_list(found['scopes'])}")
    click.echo(f"Groups:     {_list(found['groups'])}")
    click.echo(f"Tokens:     {'not needed' if found['open'] else 'needed'} for requests from here")


def _in_brackets(name: str, value: str | None) -> str:
    return "" if value is None else f" ({name} {value})"


def _list(names: Iterable[str]) -> str:
    return ", ".join(names) or "none"
