"""`noetl approvals`, `noetl execution approve` and `noetl execution reject`."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import datetime
from typing import Any, Final

import click

from noetl.cli.approval_desk import MOST, ApprovalDesk, open_desk, server_option
from noetl.cli.approval_form import ask_values, values_of
from noetl.cli.console import as_json_option, complete_file, is_asked, json_out, table
from noetl.engine.awaited import place_of
from noetl.errors import Forbidden
from noetl.facts import json
from noetl.facts.json import Json, JsonMap
from noetl.usecases.approval_requests import ApprovalRequest

#: What an approval is called that nobody named.
_ALONE: Final = "approval"


@click.command(
    short_help="List what people are asked to approve.",
    epilog="Example: noetl approvals --mine",
)
@click.argument("execution", required=False)
@click.option("--mine", is_flag=True, help="Only what I may answer, and have not.")
@server_option
@as_json_option
def approvals(execution: str | None, mine: bool, server: str | None, as_json: bool) -> None:
    """The open approvals of all executions, the oldest first, or those of one."""
    with open_desk(server) as desk:
        if execution is None:
            found = desk.inbox(mine=mine)
        else:
            found = [one for one in desk.open_of(execution) if not mine or _is_mine(one)]
    if as_json:
        json_out(found)
        return
    table(
        ("execution", "step", "asked", "approved", "since", "until", "message"),
        [_row(one) for one in found],
    )
    if len(found) == MOST:
        click.echo(f"There may be more than these {MOST}.", err=True)


def _is_mine(one: JsonMap) -> bool:
    return bool(one["may_answer"]) and one["answered"] is None


def _row(one: JsonMap) -> tuple[str, ...]:
    return (
        str(one["execution_id"]),
        _place(one),
        ", ".join(one["by"]) or "anybody",
        f"{len(one['answers'])} of {one['count']}",
        _minute(one["since"]),
        _minute(one["expires_at"]),
        str(one["message"]),
    )


def _place(one: JsonMap) -> str:
    """`sign`, `sign[3]`, `sign (cfo)`."""
    name = f" ({one['name']})" if one["name"] != _ALONE else ""
    return f"{place_of(one['step'], one['iteration'])}{name}"


def _minute(instant: str | None) -> str:
    return "" if instant is None else f"{datetime.fromisoformat(instant):%Y-%m-%d %H:%M}"


def approval_lines(execution_id: str, wait: JsonMap) -> Iterator[str]:
    """What a task that waits asks for in an execution's report, and how that is answered."""
    for one in wait["for"]:
        if (asked := one.get("approval")) is not None:
            named = f" --name {shlex.quote(one['name'])}" if one["name"] != _ALONE else ""
            part = "" if wait["iteration"] is None else f" --iteration {wait['iteration']}"
            message = f"{' '.join(asked['message'].split())} " if asked["message"] else ""
            command = f"noetl execution approve {execution_id} {shlex.quote(wait['step'])}{named}{part}"
            yield f"  {message}({len(asked['answers'])} of {asked['count']}): {command}"


# --- answering ------------------------------------------------------------------------------------


def _which(command: Callable[..., None]) -> Callable[..., None]:
    """What says which approval is meant, and why it is answered so."""
    for wrap in (
        as_json_option,
        server_option,
        click.option("--reason", default="", metavar="TEXT", help="Why; kept in the log."),
        click.option("--iteration", metavar="N", type=click.IntRange(0), help="Of the step's loop, from 0."),
        click.option("--name", metavar="NAME", help="Of several that one task waits for."),
        click.option("--task", metavar="TASK", help="Of several tasks of the step."),
        click.argument("step", required=False, metavar="[STEP]"),
        click.argument("execution"),
    ):
        command = wrap(command)
    return command


@click.command(
    short_help="Approve what an execution asks.",
    epilog="Example: noetl execution approve 1234567890123 sign --set amount=120 --reason 'as agreed'",
)
@_which
@click.option("--set", "pairs", metavar="A.B=V", multiple=True, help="A value of the form; may be repeated.")
@click.option(
    "--values",
    metavar="JSON|@FILE",
    shell_complete=complete_file,
    help="The values of the form as a mapping.",
)
def approve(
    execution: str,
    pairs: tuple[str, ...],
    values: str | None,
    server: str | None,
    as_json: bool,
    **which: Any,
) -> None:
    """Approve what an execution asks.

    STEP is needed where several approvals are open. On a terminal the fields of the form are asked
    for where none are given."""
    with open_desk(server) as desk:
        request, meant = _find(desk, execution, ApprovalRequest("approve", **which))
        form = None if meant is None else meant["form"]
        given = values_of(form, values, pairs)
        if meant is not None and form and not given and values is None and is_asked():
            _show(meant)
            given = ask_values(form)
        _answer(desk, execution, replace(request, values=given), as_json=as_json)


@click.command(
    short_help="Reject what an execution asks.",
    epilog="Example: noetl execution reject 1234567890123 sign --reason 'too much'",
)
@_which
def reject(execution: str, server: str | None, as_json: bool, **which: Any) -> None:
    """Reject what an execution asks: its task fails, and says who and why. STEP is needed where
    several approvals are open."""
    with open_desk(server) as desk:
        request, _ = _find(desk, execution, ApprovalRequest("reject", **which))
        _answer(desk, execution, request, as_json=as_json)


def _find(
    desk: ApprovalDesk, execution: str, request: ApprovalRequest
) -> tuple[ApprovalRequest, JsonMap | None]:
    """The request with the id of the approval that it means, and that, where only one is meant.
    Raises Forbidden for who is not asked."""
    found = [one for one in desk.open_of(execution) if _is_meant(one, request)]
    if len(found) != 1:
        return request, None
    (one,) = found
    if one["why_not"] is not None:
        raise Forbidden(str(one["why_not"]))
    return replace(request, id=str(one["id"])), one


def _is_meant(one: JsonMap, request: ApprovalRequest) -> bool:
    return (
        request.step in (None, one["step"], one["run_id"])
        and request.iteration in (None, one["iteration"])
        and request.task in (None, one["task"])
        and request.name in (None, one["name"])
    )


def _show(one: JsonMap) -> None:
    """What is asked, before the form is filled in."""
    for text in (one["message"], _as_text(one["show"])):
        if text:
            click.echo(text, err=True)


def _as_text(value: Json) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=2)


def _answer(desk: ApprovalDesk, execution: str, request: ApprovalRequest, *, as_json: bool) -> None:
    given = desk.answer(execution, request)
    if as_json:
        json_out(given)
        return
    is_given = "had been" if given["existing"] else "is"
    before = " before" if given["existing"] else ""
    verb = "approved" if given["answer"] == "approve" else "rejected"
    desk.tell(given, f"{_place(given)} {is_given} {verb}{before}")
