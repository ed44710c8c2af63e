"""`noetl run`: one playbook, in this process or on a server."""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import click

from noetl import bootstrap
from noetl.cli.complaints import hush, word
from noetl.cli.descendants import attend
from noetl.cli.follow import PAGE, Page, follow
from noetl.cli.inputs import overrides_of, payload_of, read_text, unused
from noetl.cli.printed import Printed, Verbose, show_last_lines, with_last_lines
from noetl.cli.progress import Progress, Silent, progress_for
from noetl.config import Settings
from noetl.facts.events import TaskAbandoned
from noetl.facts.json import Json, JsonMap
from noetl.usecases import catalog, control, inspect
from noetl.usecases.runtime import Runtime
from noetl.usecases.start import StartRequest, start

#: What `--json` prints, of the whole, of each step, and (at least) of an error.
KEYS = ("execution_id", "status", "result", "ctx", "steps", "error", "events", "duration_ms")
STEP_KEYS = ("status", "runs", "result")
ERROR_KEYS = ("kind", "type", "message", "step", "task", "iteration", "attempt", "line", "traceback")

#: Exit code by status; anything else is 1.
EXIT = {"completed": 0, "waiting": 3, "paused": 3, "pending": 3, "running": 3}

POLL_S = 0.02

#: Seconds that running work has to end, once Ctrl-C was pressed.
GRACE_S = 3.0


@click.command(epilog="Example: noetl run examples/hello.yaml --set name=Ada")
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "--set", "overrides", multiple=True, metavar="A.B=V", help="Set a workload value (typed as YAML)."
)
@click.option("--payload", metavar="JSON|FILE", help="Workload values as JSON, or a file with them.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object and nothing else.")
@click.option("--wait/--no-wait", default=True, help="Keep waiting when only outside input is left.")
@click.option("--server", metavar="URL", help="Submit to a running server instead.")
@click.option("--quiet", "-q", is_flag=True, help="No progress.")
@click.option("--verbose", "-v", is_flag=True, help="Show what python and shell tasks print, as it comes.")
@click.pass_context
def run(
    ctx: click.Context,
    file: Path,
    overrides: tuple[str, ...],
    payload: str | None,
    as_json: bool,
    wait: bool,
    server: str | None,
    quiet: bool,
    verbose: bool,
) -> None:
    """Run the playbook FILE here: no server, no broker, the log in NOETL_HOME.

    Exit code 0: completed; 1: failed, partial or cancelled; 2: the input was wrong; 3: waiting.
    """
    text = read_text(file)
    given, over = payload_of(payload), overrides_of(overrides)
    progress = progress_for(sys.stderr, file.name, quiet=quiet or as_json)
    if server is not None:
        from noetl.cli.remote import run_remote  # the HTTP client is needed only here

        report = run_remote(server, text, given, over, progress, wait=wait, verbose=verbose)
    else:
        report = _run_here(file, text, given, over, progress, wait=wait, verbose=verbose)
    show(report, as_json=as_json, file=str(file))
    ctx.exit(EXIT.get(str(report["status"]), 1))


def _run_here(
    file: Path,
    text: str,
    payload: JsonMap,
    overrides: JsonMap,
    progress: Progress,
    *,
    wait: bool,
    verbose: bool,
) -> JsonMap:
    settings = Settings.from_env()
    bootstrap.open_log(settings)
    with ended_like_by_hand(), bootstrap.local(settings, base_dir=file.absolute().parent) as rt:
        row = catalog.register(rt, text, str(file))
        execution_id = start(rt, StartRequest(row.path, row.version, payload, overrides))
        printed = Printed(rt, execution_id)
        with Verbose(progress, printed) if verbose else progress as shown:
            if not isinstance(progress, Silent):
                _warn(rt, execution_id, overrides)
            _follow(rt, execution_id, shown, wait=wait)
        return with_last_lines(inspect.report(rt, execution_id).as_json(), printed.end)


