"""The rows of the commands that a turn decided on."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from noetl.engine.decision import Command, Decision, Notification, WithdrawnRun
from noetl.engine.plan import Plan
from noetl.engine.state import Run
from noetl.net.kinds import KindInfo
from noetl.usecases.ports import CommandRow
from noetl.usecases.purposes import PURPOSES


def command_rows(
    plan: Plan, decision: Decision, kinds: Mapping[str, KindInfo], now: datetime
) -> tuple[CommandRow, ...]:
    """All commands that leave because of `decision`: work, notifications of other executions, and
    what tools have to end elsewhere."""
    execution_id = decision.after.execution_id
    work = _with_chords([_work_row(plan, execution_id, command, now) for command in decision.commands])
    notified = (_notification_row(decision, one, now) for one in decision.notifications)
    abandoned = (
        _abandon_row(plan, execution_id, one, now)
        for one in decision.withdrawn
        if _abandons(plan, one.run, kinds)
    )
    return (*work, *notified, *abandoned)


def _work_row(plan: Plan, execution_id: str, command: Command, now: datetime) -> CommandRow:
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
        context=command.context,
        label=purpose.label_of(plan.net.path, command.step, fact.part, command.iteration),
        iteration=command.iteration,
        generation=fact.generation,
        priority=purpose.priority,
        due_at=due,
        sent_at=now if due is None or due <= now else None,
    )


def _notification_row(decision: Decision, one: Notification, now: datetime) -> CommandRow:
    """A command like any other, so that it survives whoever was to send it."""
    purpose, execution_id = PURPOSES[one.purpose], decision.after.execution_id
    # A child may wait and go on again and again.
    again = f"/{decision.after.version}" if one.purpose == "waits" else ""
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
        queue=purpose.queue_of(plan.step(run.step).queue),
        issue=1,
        context=withdrawn.context,
        label=purpose.label_of(plan.net.path, run.step, ""),
        sent_at=now,
    )


def _abandons(plan: Plan, run: Run, kinds: Mapping[str, KindInfo]) -> bool:
    """Whether the run may have begun something elsewhere that its tool can end."""
    return any(task.kind in kinds and kinds[task.kind].abandons for task in plan.step(run.step).tasks)


def _with_chords(rows: Sequence[CommandRow]) -> Iterator[CommandRow]:
    """`rows`, in which lanes of one loop that leave together are the header of one chord."""
    chords: dict[str, list[CommandRow]] = {}
    for row in rows:
        if PURPOSES[row.purpose].in_chord:
            chords.setdefault(row.run_id, []).append(row)
    members = {row.command_id: row for lanes in chords.values() for row in _chord(lanes)}
    return (members.get(row.command_id, row) for row in rows)


def _chord(lanes: Sequence[CommandRow]) -> Iterator[CommandRow]:
    """`lanes` with their places in the chord that they are the header of."""
    first = lanes[0]
    later = "" if first.part == "l0" else f"/{first.part}"
    name = f"{first.execution_id}/{first.run_id}/{first.generation}{later}"
    chord_id = str(uuid.uuid5(uuid.NAMESPACE_URL, f"noetl:chord:{name}"))
    for index, row in enumerate(lanes):
        yield replace(row, chord_id=chord_id, chord_index=index, chord_size=len(lanes))
