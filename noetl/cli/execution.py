"""`noetl execution`: what ran, what runs, and steering it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import click

from noetl.cli.address import execution_argument, execution_option
from noetl.cli.approvals import approval_lines, approve, reject
from noetl.cli.awaited import wait_line, ways_on
from noetl.cli.console import as_json_option, json_out, labels_of, make_label_option, table, where_option
from noetl.cli.execution_again import fork, retry
from noetl.cli.execution_control import cancel, patch, pause, resume
from noetl.cli.execution_history import diff, replay
from noetl.cli.execution_history import explain as explain_command
from noetl.cli.execution_migrate import migrate
from noetl.cli.execution_signal import signal
from noetl.cli.failures import failures
from noetl.cli.printed import logs
from noetl.cli.process import open_runtime
from noetl.cli.run import as_text, count_text, describe_warning, explain, status_text
from noetl.cli.specimen import export, fixture, import_
from noetl.engine.awaited import place_of
from noetl.facts import json
from noetl.facts.events import Event
from noetl.facts.json import Json, JsonMap
from noetl.usecases import inspect
from noetl.usecases.facets import read_facets
from noetl.usecases.holds import Hold, ListedExecution
from noetl.usecases.runtime import Runtime
from noetl.usecases.views import envelope

#: How long `--follow` waits before it looks although nothing was heard of, in seconds.
WAIT_S = 5.0

#: Statuses that `--status` accepts.
STATUSES = ("pending", "running", "waiting", "paused", "completed", "failed", "partial", "cancelled")

#: How many of those are shown that descend from an execution.
_DESCENDANTS: Final = 5


@click.group(epilog="Example: noetl execution list --status failed")
def execution() -> None:
    """Look at executions and steer them."""


_STEERING = (cancel, signal, approve, reject, pause, resume, patch, retry, fork, migrate)
for command in (logs, failures, *_STEERING, explain_command, diff, replay, export, import_, fixture):
    execution.add_command(command)


@execution.command(
    name="list",
    short_help="List executions, newest first.",
    epilog="Example: noetl execution list --status failed --limit 5",
)
@click.option(
    "--status", metavar="STATUS", type=click.Choice(STATUSES), help=f"Only these: {', '.join(STATUSES)}."
)
@click.option("--path", metavar="PATH", help="Only of this playbook.")
@execution_option("--parent", "Only those that this execution called.")
@execution_option("--source", "Only those that run this one again, are forks of it or undo it.")
@click.option("--key", metavar="KEY", help="Only those with this business key.")
@make_label_option("Only those with this label; of several, with all of them.")
@where_option
@click.option(
    "--limit", metavar="N", type=click.IntRange(1, 1000), default=20, show_default=True, help="How many."
)
@as_json_option
def list_(
    status: str | None,
    path: str | None,
    parent: str | None,
    source: str | None,
    key: str | None,
    labels: tuple[str, ...],
    where: str | None,
    limit: int,
    as_json: bool,
) -> None:
    """Newest first."""
    with open_runtime() as rt:
        rows = inspect.executions(
            rt,
            status=status,
            path=path,
            parent=parent,
            source=source,
            key=key,
            labels=labels_of(labels),
            where=where,
            limit=limit,
        )
    if as_json:
        json_out([_listed(row) for row in rows])
    else:
        _show_table(rows)


def _listed(row: ListedExecution) -> JsonMap:
    return {
        "execution_id": row.execution_id,
        "parent_id": row.parent_id,
        "source_id": row.source_id,
        "descent": row.descent,
        "operation_id": row.operation_id,
        "key": row.key,
        "labels": read_facets(row.labels),
        "path": row.path,
        "version": row.playbook_version,
        "status": row.status,
        "hold": row.hold and row.hold.as_json(),
        "created_at": row.created_at,
        "ended_at": row.ended_at,
        "error": row.error,
        "errors_passed_over": row.errors_passed_over,
        "warnings_count": row.warnings_count,
        "principal": row.principal,
        "waiting_for": row.waiting_for,
        "imported_at": row.imported_at,
    }


def _show_table(rows: Sequence[ListedExecution]) -> None:
    keyed = any(row.key is not None for row in rows)
    waits = any(row.waiting_for is not None for row in rows)
    last = "error, or what it waits for" if waits else "error"
    table(
        ("execution", *(["key"] if keyed else []), "status", "playbook", "started", last),
        [
            (
                row.execution_id,
                *([row.key or ""] if keyed else []),
                _status(_stand(row.status, row.hold), row.errors_passed_over, row.warnings_count),
                f"{row.path}@{row.playbook_version}",
                f"{row.created_at:%Y-%m-%d %H:%M:%S}",
                row.error["message"] if row.error else row.waiting_for or "",
            )
            for row in rows
        ],
    )


def _stand(status: str, hold: Hold | None) -> str:
    """The status of an execution, or why nothing of it runs."""
    return status if hold is None else hold.text


def _status(status: str, errors_passed_over: int, warnings_count: int) -> str:
    """`completed, 2 ignored errors, 1 warning`."""
    return ", ".join(
        [
            status,
            *count_text(errors_passed_over, "ignored error{}"),
            *count_text(warnings_count, "warning{}"),
        ]
    )


def _lineage(report: inspect.Report) -> Iterator[str]:
    """Where it comes from, and what became of it, a line for each."""
    row = report.row
    if row.parent_id:
        yield f"called by {row.parent_id}"
    if row.source_id:
        yield f"{row.descent} of {row.source_id}"
    if row.operation_id:
        yield f"begun by operation {row.operation_id}"
    for one in report.descendants[:_DESCENDANTS]:
        yield f"{inspect.BECAME[one['descent']]} {one['execution_id']} ({one['status']})"
    if len(report.descendants) > _DESCENDANTS:
        yield f"and more: noetl execution list --source {row.execution_id}"


def _show_head(report: inspect.Report) -> None:
    """Where it stands, and what it came from."""
    row = report.row
    click.echo(f"{row.execution_id}  {row.path}@{row.playbook_version}  {_stand(row.status, report.hold)}")
    if row.key is not None:
        click.echo(f"key {row.key}")
    if row.labels is not None:
        click.echo(
            "labels " + ", ".join(f"{name}={value}" for name, value in read_facets(row.labels).items())
        )
    for line in _lineage(report):
        click.echo(line)
    if report.stop is not None:
        why = f": {report.stop.reason}" if report.stop.reason else ""
        click.echo(f"{report.stop.text}, {report.stop.at:%Y-%m-%d %H:%M:%S} UTC{why}")
    if report.retry:
        click.echo(report.retry["text"])
    if row.imported_at is not None:
        click.echo(
            f"imported on {row.imported_at:%Y-%m-%d %H:%M:%S}: it never goes on, and nothing changes it"
        )


@execution.command(epilog="Example: noetl execution show 1234567890123")
@execution_argument()
@as_json_option
def show(execution_id: str, as_json: bool) -> None:
    """Status, steps, called executions, result and error."""
    with open_runtime() as rt:
        report = inspect.report(rt, execution_id)
        file = inspect.net_of(rt, execution_id).file
    if as_json:
        json_out(report.as_json())
        return
    _show_head(report)
    if report.steps:
        table(
            ("step", "status", "runs", "result"),
            [
                (name, status_text(step), step["runs"], _short(step["result"]))
                for name, step in report.steps.items()
            ],
        )
    for wait in report.waits:
        click.echo(wait_line(wait))
        for line in (*approval_lines(execution_id, wait), *ways_on(execution_id, wait)):
            click.echo(line)
    _show_errors(report, file)
    for warning in report.warnings:
        click.echo(describe_warning(warning, file))
    if report.children:
        table(("child", "status", "playbook", "called by"), [_child_row(child) for child in report.children])
    if len(report.children) == inspect.SHOWN_CHILDREN:
        click.echo(f"All of them: noetl execution list --parent {execution_id}", err=True)
    if report.error:
        click.echo(explain(report.error, file))
    if report.result is not None:
        click.echo(as_text(report.result))


def _show_errors(report: inspect.Report, file: str) -> None:
    """What steps went on after: the first errors of each."""
    for name, step in report.steps.items():
        errors = step.get("errors", {"first": [], "count": 0})
        for error in errors["first"]:
            click.echo(explain(error, file))
        if (more := errors["count"] - len(errors["first"])) > 0:
            click.echo(f"{name}: {more} more; see `noetl execution events {report.row.execution_id}`.")


def _child_row(child: JsonMap) -> tuple[str, str, str, str]:
    place = place_of(child["step"], child["iteration"])
    status = _status(child["status"], child["errors_passed_over"], child["warnings_count"])
    undoes = f", undoes {child['undoes']}" if child["undoes"] else ""
    return child["execution_id"], status, f"{child['path']}@{child['version']}", f"{place}{undoes}"


def _short(value: Json, width: int = 60) -> str:
    text = "" if value is None else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= width else f"{text[: width - 1]}…"


@execution.command(epilog="Example: noetl execution events 1234567890123 --type step.failed")
@execution_argument()
@click.option(
    "--after", metavar="VERSION", type=click.IntRange(min=0), default=0, help="Behind this version."
)
@click.option(
    "--limit", metavar="N", type=click.IntRange(1, 100_000), default=1000, show_default=True, help="How many."
)
@click.option(
    "--type",
    "types",
    metavar="TYPE",
    multiple=True,
    help="Only these types; may be repeated; older names are understood.",
)
@click.option("--follow", "-f", is_flag=True, help="Go on until the execution ends.")
@as_json_option
def events(
    execution_id: str, after: int, limit: int, types: tuple[str, ...], follow: bool, as_json: bool
) -> None:
    """The log, in order."""
    with open_runtime() as rt:
        news = _print_events(rt, execution_id, after, limit, types, as_json=as_json)
        if not follow:
            return
        with rt.store.watch(execution_id) as watch:
            while news.events or not news.row.is_over:
                if news.events:
                    after = news.events[-1].version
                else:
                    watch.wait(WAIT_S)
                news = _print_events(rt, execution_id, after, limit, types, as_json=as_json)


def _print_events(
    rt: Runtime, execution_id: str, after: int, limit: int, types: tuple[str, ...], *, as_json: bool
) -> inspect.NewEvents:
    news = inspect.news(rt, execution_id, after, limit, types)
    for event in news.events:
        click.echo(json.dumps(envelope(event), ensure_ascii=False) if as_json else _line(event))
    return news


def _line(event: Event) -> str:
    place = place_of(event.draft.step or "", event.draft.iteration)
    payload = dict(envelope(event)["payload"])
    return (
        f"{event.version:>6}  {event.recorded_at:%H:%M:%S.%f}  {event.fact.type:<28} {place:<20} "
        f"{_short(payload, 100)}"
    )
