"""`noetl tool`: the kinds of tools that are installed, and one call of one of them outside of any
playbook."""

from __future__ import annotations

import re
import threading
import time
from dataclasses import replace
from pathlib import Path

import click

from noetl import bootstrap
from noetl.cli.complaints import warn, word
from noetl.cli.console import as_json_option, json_out, mapping_of, table
from noetl.cli.follow import GRACE_S, POLL_S
from noetl.cli.process import cancel_on_signals, open_runtime
from noetl.cli.run import as_text
from noetl.errors import BadRequest, NotFound, ToolError
from noetl.facts import json
from noetl.facts.durations import compact, seconds
from noetl.facts.nearest import did_you_mean
from noetl.facts.outcome import ErrorInfo, Outcome, failed
from noetl.pipeline.deadline import begin_deadline
from noetl.pipeline.model import Call, Later, Suspension, ToolPort, Where
from noetl.tools.kit import registry
from noetl.tools.kit.base import Tool
from noetl.tools.kit.declaration import configure
from noetl.tools.kit.manual import Manual, ManualKey, default_of, manual_of, queue_and_effects

_LINK = re.compile(r"\[([^\]]+)\]\([^)]+\)")


def _complete_kind(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    return [kind for kind in sorted(registry.entry_points()) if kind.startswith(incomplete)]


@click.group(epilog="Example: noetl tool list")
def tool() -> None:
    """Look at the installed kinds of tools, and try one."""


@tool.command(name="list", epilog="Example: noetl tool list --json")
@as_json_option
def list_(as_json: bool) -> None:
    """Every kind: its queue, its effects, where it comes from, what it does."""
    rows = [
        {
            "kind": kind,
            "queue": one.queue,
            "effects": one.effects,
            "origin": registry.origin(kind),
            "description": one.description,
        }
        for kind, one in registry.kinds().items()
    ]
    if as_json:
        json_out(rows)
    else:
        table(("kind", "queue", "effects", "from", "what it does"), [tuple(row.values()) for row in rows])


@tool.command(epilog="Example: noetl tool show http")
@click.argument("kind", shell_complete=_complete_kind)
@as_json_option
def show(kind: str, as_json: bool) -> None:
    """What KIND is for, every key of it, what it yields, and an example."""
    manual = manual_of(_load(kind))
    if as_json:
        json_out({**manual.as_json(), "origin": registry.origin(kind)})
    else:
        _describe(manual, registry.origin(kind))


def _load(kind: str) -> type[Tool]:
    """Raises NotFound where there is no such kind, ToolError where it is broken."""
    known = registry.entry_points()
    if kind not in known:
        hint = did_you_mean(kind, known) or f" There are {', '.join(sorted(known))}."
        raise NotFound(f"There is no tool of kind {kind!r}.{hint}")
    return registry.load(kind)


def _describe(manual: Manual, origin: str) -> None:
    out = click.HelpFormatter(max_width=100)
    out.write(
        f"{manual.kind} ({origin})\n\n{_without_links(manual.about)}\n\n{queue_and_effects(manual)}\n\n"
    )
    if manual.keys:
        with out.section("Keys"):
            out.write_dl([(key.name, _meaning(key)) for key in manual.keys])
    for group in manual.one_of:
        out.write(f"\nOne of them is needed: {', '.join(group)}.\n")
    for title, text in (
        ("Result", _without_links(manual.result)),
        ("Errors", _without_links(manual.errors)),
        ("Example", manual.example),
    ):
        if text:
            out.write(f"\n{title}:\n")
            out.write("".join(f"  {line}\n" for line in text.splitlines()))
    click.echo(out.getvalue(), nl=False)


def _meaning(key: ManualKey) -> str:
    default = default_of(key)
    shown = {"required": "required", "-": ""}.get(default, f"default {default}")
    about = ", ".join(part for part in (key.type.replace("`", ""), shown) if part)
    return f"{_without_links(key.description)} ({about})"


def _without_links(text: str) -> str:
    return _LINK.sub(r"\1", text)


@tool.command(epilog="Example: noetl tool test shell --config 'command: echo hello'")
@click.argument("kind", shell_complete=_complete_kind)
@click.option(
    "--config",
    metavar="YAML|JSON|@FILE",
    default="{}",
    help="The keys of the task, as they stand in a playbook.",
)
@click.option("--input", "args", metavar="YAML|JSON|@FILE", default="{}", help="Its inputs.")
@click.option(
    "--timeout", metavar="DURATION", help="Deadline of the call, like 30 or 5m.  [default: the tool's]"
)
@click.option("--json", "as_json", is_flag=True, help="Print the outcome as JSON and nothing else.")
@click.pass_context
def test(ctx: click.Context, kind: str, config: str, args: str, timeout: str | None, as_json: bool) -> None:
    """Make one call of KIND, outside of any playbook. Relative files start here; templates are not
    rendered.

    Exit code 0: it went well; 1: it failed; 2: there is no such kind, or it cannot be called like
    this.
    """
    given, inputs = mapping_of(config, "--config"), mapping_of(args, "--input")
    call = Call(
        kind,
        given,
        inputs,
        {},
        Where("0", "test", "test"),
        "test",
        1,
        f"test-{time.time_ns()}",
        _seconds(timeout),
    )
    found = _load(kind)
    try:
        configure(found.declaration, given)
    except ToolError as error:
        raise BadRequest(error.message) from error
    if "{{" in json.dumps([given, inputs]):
        warn("templates are not rendered here.")
    with open_runtime(base_dir=Path.cwd()) as rt:
        outcome = call_tool(rt.tools, call)
    _report(outcome, kind, as_json)
    ctx.exit(0 if outcome.ok else 1)


def _seconds(timeout: str | None) -> float | None:
    if timeout is None:
        return None
    try:
        deadline = seconds(timeout)
    except ValueError as error:
        raise BadRequest(f"--timeout cannot be used: {error}") from error
    if not deadline:
        raise BadRequest("--timeout is zero, which leaves no time for the call; give it some.")
    return deadline


def _report(outcome: Outcome, kind: str, as_json: bool) -> None:
    if as_json:
        json_out(outcome.as_json())
        return
    for warning in outcome.meta.get("warnings", ()):
        warn(warning)
    status = word("ok", "green") if outcome.ok else word("error", "red")
    click.echo(f"{status} {kind} ({float(outcome.meta['duration_ms']) / 1000:.2f} s)", err=True)
    if outcome.error is not None:
        click.echo(f"{word('error', 'red')}: {outcome.error.kind}: {outcome.error.message}", err=True)
    if outcome.result is not None:
        click.echo(as_text(outcome.result))


def call_tool(tools: ToolPort, call: Call) -> Outcome:
    """Calls until there is an outcome: a tool that wants to be called again later is, with its
    checkpoint. As in a playbook its deadline is one for all calls and the waits between them.

    Raises BadRequest where it asks for an execution, KeyboardInterrupt (the call has then been
    ended) at Ctrl-C.
    """
    deadline = begin_deadline(call.deadline_s, None, lambda: bootstrap.now().isoformat())
    with cancel_on_signals():
        while not isinstance(came := _call_once(tools, call), Outcome):
            if not isinstance(came, Later):
                raise BadRequest(
                    f"A call of kind '{call.kind}' asks for another execution; try it with `noetl run`."
                )
            left = deadline.left()
            time.sleep(came.seconds if left is None else min(came.seconds, left))
            if not deadline.has_some():
                length = compact(deadline.timeout or 0.0)
                message = f"The {call.kind} task had not ended after {length} (--timeout)."
                error = ErrorInfo("timeout", message, type="TaskTimeout", retryable=True)
                return failed(error, {"duration_ms": (deadline.timeout or 0.0) * 1000})
            call = replace(call, checkpoint=came.checkpoint, deadline_s=deadline.left())
    return came


def _call_once(tools: ToolPort, call: Call) -> Outcome | Suspension:
    came: list[Outcome | Suspension] = []
    # In another thread: whatever the tool waits for, this one hears Ctrl-C.
    thread = threading.Thread(target=lambda: came.append(tools.run(call)), daemon=True)
    thread.start()
    try:
        while thread.is_alive():
            thread.join(POLL_S)
    except KeyboardInterrupt:
        tools.interrupt(call)
        thread.join(GRACE_S)
        raise
    return came[0]