def _follow(rt: Runtime, execution_id: str, progress: Progress, *, wait: bool) -> None:
    follow(_Here(rt, execution_id), progress, wait=wait, pause_s=POLL_S)
    attend(rt, execution_id, progress, wait=wait, pause_s=POLL_S, grace_s=GRACE_S)
    for event in inspect.events(rt, execution_id, types=(TaskAbandoned.type,)):
        # Nobody reads the log of an execution that is over, and what goes on may be paid for.
        if isinstance(event.fact, TaskAbandoned) and event.fact.error is not None:
            click.echo(f"{word('warning', 'yellow')}: {event.fact.error.message}", err=True)


def _warn(rt: Runtime, execution_id: str, overrides: JsonMap) -> None:
    for warning in unused(overrides, inspect.net_of(rt, execution_id).workload):
        click.echo(f"{word('warning', 'yellow')}: {warning}", err=True)


@contextmanager
def ended_like_by_hand() -> Iterator[None]:
    """SIGTERM and SIGHUP cancel as Ctrl-C does: nobody else would end what this process began."""
    numbers = (signal.SIGTERM, signal.SIGHUP)
    before = [signal.signal(number, signal.default_int_handler) for number in numbers]
    try:
        yield
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)


def serve(execution_id: str, shard: str, *, quiet: bool) -> JsonMap:
    """Goes on with an execution of another process, until it ends or waits for input. Returns its report."""
    with ended_like_by_hand(), bootstrap.local(Settings.from_env(), shard=shard) as rt:
        with progress_for(sys.stderr, execution_id, quiet=quiet) as progress:
            _follow(rt, execution_id, progress, wait=False)
        report = inspect.report(rt, execution_id).as_json()
        return with_last_lines(report, Printed(rt, execution_id).end)


@dataclass(frozen=True, slots=True)
class _Here:
    """An execution of this process, as `follow` sees it."""

    rt: Runtime
    execution_id: str

    def page(self, after: int) -> Page:
        row = inspect.execution(self.rt, self.execution_id)
        events = inspect.events(self.rt, self.execution_id, after=after, limit=PAGE)
        return Page(events, row.status, row.head_version, inspect.is_idle(self.rt, row))

    def cancel(self, reason: str) -> None:
        control.cancel(self.rt, self.execution_id, reason, grace_s=GRACE_S)


def show(report: JsonMap, *, as_json: bool, file: str = "") -> None:
    """The result on standard output; status and error on standard error.

    `file` is where the lines of errors are. The exit code is that of the execution, whoever listens.
    """
    with suppress(BrokenPipeError):
        if as_json:
            click.echo(json.dumps(as_documented(report), ensure_ascii=False, indent=2))
        else:
            _tell(report, file)
        return
    hush()


def as_documented(report: JsonMap) -> JsonMap:
    """The shape that `--json` promises: these keys and no others, but for what an error knows besides."""
    steps = {name: {key: step[key] for key in STEP_KEYS} for name, step in report["steps"].items()}
    error = report["error"]
    full = None if error is None else dict.fromkeys(ERROR_KEYS) | error
    return {key: report[key] for key in KEYS} | {"steps": steps, "error": full}


def _tell(report: JsonMap, file: str) -> None:
    status = str(report["status"])
    colour = "green" if status == "completed" else "yellow" if EXIT.get(status) == 3 else "red"
    seconds = float(report["duration_ms"]) / 1000
    click.echo(
        f"{word(status, colour)} {report['execution_id']} ({seconds:.2f} s, {report['events']} events)",
        err=True,
    )
    if report["error"]:
        click.echo(explain(report["error"], file), err=True)
        show_last_lines(report)
    if report["result"] is not None:
        click.echo(as_text(report["result"]))


def explain(error: JsonMap, file: str = "") -> str:
    """One sentence: where, what, why. `file:line: error: type: message (step, task, ...)`."""
    in_file = bool(file) and error.get("line") is not None
    names = (
        ("step", "task", "iteration", "attempt")
        if in_file
        else ("step", "task", "iteration", "attempt", "line")
    )
    place = ", ".join(f"{name} {error[name]}" for name in names if error.get(name) is not None)
    kind = error.get("type") or error.get("kind")
    return (
        (f"{file}:{error['line']}: " if in_file else "")
        + f"{word('error', 'red')}: {kind}: {error['message']}"
        + (f" ({place})" if place else "")
    )


def as_text(value: Json) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=2)
