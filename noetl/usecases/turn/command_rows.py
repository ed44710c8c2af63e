"""The rows of commands that leave because of a decision: work, notifications, and what is to be
ended elsewhere. Nothing is written here."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from noetl.engine.asking import priority_of
from noetl.engine.decision import Command, Decision, Notification, WithdrawnRun
from noetl.engine.plan import Plan
from noetl.engine.queues import queue_of
from noetl.facts.limits import LAST_PLACE
from noetl.net.model import KindInfo
from noetl.usecases.ports import CommandRow
from noetl.usecases.purposes import PURPOSES


def command_rows(
    plan: Plan, decision: Decision, kinds: Mapping[str, KindInfo], now: datetime
) -> tuple[CommandRow, ...]:
    """All commands that leave because of `decision`: work, notifications of other executions, and
    what tools have to end elsewhere."""
    execution_id = decision.after.execution_id
    limited = {one.run_id for one in decision.after.holders.values()}
    work = _with_chords(
        [_work_row(plan, execution_id, command, limited, now) for command in decision.commands]
    )
    notified = (_notification_row(decision, one, now) for one in decision.notifications)
    abandoned = (
        _abandon_row(plan, execution_id, one, now)
        for one in decision.withdrawn
        # It may have begun something elsewhere that its tool can end.
        if any(kinds[task.kind].abandons for task in plan.step(one.run.step).tasks if task.kind in kinds)
    )
    return (*work, *notified, *abandoned)


def _work_row(
    plan: Plan, execution_id: str, command: Command, limited: Collection[str], now: datetime
) -> CommandRow:
    """`limited` are the runs that have slots, which end with them."""
    fact, purpose = command.fact, PURPOSES[command.fact.purpose]
    due = datetime.fromisoformat(fact.due_at) if fact.due_at else None
    return CommandRow(
        command_id=fact.command_id,
        execution_id=execution_id,
        run_id=command.run_id,
        step=command.step,
        purpose=purpose.name,
        part=fact.part,
        queue=purpose.queue_of(fact.queue),
        issue=fact.issue,
        context={**command.context, **({"slots": True} if command.run_id in limited else {})},
        label=purpose.label_of(plan.net.path, command.step, fact.part, command.iteration),
        iteration=command.iteration,
        generation=fact.generation,
        priority=LAST_PLACE - priority_of(plan, plan.step(command.step)) if purpose.is_claimed else 0,
        due_at=due,
        sent_at=now if due is None or due <= now else None,
    )


def _notification_row(decision: Decision, one: Notification, now: datetime) -> CommandRow:
    """A command like any other, so that it survives the process that was to send it."""
    purpose, execution_id = PURPOSES[one.purpose], decision.after.execution_id
    # A child may wait and go on again and again; and whom a call makes give way may be a child
    # that was given up before.
    again = f"/{decision.after.version}" if one.purpose == "waits" or "reason" in one.context else ""
    if "run" in one.context:
        again = f"/{one.context['run']}{again}"
    return CommandRow(
        command_id=f"{execution_id}/{purpose.name}/{one.to}{again}",
        execution_id=execution_id,
        run_id=one.run_id,
        step=one.step,
        purpose=purpose.name,
        part=one.to,
        queue=purpose.queue_of(""),
        issue=1,
        context=one.context,
        label=purpose.label_of("", one.step, one.to),
        sent_at=now,
    )


def _abandon_row(plan: Plan, execution_id: str, withdrawn: WithdrawnRun, now: datetime) -> CommandRow:
    run, purpose = withdrawn.run, PURPOSES["abandon"]
    return CommandRow(
        command_id=f"{execution_id}/{purpose.name}/{run.id}",
        execution_id=execution_id,
        run_id=run.id,
        step=run.step,
        purpose=purpose.name,
        part="",
        queue=purpose.queue_of(queue_of(plan.step(run.step), run)),
        issue=1,
        context=withdrawn.context,
        label=purpose.label_of(plan.net.path, run.step, ""),
        sent_at=now,
    )


def _with_chords(rows: Sequence[CommandRow]) -> Iterator[CommandRow]:
    """`rows`, in which lanes of one loop that leave together are the header of one chord."""
    chords: dict[str, list[CommandRow]] = {}
    for row in rows:
        if PURPOSES[row.purpose].in_chord:
            chords.setdefault(row.run_id, []).append(row)
    members = {row.command_id: row for lanes in chords.values() for row in _chord(lanes)}
    return (members.get(row.command_id, row) for row in rows)


def _chord(lanes: Sequence[CommandRow]) -> Iterator[CommandRow]:
    first = lanes[0]
    later = "" if first.part == "l0" else f"/{first.part}"
    name = f"{first.execution_id}/{first.run_id}/{first.generation}{later}"
    chord_id = str(uuid.uuid5(uuid.NAMESPACE_URL, f"noetl:chord:{name}"))
    for index, row in enumerate(lanes):
        yield replace(row, chord_id=chord_id, chord_index=index, chord_size=len(lanes))
