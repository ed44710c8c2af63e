"""`noetl token`: who may ask a server for what."""

from __future__ import annotations

from datetime import datetime, timedelta

import click

from noetl.cli.console import as_json_option, json_out, table
from noetl.cli.process import open_runtime
from noetl.errors import BadRequest
from noetl.facts.durations import seconds
from noetl.facts.json import JsonMap
from noetl.usecases import tokens
from noetl.usecases.access import NO_WORK, SCOPES
from noetl.usecases.ports import TokenRow
from noetl.usecases.tokens import NewToken

#: In the place of a duration.
_NEVER = "never"


@click.group(epilog="Example: noetl token create ci --scope run")
def token() -> None:
    """Give people and programs tokens, and take them back. A token says who asks a server, and what
    that one may do."""


@token.command(epilog="Example: noetl token create etl --scope 'run:etl/*' --scope read --expires 30d")
@click.argument("principal")
@click.option(
    "--scope",
    "scopes",
    metavar="SCOPE[:PATH]",
    required=True,
    multiple=True,
    help=f"What may be done with it: {', '.join(SCOPES)}; for some playbooks alone with a pattern of their "
    f"path. May be repeated. {NO_WORK}",
)
@click.option(
    "--group", "groups", metavar="NAME", multiple=True, help="A group of PRINCIPAL; may be repeated."
)
@click.option(
    "--expires",
    metavar="DURATION|never",
    default=f"{tokens.LIFETIME.days}d",
    show_default=True,
    help="How long it is good, unless it is revoked before.",
)
@click.option("--rate", metavar="N/PERIOD", help="How many requests it may make, like 100/minute.")
@click.option("--quiet", "-q", is_flag=True, help="Print the token alone.")
@as_json_option
def create(
    principal: str,
    scopes: tuple[str, ...],
    groups: tuple[str, ...],
    expires: str,
    rate: str | None,
    quiet: bool,
    as_json: bool,
) -> None:
    """Make a token for PRINCIPAL, a person or a program.

    The token is printed to standard output, this once: only a digest of it is kept.
    """
    lifetime = _read_lifetime(expires)
    with open_runtime() as rt:
        made = tokens.create(rt, principal, scopes, groups=groups, lifetime=lifetime, rate=rate)
        now = rt.clock()
    if as_json:
        json_out({**_as_json(made.row, now), "token": made.text})
        return
    if not quiet:
        _explain(made)
    click.echo(made.text)


def _read_lifetime(text: str) -> timedelta | None:
    """Raises BadRequest."""
    if text.strip().lower() == _NEVER:
        return None
    try:
        return timedelta(seconds=seconds(text))
    except ValueError as error:
        raise BadRequest(f"--expires {_NEVER}, or for how long: {error}") from error


def _explain(made: NewToken) -> None:
    row = made.row
    until = "until it is revoked" if row.expires_at is None else f"until {row.expires_at:%Y-%m-%d %H:%M} UTC"
    click.echo(
        f"Token {row.token_id} is {row.principal}'s, may {', '.join(row.grants)}, and is good {until}. It is "
        "shown this once; send it as `Authorization: Bearer`, or set NOETL_TOKEN to it:",
        err=True,
    )


@token.command(name="list", epilog="Example: noetl token list --json")
@as_json_option
def list_(as_json: bool) -> None:
    """All tokens, oldest first; never the secrets."""
    with open_runtime() as rt:
        rows = tokens.tokens(rt)
        now = rt.clock()
    if as_json:
        json_out([_as_json(row, now) for row in rows])
        return
    table(
        ("id", "principal", "scopes", "state", "created", "expires", "last used", "rate", "groups"),
        [_as_cells(row, now) for row in rows],
    )


def _as_cells(row: TokenRow, now: datetime) -> tuple[object, ...]:
    return (
        *(row.token_id, row.principal, ", ".join(row.grants), _state(row, now)),
        *(_day(row.created_at), _day(row.expires_at) or _NEVER, _day(row.used_at) or _NEVER),
        *(row.rate, ", ".join(row.groups)),
    )


def _day(at: datetime | None) -> str:
    return "" if at is None else f"{at:%Y-%m-%d %H:%M}"


def _state(row: TokenRow, now: datetime) -> str:
    if row.revoked_at is not None:
        return "revoked"
    return "expired" if row.expires_at is not None and row.expires_at <= now else "good"


def _as_json(row: TokenRow, now: datetime) -> JsonMap:
    """As the API describes a token, and its state."""
    fields = ("rate", "created_at", "created_by", "expires_at", "revoked_at", "used_at")
    return {
        "token_id": row.token_id,
        "principal": row.principal,
        "groups": list(row.groups),
        "scopes": list(row.grants),
        **{name: getattr(row, name) for name in fields},
        "state": _state(row, now),
    }


@token.command(epilog="Example: noetl token revoke k3v9mx27qd")
@click.argument("token_id")
def revoke(token_id: str) -> None:
    """Have a token be good no longer, from the next request on. TOKEN_ID is its id, or the whole of
    it. Twice is fine."""
    with open_runtime() as rt:
        row = tokens.revoke(rt, token_id)
    click.echo(f"Token {row.token_id} of {row.principal} is revoked.")
