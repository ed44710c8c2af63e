"""`noetl execution logs`: what python and shell tasks printed."""

from __future__ import annotations

import json
from typing import Final

import click

from noetl.cli.opened import opened
from noetl.cli.printed import Lines
from noetl.facts.logs import LogFilter
from noetl.usecases import waiting
from noetl.usecases.views import chunk_view

#: Chunks that are read at once, and seconds that `--follow` waits before it looks although nothing was heard of.
PAGE: Final = 200
WAIT_S: Final = 5.0


@click.command(epilog="Example: noetl execution logs 1234567890123 --step load --iteration 3 -f")
@click.argument("execution_id")
@click.option("--step", metavar="NAME", help="Only what this step printed.")
@click.option("--iteration", metavar="N", type=click.IntRange(min=0), help="Only this iteration, from 0.")
@click.option("--attempt", metavar="N", type=click.IntRange(min=1), help="Only this attempt, from 1.")
@click.option("--follow", "-f", is_flag=True, help="Go on until the execution ends.")
@click.option("--json", "as_json", is_flag=True, help="Answer in JSON: an object for each piece of text.")
def logs(
    execution_id: str,
    step: str | None,
    iteration: int | None,
    attempt: int | None,
    follow: bool,
    as_json: bool,
) -> None:
    """What python and shell tasks printed, in order, each line with the name of its step.

    Secrets are masked. Of one attempt at most 64 MiB are kept.
    """
    where, lines, after = LogFilter(step, iteration, attempt), Lines(), 0
    with opened() as rt:
        while True:
            page = waiting.printed(rt, execution_id, where, after, PAGE, WAIT_S if follow else 0.0)
            for chunk in map(chunk_view, page.chunks):
                after = chunk["seq"]
                for text in [json.dumps(chunk, ensure_ascii=False)] if as_json else lines.of(chunk):
                    click.echo(text)
            if page.is_last or (page.next is None and not follow):
                break
    for text in lines.rest():
        click.echo(text)
