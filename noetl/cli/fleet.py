"""`noetl execution retry --where`: many at once, planned together and followed as one operation."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Final, get_args

import click

from noetl.cli.complaints import INTERRUPTED, word
from noetl.cli.console import Assigned, is_asked, json_out, overrides_of
from noetl.cli.process import open_runtime, run_here
from noetl.cli.stalls import check_progress, leave_operation
from noetl.errors import BadRequest, Conflict
from noetl.facts import json
from noetl.facts.json import JsonMap
from noetl.forecast.again import Verdict
from noetl.store.library import FileLibrary
from noetl.usecases import catalog
from noetl.usecases.fleet import operations, planning
from noetl.usecases.fleet.operations import Operation
from noetl.usecases.fleet.planning import FleetPlan, FleetRequest, PlannedGroup
from noetl.usecases.ports import ItemState
from noetl.usecases.retry import RetryRequest
from noetl.usecases.runtime import Runtime

#: Seconds between two looks at an operation of this process.
POLL_S: Final = 0.1
#: States in which nothing went wrong.
_WELL: Final = frozenset({"completed", "pending", "started", "dropped"})


@dataclass(frozen=True, slots=True)
class Manner:
    """What is printed, and whether anything is done."""

    dry_run: bool
    quiet: bool
    as_json: bool


def retry_many(
    prepare: Callable[[Runtime], RetryRequest],
    request: FleetRequest,
    assigned: Sequence[Assigned],
    manner: Manner,
) -> int:
    """Plans the retries, and begins the operation: here where all of the executions ran in
    processes of their own, else with the stack. The exit code. `prepare` registers the playbook
    that is to be run."""
    with open_runtime() as rt:
        request = _with_overrides(rt, replace(request, how=prepare(rt)), assigned)
        planned = _plan(rt, request)
    if manner.dry_run or not (manner.as_json or manner.quiet):
        _show_plan(planned, manner)
    if manner.dry_run:
        return 0
    request = replace(request, how=confirmed(request.how, needed=planned.confirm > 0))
    if planned.chosen.is_local:
        places = request.how.directories
        with run_here(Path(places[0]) if places else None) as rt:
            return follow_here(rt, operations.begin(rt, request).row.operation_id, manner)
    with open_runtime() as rt:
        begun = operations.begin(rt, request)
    if manner.as_json:
        json_out(begun.as_json())
        return 0
    name = begun.row.operation_id
    click.echo(f"{name}: {begun.total} executions are retried; `noetl operation show {name}` says how far.")
    return 0


def _plan(rt: Runtime, request: FleetRequest) -> FleetPlan:
    """Finds the playbooks beside the one that is run, where the process does that runs it here."""
    chosen, places = planning.choose_for(rt, request), request.how.directories
    beside = FileLibrary(Path(places[0])) if places and chosen.is_local else rt.library
    return planning.plan_chosen(replace(rt, library=beside), request, chosen)


def confirmed(how: RetryRequest, *, needed: bool) -> RetryRequest:
    """`how`, where somebody sits there who can answer with what they say. Raises Abort."""
    if needed and not how.confirmed and is_asked():
        click.confirm("Make these calls again?", abort=True, err=True)
        return replace(how, confirmed=True)
    return how


def _with_overrides(rt: Runtime, request: FleetRequest, assigned: Sequence[Assigned]) -> FleetRequest:
    """What `--set` says, read as the inputs of the playbooks say. Raises BadRequest where they say
    different things."""
    if not assigned:
        return request
    chosen = planning.choose_for(rt, request)
    playbooks = planning.playbooks_of(rt, request.how, chosen)
    readings = [overrides_of(assigned, catalog.inputs_of(rt, playbook)) for playbook in playbooks]
    if any(reading != readings[0] for reading in readings):
        named = ", ".join(f"{playbook.path}@{playbook.version}" for playbook in playbooks[:5])
        raise BadRequest(
            f"--set means something else for each of {named}; narrow --where to one of them, or name a "
            "--version."
        )
    return replace(request, how=replace(request.how, overrides=readings[0] if readings else {}))


# --- the plan -------------------------------------------------------------------------------------


def _show_plan(plan: FleetPlan, manner: Manner) -> None:
    if manner.as_json:
        json_out(plan.as_json())
        return
    for line in _plan_lines(plan):
        click.echo(line, err=not manner.dry_run)


def _plan_lines(plan: FleetPlan) -> list[str]:
    lines = [line for group in plan.groups for line in _group_lines(group)]
    total = f"{plan.retries} of {plan.executions} executions can be retried"
    left_out = f"; {plan.chosen.retried} were retried already" if plan.chosen.retried else ""
    more = "; there are more behind the --limit" if plan.chosen.more else ""
    return [*lines, f"{total}{left_out}{more}"]


def _group_lines(group: PlannedGroup) -> list[str]:
    failure = group.failure
    place = f" of step '{failure.step}'" if failure.step else ""
    what = f"{failure.type or failure.kind}{place}: {failure.shape}".removeprefix(": ")
    lines = [f"{group.executions} × {failure.fingerprint}  {what}"]
    if runs := counts_text(group.runs, get_args(Verdict)):
        lines.append(f"    {runs}")
    if iterations := counts_text(group.iterations, ("reuse", "rerun")):
        lines.append(f"    iterations: {iterations}")
    again = word("again", "yellow")
    lines += [f"    {again}: {call} in {count} may have had effects" for call, count in group.repeats.items()]
    lines += [f"    {count} cannot: {reason}" for reason, count in group.refused.most_common()]
    return lines


def counts_text(counts: Mapping[str, int], order: Sequence[str]) -> str:
    """`3 reuse · 1 rerun`; nothing where there is none."""
    return " · ".join(f"{counts[name]} {name}" for name in order if counts.get(name))


# --- following ------------------------------------------------------------------------------------


def follow_here(rt: Runtime, operation_id: str, manner: Manner) -> int:
    """Shows how an operation of this process goes on until it ends. Ctrl-C pauses it; a second one
    leaves at once. The exit code."""
    go_on = f"go on: noetl operation resume {operation_id}"
    try:
        found = _watch(rt, operation_id, quiet=manner.quiet or manner.as_json)
    except KeyboardInterrupt:
        click.echo(f"It is left as it is; {go_on}", err=True)
        return INTERRUPTED
    if manner.as_json:
        json_out(found.as_json())
    else:
        show_operation(rt, found)
    if found.row.ended_at is None:
        click.echo(f"It is paused; {go_on}", err=True)
        return INTERRUPTED
    return 0 if found.counts.keys() <= _WELL else 1


def _watch(rt: Runtime, operation_id: str, *, quiet: bool) -> Operation:
    """Until it has ended, or is paused and nothing of it runs."""
    shown, interrupted = "", False
    while True:
        try:
            check_progress(rt, partial(leave_operation, operation_id))
            found = operations.operation(rt, operation_id)
            row, line = found.row, f"{operation_id}: {states_text(found.counts)}"
            if row.ended_at is not None or (row.status == "paused" and not found.counts.get("started")):
                return found
            if line != shown and not quiet:
                click.echo(line, err=True)
            shown = line
            time.sleep(POLL_S)
        except KeyboardInterrupt:
            if interrupted:
                raise
            interrupted = True
            _pause(rt, operation_id)


def _pause(rt: Runtime, operation_id: str) -> None:
    click.echo("What runs is waited for; press Ctrl-C again to leave at once.", err=True)
    with suppress(Conflict):  # it ended in this very moment
        operations.pause(rt, operation_id, "interrupted from the keyboard")


def states_text(counts: Mapping[ItemState, int]) -> str:
    """`3 pending · 2 started`."""
    return counts_text({str(state): count for state, count in counts.items()}, get_args(ItemState))


def show_operation(rt: Runtime, operation: Operation) -> None:
    """Where it is, and why executions were refused."""
    row = operation.row
    click.echo(f"{row.operation_id}  {row.kind} where {row.chosen_by}  {row.status}")
    click.echo(f"{operation.total} executions: {states_text(operation.counts)}")
    for name, value in _settings(row.how).items():
        click.echo(f"{name}: {value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)}")
    if row.reason:
        click.echo(f"why: {row.reason}")
    if operation.counts.get("refused"):
        for reason, count in operations.refusals(rt, row.operation_id).most_common():
            click.echo(f"{count} refused: {reason}")


def _settings(how: JsonMap) -> JsonMap:
    """What was said about how they are retried."""
    return {name: value for name, value in how.items() if value and name != "directories"}
