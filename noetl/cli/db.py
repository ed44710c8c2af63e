"""`noetl db`: the schema of the database."""

from __future__ import annotations

import click

from noetl.config import Settings
from noetl.store import migrate


@click.group(epilog="Example: noetl db upgrade")
def db() -> None:
    """Create, upgrade and check the database of NOETL_DATABASE_URL."""


@db.command(epilog="Example: noetl db upgrade")
def upgrade() -> None:
    """Bring the schema up to date. Safe to run twice, and from several places at once."""
    settings = Settings.from_env()
    settings.make_home()
    place = (settings.database, settings.database_schema)
    before = migrate.current(*place)
    migrate.upgrade(*place, is_asked_for=True)
    after = migrate.current(*place)
    schema = migrate.find_schema(*place)
    click.echo(
        f"The schema{schema and f' {schema}'} is at {after}."
        if before == after
        else f"Upgraded from {before or 'nothing'} to {after}{schema and f' in the schema {schema}'}."
    )


@db.command(epilog="Example: noetl db check")
@click.pass_context
def check(ctx: click.Context) -> None:
    """Say what is pending or differs. Exit code 1 where anything is."""
    settings = Settings.from_env()
    differences = migrate.check(settings.database, settings.database_schema)
    for line in differences:
        click.echo(line)
    if not differences:
        click.echo("The schema is up to date.")
    ctx.exit(1 if differences else 0)
