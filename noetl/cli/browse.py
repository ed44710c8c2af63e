"""`noetl open`, and `--open` of `noetl run`: pages, in the browser of who types."""

from __future__ import annotations

import webbrowser
from urllib.parse import quote

import click

from noetl.cli.remote import connect, own_server
from noetl.config import Settings
from noetl.errors import Unavailable


@click.command(
    name="open",
    short_help="Show pages of executions in a browser.",
    epilog="Example: noetl open 1234567890123",
)
@click.argument("execution", required=False, metavar="[EXECUTION]")
@click.option(
    "--server",
    metavar="URL",
    help="Which server.  [default: the stack that runs on this home, else NOETL_HOST and NOETL_PORT]",
)
def open_page(execution: str | None, server: str | None) -> None:
    """Show the page of an execution in a browser, or the list of all, and print its address."""
    show_page(find_site(server), execution)


def find_site(server: str | None) -> str:
    """The server whose pages are meant, without a slash at its end. Raises Unavailable where none
    answers there."""
    url = (server or own_server(Settings.from_env())).rstrip("/")
    with connect(url) as client:
        try:
            client.health()
        except Unavailable as error:
            raise Unavailable(f"{error.message} `noetl up` starts one that has pages.") from error
    return url


def show_page(site: str, execution: str | None = None) -> None:
    """Shows a page in the browser, if there is one, and says where it is."""
    address = f"{site}/" if execution is None else f"{site}/executions/{quote(execution, safe='')}"
    click.echo(address, err=True)
    if not webbrowser.open(address):
        click.echo("No browser was found here: open that address in yours.", err=True)
