"""What a turn's drafts order: rows for the commands they issue and for the loops they open."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from noetl.engine.children import called_by, given_up
from noetl.engine.context import command_context
from noetl.engine.evolve import evolve
from noetl.engine.loops import missing
from noetl.engine.plan import Plan
from noetl.engine.state import Child, Run, State
from noetl.facts.events import ChildRequested, CommandIssued, Draft, LoopStarted, StepDone
from noetl.net.model import KindInfo
from noetl.usecases.ports import CommandRow, LoopRow
from noetl.usecases.turn.children import tidings

#: Lanes give way to everything else on the same queue.
LANE_PRIORITY = 9
DEFAULT_PRIORITY = 0


@dataclass(frozen=True, slots=True)
class Orders:
    """Loops are saved before the commands that take from them leave. `children` are to be made: the event
    that says so, and the call."""

    commands: tuple[CommandRow, ...] = ()
    loops: tuple[LoopRow, ...] = ()
    children: tuple[tuple[ChildRequested, Child], ...] = ()


def orders(
    plan: Plan,
    before: State,
    drafts: Sequence[Draft],
    after: State,
    held: Collection[str],
    status: str,
    kinds: Mapping[str, KindInfo],
    now: datetime,
) -> Orders:
    """`held` are the ids of the commands that were open before the turn, `status` is what the last one left. Pure."""
    rows: list[CommandRow] = []
    loops: list[LoopRow] = []
    children: list[tuple[ChildRequested, Child]] = []
    lost: list[Child] = []
    state = before
    for draft in drafts:
        if isinstance(draft.fact, ChildRequested):
            children.append((draft.fact, called_by(state, draft)))
        earlier, state = state, evolve(state, draft)
        lost += given_up(earlier, state)
        if draft.run_id not in after.runs:
            continue
        if isinstance(draft.fact, LoopStarted):
            loops.append(_opened(state, draft))
        if isinstance(draft.fact, CommandIssued):
            rows.append(_order(plan, state, draft, draft.fact, now))
    chords: dict[str, list[CommandRow]] = {}
    for row in rows:
        if row.purpose == "lane":
            chords.setdefault(row.run_id, []).append(row)
    again = (_reopened(before, run, lanes[0].generation, held) for run, lanes in chords.items())
    loops += [row for row in again if row is not None]
    commands = (_in_chord(row, chords[row.run_id]) if row.purpose == "lane" else row for row in rows)
    told = tidings(status, after, lost, now)
    ended = _called_off(plan, before, drafts, after, kinds, now)
    return Orders((*commands, *told, *ended), tuple(loops), tuple(children))


def _called_off(
    plan: Plan,
    before: State,
    drafts: Sequence[Draft],
    after: State,
    kinds: Mapping[str, KindInfo],
    now: datetime,
) -> list[CommandRow]:
    """Orders to end what runs may have begun elsewhere that the turn took out of the execution before they had ended."""
    done = {draft.run_id for draft in drafts if isinstance(draft.fact, StepDone)}
    gone = (run for run in before.runs.values() if after.ended or run.id not in after.runs)
    return [
        CommandRow(
            command_id=f"{before.execution_id}/abandon/{run.id}",
            execution_id=before.execution_id,
            run_id=run.id,
            step=run.step,
            purpose="abandon",
            part="",
            queue=plan.step(run.step).queue,
            issue=1,
            context=command_context(plan, before, run),
            label=f"abandon {plan.net.path}:{run.step}",
            sent_at=now,
        )
        for run in gone
        if not run.ended and run.id not in done and _abandons(plan, run, kinds)
    ]


def _abandons(plan: Plan, run: Run, kinds: Mapping[str, KindInfo]) -> bool:
    return any(task.kind in kinds and kinds[task.kind].abandons for task in plan.step(run.step).tasks)


def _opened(state: State, draft: Draft) -> LoopRow:
    run = state.runs[draft.run_id or ""]
    assert run.loop is not None, "loop.started was folded"
    return LoopRow(state.execution_id, run.id, 1, 0, run.loop.count, open=True, items=run.loop.items)


def _reopened(before: State, run_id: str, generation: int, held: Collection[str]) -> LoopRow | None:
    """The row of a later generation: what is still to be run. None where these lanes belong to one that is there."""
    run = before.runs.get(run_id)
    if run is None or run.loop is None or run.loop.generation == generation:
        return None
    loop = run.loop
    lost = missing(run, loop, held)
    return LoopRow(
        before.execution_id, run_id, generation, 0, loop.count, open=True, items=loop.items, indices=lost
    )


def _order(plan: Plan, state: State, draft: Draft, fact: CommandIssued, now: datetime) -> CommandRow:
    run = state.runs[draft.run_id or ""]
    due = datetime.fromisoformat(fact.due_at) if fact.due_at else None
    where = f"[{draft.iteration}]" if draft.iteration is not None else ""
    if fact.purpose == "lane":
        where = f"[lane {fact.part.removeprefix('l')}]"
    return CommandRow(
        command_id=fact.command_id,
        execution_id=state.execution_id,
        run_id=run.id,
        step=run.step,
        purpose=fact.purpose,
        part=fact.part,
        queue=fact.queue,
        issue=fact.issue,
        context=command_context(plan, state, run),
        label=f"{plan.net.path}:{run.step}{where}",
        iteration=draft.iteration,
        generation=fact.generation,
        priority=DEFAULT_PRIORITY if fact.purpose == "pipeline" else LANE_PRIORITY,
        due_at=due,
        sent_at=now if due is None or due <= now else None,
    )


def _in_chord(row: CommandRow, members: list[CommandRow]) -> CommandRow:
    """Lanes of one generation that leave together are the header of one chord."""
    first = members[0].part
    later = "" if first == "l0" else f"/{first}"
    name = f"{row.execution_id}/{row.run_id}/{row.generation}{later}"
    chord = str(uuid.uuid5(uuid.NAMESPACE_URL, f"noetl:chord:{name}"))
    index = [member.command_id for member in members].index(row.command_id)
    return replace(row, chord_id=chord, chord_index=index, chord_size=len(members))
