"""`noetl doctor`: is everything here that NoETL needs, and does it answer?"""

from __future__ import annotations

from collections.abc import Iterator

import click

from noetl.cli.doctor_checks import CHECKS, DoctorFinding, dead_letters
from noetl.cli.inputs import json_out
from noetl.config import Settings
from noetl.facts.json import JsonMap


@click.command(epilog="Example: noetl doctor")
@click.option("--json", "as_json", is_flag=True, help="Answer in JSON.")
@click.option("--letters", is_flag=True, help="List the messages that were refused, newest first.")
@click.pass_context
def doctor(ctx: click.Context, as_json: bool, letters: bool) -> None:
    """Check what NoETL needs on this machine. Exit code 1 where something is missing."""
    settings = Settings.from_env()
    if letters:
        _list(dead_letters(settings), as_json)
        return
    findings = [check(settings) for check in CHECKS]
    if as_json:
        json_out(
            [
                {"name": f.name, "ok": f.ok, "detail": f.detail, "advice": "" if f.ok else f.advice}
                for f in findings
            ]
        )
    else:
        for line in _lines(findings):
            click.echo(line)
    ctx.exit(0 if all(finding.ok for finding in findings) else 1)


def _lines(findings: list[DoctorFinding]) -> Iterator[str]:
    for finding in findings:
        mark = click.style("ok  ", fg="green") if finding.ok else click.style("miss", fg="red")
        yield f"{mark} {finding.name}: {finding.detail}"
        if not finding.ok and finding.advice:
            yield f"     {finding.advice}"


def _list(letters: list[JsonMap], as_json: bool) -> None:
    if as_json:
        json_out(letters)
        return
    for letter in letters:
        click.echo(f"{letter['recorded_at']} {letter['source']}: {letter['reason']}\n    {letter['body']}")
