"""The rules about slots: what needs some asks for them, and what was answered takes its course."""

from __future__ import annotations

from noetl.engine.asking import (
    ask_for_execution,
    ask_for_run,
    is_limited,
    priority_of,
    priority_of_execution,
)
from noetl.engine.commands import issue_lane
from noetl.engine.copies import has_copies
from noetl.engine.firing import withdraw
from noetl.engine.inputs import Inputs, SlotVerdict
from noetl.engine.lanes import issue_iteration
from noetl.engine.loop_ends import fail_begun, template_fault
from noetl.engine.plan import Plan
from noetl.engine.run_state import Run
from noetl.engine.slots import (
    awaits_slots,
    find_waiting,
    grant_slots,
    is_step_paused,
    request_slots,
    slot_place,
)
from noetl.engine.state import State
from noetl.engine.wait_state import SlotHolder
from noetl.errors import TemplateError
from noetl.facts import events as e
from noetl.facts.events import Draft
from noetl.facts.limits import WHOLE, region_of
from noetl.facts.outcome import ErrorInfo


def admit_execution(plan: Plan, state: State, inputs: Inputs) -> list[Draft] | None:
    """What comes before the first step of a playbook that has limits; None where nothing does any
    more."""
    holder = state.holders.get(slot_place("", WHOLE))
    if holder is None and plan.net.limits.asks:
        try:
            slots = ask_for_execution(plan, state, inputs)
        except TemplateError as error:
            return end_execution(ErrorInfo("template", f"executor.{error.message}"))
        return [request_slots(state, None, WHOLE, slots, priority_of_execution(plan))]
    if holder is None or holder.granted:
        return None
    return _answer_execution(holder, inputs)


def _answer_execution(holder: SlotHolder, inputs: Inputs) -> list[Draft]:
    answered = inputs.slots(slot_place("", WHOLE), holder.since)
    if answered is None:
        return []
    match answered.answer:
        case "granted":
            return [grant_slots(holder, None)]
        case "skip":
            return [Draft(e.Cancelled(answered.reason), dedup_key="cancelled")]
        case "fail":
            return end_execution(_full(answered, None))


def end_execution(error: ErrorInfo) -> list[Draft]:
    """The failure of an execution that has not begun."""
    return [
        Draft(e.WorkflowFinished("failed", None, error), dedup_key="finished"),
        Draft(e.Processed("failed", None, error), dedup_key="processed"),
    ]


def take_slots(plan: Plan, state: State, inputs: Inputs) -> list[Draft]:
    """What was asked for and is answered, one request after another: it begins, is skipped, or
    fails."""
    for holder in find_waiting(state):
        run, region = state.runs.get(holder.run_id), region_of(holder.run_id)
        answered = inputs.slots(slot_place(holder.run_id, holder.part), holder.since)
        if answered is None:
            continue
        if region is not None and not state.regions[region].is_leaving:
            return _answer_region(region, holder, answered)
        if run is not None and not run.ended and not is_step_paused(state, run.step):
            return _answer(plan, state, run, holder, answered)
    return []


def _answer_region(region: str, holder: SlotHolder, answered: SlotVerdict) -> list[Draft]:
    """It is entered, or left without anything of it having run."""
    if answered.answer == "granted":
        return [grant_slots(holder, None)]
    error = _full(answered, None) if answered.answer == "fail" else None
    asked = e.RegionCancelRequested(region, answered.reason, error)
    return [Draft(asked, dedup_key=f"cancel:{holder.run_id}")]


def _answer(plan: Plan, state: State, run: Run, holder: SlotHolder, answered: SlotVerdict) -> list[Draft]:
    match answered.answer:
        case "granted":
            return [grant_slots(holder, run.step), *_begin_part(plan, state, run, holder)]
        case "skip":
            return [_skip(run, answered.reason)]
        case "fail":
            return fail_begun(plan.step(run.step), run, _full(answered, run.step))


def _skip(run: Run, reason: str) -> Draft:
    """The end of a run for which there is no slot. Of one whose step is done, for what stands of
    it, what is left is withdrawn."""
    if run.released != "no":
        return withdraw(run, reason)
    skipped = e.StepSkipped((), reason)
    return Draft(skipped, step=run.step, run_id=run.id, dedup_key=f"end:{run.id}")


def _begin_part(plan: Plan, state: State, run: Run, holder: SlotHolder) -> list[Draft]:
    """The command of a lane, or of an iteration; that of a run comes by itself."""
    step, loop, part = plan.step(run.step), run.loop, holder.part
    if loop is None or part == WHOLE:
        return []
    if part.startswith("l"):
        return [issue_lane(state, step, run, part, holder.generation)]
    index = int(part.removeprefix("i"))
    begins = index in loop.suspended or (step.loop is not None and step.loop.paced)
    return [issue_iteration(state, step, run, loop, index)] if begins else []


def _full(answered: SlotVerdict, step: str | None) -> ErrorInfo:
    return ErrorInfo("limit", answered.reason, type="NoSlot", step=step)


def ask_for_slots(plan: Plan, state: State, inputs: Inputs) -> list[Draft]:
    """The requests of runs that have begun nothing yet. What stands of an earlier execution comes
    first, and may leave nothing that needs a slot."""
    return [
        draft
        for run in state.runs.values()
        if _is_to_ask(plan, state, inputs, run) and not has_copies(plan, state, inputs, run)
        for draft in _ask(plan, state, inputs, run)
    ]


def _is_to_ask(plan: Plan, state: State, inputs: Inputs, run: Run) -> bool:
    if run.ended or run.issues or (state.stopping and not run.final) or is_step_paused(state, run.step):
        return False
    asked = slot_place(run.id, WHOLE) in state.holders
    step = plan.step(run.step)
    return bool(step.tasks) and not asked and is_limited(step, run, inputs)


def _ask(plan: Plan, state: State, inputs: Inputs, run: Run) -> list[Draft]:
    step = plan.step(run.step)
    try:
        slots = ask_for_run(plan, state, inputs, step, run)
    except TemplateError as error:
        return fail_begun(step, run, template_fault(step, error))
    return [request_slots(state, run, WHOLE, slots, priority_of(plan, step))]


def may_begin(plan: Plan, state: State, inputs: Inputs, run: Run) -> bool:
    """Whether the run may issue its first command, or another one."""
    if is_step_paused(state, run.step) or awaits_slots(state, run):
        return False
    needs = not run.issues and is_limited(plan.step(run.step), run, inputs)
    return not needs or slot_place(run.id, WHOLE) in state.holders
