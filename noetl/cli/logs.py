"""`noetl execution logs`: what python and shell tasks printed."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Final

import click

from noetl.cli.opened import opened
from noetl.cli.printed import LOOK_S, FamilyLog, PrintedLines, PrintedOutput
from noetl.facts.logs import LogFilter
from noetl.usecases import inspect, waiting
from noetl.usecases.ports import ENDED
from noetl.usecases.runtime import Runtime
from noetl.usecases.views import chunk_view

#: Chunks that are read at once, and seconds that `--follow` waits before it looks although nothing
#: was heard of.
PAGE: Final = 200
WAIT_S: Final = 5.0


@click.command(epilog="Example: noetl execution logs 1234567890123 --step load --iteration 3 -f")
@click.argument("execution_id")
@click.option("--step", metavar="NAME", help="Only what this step printed.")
@click.option("--iteration", metavar="N", type=click.IntRange(min=0), help="Only this iteration, from 0.")
@click.option("--attempt", metavar="N", type=click.IntRange(min=1), help="Only this attempt, from 1.")
@click.option("--children", "-c", is_flag=True, help="Also what the playbooks that it calls print.")
@click.option("--follow", "-f", is_flag=True, help="Go on until the execution ends.")
@click.option("--json", "as_json", is_flag=True, help="Answer in JSON: an object for each piece of text.")
@click.pass_context
def logs(
    ctx: click.Context,
    execution_id: str,
    step: str | None,
    iteration: int | None,
    attempt: int | None,
    children: bool,
    follow: bool,
    as_json: bool,
) -> None:
    """What python and shell tasks printed, in order, each line with the name of its step.

    Secrets are masked. Of one attempt at most 64 MiB are kept.
    """
    where = LogFilter(step, iteration, attempt)
    if children and (as_json or where != LogFilter()):
        raise click.UsageError("--children shows everything as text; leave out the other options.", ctx)
    with opened() as rt:
        one = _of_one(rt, execution_id, where, follow=follow, as_json=as_json)
        for text in _with_children(rt, execution_id, follow=follow) if children else one:
            click.echo(text)


def _of_one(
    rt: Runtime, execution_id: str, where: LogFilter, *, follow: bool, as_json: bool
) -> Iterator[str]:
    lines, after = PrintedLines(), 0
    while True:
        page = waiting.printed(rt, execution_id, where, after, PAGE, WAIT_S if follow else 0.0)
        for chunk in map(chunk_view, page.chunks):
            after = chunk["seq"]
            yield from [json.dumps(chunk, ensure_ascii=False)] if as_json else lines.of(chunk)
        if page.is_last or (page.next is None and not follow):
            break
    yield from lines.rest()


def _with_children(rt: Runtime, execution_id: str, *, follow: bool) -> Iterator[str]:
    """Nobody wakes a reader of many logs: it looks now and then."""
    log = FamilyLog(PrintedOutput(rt), execution_id)
    while True:
        over = not follow or inspect.execution(rt, execution_id).status in ENDED
        yield from log.new_lines()
        if over:
            break
        time.sleep(LOOK_S)
    yield from log.rest()
