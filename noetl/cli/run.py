"""`noetl run`: one playbook, in this process or on a server."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import get_args

import click

from noetl.cli.complaints import hush, warn, warn_of_playbook, word
from noetl.cli.console import (
    Assigned,
    assigned_of,
    directories_of,
    labels_of,
    make_label_option,
    overrides_of,
    payload_of,
    payload_option,
    read_text,
    set_option,
)
from noetl.cli.follow import (
    POLL_S,
    RETRY_LOOK_S,
    LocalExecution,
    follow,
    follow_attempts,
    follow_descendants,
)
from noetl.cli.going_on import tell_how_to_go_on
from noetl.cli.printed import ShownProgress, show_last_lines
from noetl.cli.process import run_here
from noetl.cli.progress import ProgressView
from noetl.facts import json
from noetl.facts.business_key import OnConflict
from noetl.facts.events import TaskAbandoned
from noetl.facts.json import Json, JsonMap
from noetl.facts.task_names import find_task_name
from noetl.usecases import catalog, inspect
from noetl.usecases.ports import PlaybookRow
from noetl.usecases.runtime import Runtime
from noetl.usecases.start import StartRequest, start

#: What `--json` prints, of the whole, of each step (`errors` where it went on after some), and (at
#: least) of an error.
KEYS = ("execution_id", "status", "result", "ctx", "steps", "error", "warnings", "events", "duration_ms")
STEP_KEYS = ("status", "runs", "result", "errors", "reused")
ERROR_KEYS = ("kind", "type", "message", "step", "task", "iteration", "attempt", "line", "traceback")

#: Exit code by status; anything else is 1.
EXIT = {"completed": 0, "waiting": 3, "paused": 3, "pending": 3, "running": 3}


@click.command(epilog="Example: noetl run examples/hello.yaml --set name=Ada")
@click.argument("file", type=click.Path(path_type=Path))
@set_option
@payload_option
@click.option("--key", metavar="KEY", help="Business key, unique among the open executions of the playbook.")
@click.option(
    "--on-conflict",
    type=click.Choice(get_args(OnConflict)),
    help="Where an open execution has the key: refuse, show that one, or cancel it.",
)
@make_label_option("Tell the execution apart by it, over the playbook's; may be repeated.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object and nothing else.")
@click.option("--wait/--no-wait", default=True, help="Keep waiting when only outside input is left.")
@click.option("--server", metavar="URL", help="Submit to a running server instead.")
@click.option("--open", "opens", is_flag=True, help="Show its page in a browser, while it runs.")
@click.option("--strict", is_flag=True, help="Refuse a playbook with warnings.")
@click.option("--quiet", "-q", is_flag=True, help="No progress.")
@click.option("--verbose", "-v", is_flag=True, help="Show what python and shell tasks print, as it comes.")
@click.pass_context
def run(
    ctx: click.Context,
    file: Path,
    overrides: tuple[str, ...],
    payload: str | None,
    key: str | None,
    on_conflict: OnConflict | None,
    labels: tuple[str, ...],
    as_json: bool,
    wait: bool,
    server: str | None,
    opens: bool,
    strict: bool,
    quiet: bool,
    verbose: bool,
) -> None:
    """Run the playbook FILE here: no server, no broker, the log in NOETL_HOME.

    Exit code 0: completed; 1: failed, partial or cancelled; 2: the input was wrong; 3: waiting.
    """
    wanted = _Wanted(
        file=file,
        text=read_text(file),
        payload=payload_of(payload),
        assigned=assigned_of(overrides),
        labels=labels_of(labels),
        shown=ShownProgress(quiet=quiet or as_json, verbose=verbose),
        warn_as=None if as_json else str(file),
        key=key,
        on_conflict=on_conflict,
        wait=wait,
        strict=strict,
        began=_find_page(server) if opens else None,
    )
    report = _run_in_process(wanted) if server is None else _run_on_server(server, wanted)
    show(report, as_json=as_json, file=str(file), is_here=server is None)
    ctx.exit(EXIT.get(str(report["status"]), 1))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Wanted:
    """What is to be run, and how. `warn_as` is what warnings call the file (None: there are none);
    `began` is told the id of the execution once it is there."""

    file: Path
    text: str
    payload: JsonMap
    assigned: Sequence[Assigned]
    labels: JsonMap
    shown: ShownProgress
    warn_as: str | None
    key: str | None
    on_conflict: OnConflict | None
    wait: bool
    strict: bool
    began: Callable[[str], None] | None


def _run_on_server(server: str, wanted: _Wanted) -> JsonMap:
    """Has it run there, and returns its report."""
    from noetl.cli.remote import run_remote  # the HTTP client is needed only here

    return run_remote(
        server,
        wanted.text,
        wanted.payload,
        wanted.assigned,
        wanted.shown,
        key=wanted.key,
        on_conflict=wanted.on_conflict,
        labels=wanted.labels,
        wait=wanted.wait,
        strict=wanted.strict,
        warn_as=wanted.warn_as,
        began=wanted.began,
    )


def _run_in_process(wanted: _Wanted) -> JsonMap:
    """Runs it with this process as the whole of NoETL, and returns its report."""
    places = directories_of(wanted.file)
    with run_here(places[0]) as rt:
        row = catalog.register(rt, wanted.text, str(wanted.file), strict=wanted.strict)
        if wanted.warn_as is not None:
            warn_of_playbook(catalog.warnings_of(row), wanted.warn_as)
        started = start(rt, _make_request(rt, row, wanted))
        if wanted.began is not None:
            wanted.began(started.execution_id)
        execution = LocalExecution(rt, started.execution_id)
        if started.existing:
            _tell_of_existing(execution)
        else:
            execution = _follow_attempts(execution, wanted.shown, wait=wanted.wait)
        return execution.report()


def _make_request(rt: Runtime, row: PlaybookRow, wanted: _Wanted) -> StartRequest:
    inputs = catalog.inputs_of(rt, row) if wanted.assigned else ()
    return StartRequest(
        row.path,
        row.version,
        wanted.payload,
        overrides_of(wanted.assigned, inputs),
        directories=tuple(map(str, directories_of(wanted.file))),
        key=wanted.key,
        on_conflict=wanted.on_conflict,
        labels=wanted.labels,
    )


def _find_page(server: str | None) -> Callable[[str], None]:
    """Shows the page of an execution. Raises Unavailable where no server does: before anything is
    begun."""
    from noetl.cli.browse import find_site, show_page  # as `run_remote`

    return partial(show_page, find_site(server))


def _tell_of_existing(execution: LocalExecution) -> None:
    """Of an execution with the same key: it belongs to another process, or to none any more, and is
    shown as it is."""
    name = execution.execution_id
    click.echo(
        f"Execution {name} is open and has this key: `noetl execution events {name} --follow` shows how it "
        "goes on.",
        err=True,
    )


def _follow_attempts(execution: LocalExecution, shown: ShownProgress, *, wait: bool) -> LocalExecution:
    def follow_one(one: LocalExecution) -> None:
        with shown.of(one) as progress:
            _follow(one, progress, wait=wait)

    return follow_attempts(
        execution, follow_one, wait_s=RETRY_LOOK_S, quiet=shown.quiet, meanwhile=execution.check_progress
    )


def _follow(execution: LocalExecution, progress: ProgressView, *, wait: bool) -> None:
    rt, execution_id = execution.rt, execution.execution_id
    follow(execution, progress, wait=wait, wait_s=POLL_S, meanwhile=execution.check_progress)
    follow_descendants(rt, execution_id, progress, wait=wait, meanwhile=execution.check_progress)
    for event in inspect.events(rt, execution_id, types=(TaskAbandoned.type,)):
        # The log of an execution that is over is hardly read, and what still runs may be paid for.
        if isinstance(event.fact, TaskAbandoned) and event.fact.error is not None:
            warn(event.fact.error.message)


def resume_here(execution_id: str, shard: str, *, quiet: bool) -> JsonMap:
    """Resumes an execution of another process, until it ends or waits for input. Returns its
    report."""
    with run_here(shard=shard) as rt:
        return follow_here(rt, execution_id, quiet=quiet)


def follow_here(rt: Runtime, execution_id: str, *, quiet: bool) -> JsonMap:
    """Shows how an execution of this process goes on, until it ends or waits for input. Returns its
    report."""
    execution = LocalExecution(rt, execution_id)
    return _follow_attempts(execution, ShownProgress(quiet=quiet), wait=False).report()


def show(report: JsonMap, *, as_json: bool, file: str = "", is_here: bool = True) -> None:
    """The result on standard output; status and error on standard error.

    `file` is where the lines of errors are; `is_here` that the execution is in this machine's
    database. The exit code is that of the execution, whether or not anything reads.
    """
    with suppress(BrokenPipeError):
        if as_json:
            click.echo(json.dumps(select_documented(report), ensure_ascii=False, indent=2))
        else:
            _describe(report, file)
            if is_here:
                tell_how_to_go_on(report, file)
        return
    hush()


def select_documented(report: JsonMap) -> JsonMap:
    """The shape that `--json` promises: these keys and no others, but for what an error knows
    besides."""
    steps = {
        name: {key: step[key] for key in STEP_KEYS if key in step} for name, step in report["steps"].items()
    }
    error = report["error"]
    full = None if error is None else dict.fromkeys(ERROR_KEYS) | error
    return {key: report[key] for key in KEYS} | {"steps": steps, "error": full}


def _describe(report: JsonMap, file: str) -> None:
    status = str(report["status"])
    colour = "green" if status == "completed" else "yellow" if EXIT.get(status) == 3 else "red"
    seconds = float(report["duration_ms"]) / 1000
    passed = "".join(f", {one}" for one in count_text(report["errors_passed_over"], "ignored error{}"))
    click.echo(
        f"{word(status, colour)} {report['execution_id']} ({seconds:.2f} s, {report['events']} "
        f"events{passed})",
        err=True,
    )
    for warning in report["warnings"]:
        if warning["source"] == "run":
            click.echo(describe_warning(warning, file), err=True)
    if report["error"]:
        click.echo(explain(report["error"], file), err=True)
        show_last_lines(report)
    if report["retry"]:
        click.echo(report["retry"]["text"], err=True)
    if report["result"] is not None:
        click.echo(as_text(report["result"]))


def count_text(count: int, what: str) -> list[str]:
    """`2 ignored errors` for `ignored error{}`; nothing where there is none."""
    return [f"{count} {what.format('s' if count > 1 else '')}"] if count else []


def status_text(step: JsonMap) -> str:
    """`done, 1 ignored error, 3 reused` of a step in a report: its status, or why it is
    held, the errors that it went on after, and the results that are copies."""
    errors = [step["errors"]["text"]] if "errors" in step else []
    standing = step["hold"]["text"] if "hold" in step else str(step["status"])
    return ", ".join([standing, *errors, *count_reused(step)])


def count_reused(step: JsonMap) -> list[str]:
    """`3 reused`, where results of the step's tasks are copies."""
    return [f"{step['reused']} reused"] if "reused" in step else []


