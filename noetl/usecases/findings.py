"""What a report says besides how an execution ended: warnings, and errors that it went on after."""

from __future__ import annotations

from typing import Final

from noetl.engine.notices import Notice, Notices, describe
from noetl.engine.plan import Plan
from noetl.engine.request import unread_keys
from noetl.engine.state import StepRecord
from noetl.expressions import describe_absence
from noetl.facts.json import Json, JsonMap
from noetl.facts.warnings import make_warning
from noetl.net.model import Net, Task
from noetl.usecases import catalog
from noetl.usecases.ports import PlaybookRow

_HINT: Final = "write `| default(...)` where it may be absent"


def run_warnings(notices: Notices, net: Net) -> list[JsonMap]:
    """The warnings of a run: `{source: run, message, hint, file, line, step, task, place, template,
    count, ...}`."""
    found = [_warning(notice, net) for notice in notices.kept]
    if notices.more:
        message = f"{notices.more} more warnings were recorded; they stand in the events."
        found.append(make_warning(source="run", message=message, count=notices.more))
    return found


def _warning(notice: Notice, net: Net) -> JsonMap:
    message, hint = notice.message, None
    if notice.template:
        message = describe_absence(notice.template, notice.absent, notice.why, notice.place)
        # Where it is known why nothing is there, the name is right.
        hint = _HINT if notice.why else f"correct the name, or {_HINT}"
    return make_warning(
        source="run",
        message=message,
        hint=hint,
        file=net.file or None,
        line=_line(notice, net),
        step=notice.step,
        task=notice.task,
        place=notice.place or None,
        template=notice.template or None,
        count=notice.count,
    )


def _line(notice: Notice, net: Net) -> int | None:
    """The line of the place in the playbook; that of its task, or of its step, where it has none of
    its own."""
    step = net.steps.get(notice.step or "")
    if step is None:
        return None
    task = next((task for task in step.calls if task.name == notice.task), None)
    return (_line_in(task, notice.place) if task is not None else 0) or step.line or None


def _line_in(task: Task, place: str) -> int:
    while place:
        if place in task.lines:
            return task.lines[place]
        place = place.rpartition(".")[0]
    return task.line


def start_warnings(
    playbook: PlaybookRow, plan: Plan | None = None, payload: JsonMap | None = None
) -> list[JsonMap]:
    """What is known to be wrong before anything runs, with the playbook and with the payload: the
    report will say it as well. `plan` is that of the playbook; without a payload it is not
    asked."""
    found = catalog.warnings_of(playbook)
    if plan is None or not payload:
        return found
    notices = tuple(Notice(one["message"], place=one["place"]) for one in unread_keys(plan, payload))
    return found + run_warnings(Notices(notices), plan.net)


def step_errors(record: StepRecord) -> dict[str, Json]:
    """`{errors: {count, text, first}}` of a step that went on after errors; nothing of any
    other."""
    if not record.passed:
        return {}
    first = [error.as_json() for error in record.passed.errors]
    return {"errors": {"count": record.passed.count, "text": describe(record.passed), "first": first}}