def describe_warning(warning: JsonMap, file: str = "") -> str:
    """`file:line: warning: message (step, task, count; hint)`."""
    line = f"{file}:{warning['line']}: " if file and warning["line"] else ""
    about = [f"{key} {warning[key]}" for key in ("step", "task") if _is_named(key, warning)]
    if (warning["count"] or 1) > 1 and about:
        about.append(f"{warning['count']} times")
    place = f" ({', '.join(about)})" if about else ""
    hint = f" Hint: {warning['hint']}." if warning["hint"] else ""
    return f"{line}{word('warning', 'yellow')}: {warning['message']}{place}{hint}"


def explain(error: JsonMap, file: str = "") -> str:
    """One sentence: where, what, why. `file:line: error: type: message (step, task, ...)`."""
    in_file = bool(file) and error.get("line") is not None
    names = (
        ("step", "task", "iteration", "item", "attempt")
        if in_file
        else ("step", "task", "iteration", "item", "attempt", "line")
    )
    place = ", ".join(_place(name, error) for name in names if _is_named(name, error))
    kind = error.get("type") or error.get("kind")
    return (
        (f"{file}:{error['line']}: " if in_file else "")
        + f"{word('error', 'red')}: {kind}: {error['message']}"
        + (f" ({place})" if place else "")
    )


def _is_named(name: str, about: JsonMap) -> bool:
    """Whether that part of the place of an error or a warning is known, and says something."""
    value = about.get(name)
    return bool(find_task_name(value)) if name == "task" else value is not None


def _place(name: str, error: JsonMap) -> str:
    """`iteration 3: Oslo`: of several loops the innermost one has the item."""
    inner = "iteration" if error.get("item") is None else "item"
    item = f": {error['item_text']}" if name == inner and error.get("item_text") else ""
    return f"{name} {error[name]}{item}"


def as_text(value: Json) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=2)
