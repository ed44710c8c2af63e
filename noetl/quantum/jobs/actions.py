"""`submit`, `poll`, `fetch` and `cancel`: the parts of a run, each a separate task.

What `submit` yields holds all that the others need. A simulator has no queue: there `fetch` runs
what `submit` holds."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from pydantic import BaseModel, ConfigDict, NonNegativeInt, ValidationError

from noetl.errors import ToolError
from noetl.facts.json import JsonMap
from noetl.facts.outcome import Outcome, succeeded
from noetl.facts.reference import plain
from noetl.pipeline.model import Later
from noetl.quantum.backends.local import Simulator
from noetl.quantum.experiments.limits import PointBudget, PointCost, point_budget
from noetl.quantum.experiments.planning import choose_backend, plan
from noetl.quantum.experiments.results import open_task, provenance, repeat_config
from noetl.quantum.experiments.running import EarlierPoints, identity, on_simulator
from noetl.quantum.jobs import machine as jobs
from noetl.quantum.jobs.elsewhere import (
    context,
    finish,
    get_orders,
    job_of,
    note_decisions,
    sendable,
    status_of,
)
from noetl.quantum.jobs.job_pass import JobContext, JobResults
from noetl.quantum.jobs.ledger import short
from noetl.quantum.model import JobState, JobStatus
from noetl.quantum.session import TaskSession, now
from noetl.tools.kit.references import load_reference


class JobReference(BaseModel):
    """What `submit` yielded as `job`, as far as it is read: the task that it is of, how many of its
    points were sent, and its jobs by order."""

    model_config = ConfigDict(extra="allow")

    task: dict[str, Any]
    points: NonNegativeInt
    stopped: dict[str, Any] | None
    jobs: dict[str, JobState]


def submit(session: TaskSession) -> Outcome | Later:
    """Sends what a run would send, and waits for none of it. Raises ToolError."""
    experiment, backend = plan(session)
    story = provenance(session, experiment)
    if isinstance(backend, Simulator):
        allowed = point_budget(
            session.config.limits,
            PointCost(len(experiment.points), experiment.shots, experiment.calibration_shots),
        )
        held = {
            "provider": experiment.capabilities.provider,
            "target": None,
            "id": f"local-{identity(story)[:32]}",
            "submitted_at": now(),
        }
        return _submit(story, allowed, held, {})
    sent = sendable(session, experiment, backend, 0)
    if isinstance(sent, Later):
        return sent
    orders = get_orders(session, story, experiment, 0, sent.points)
    came = jobs.submit(context(session, backend), orders)
    if isinstance(came, Later):
        return note_decisions(came, sent)
    return _submit(story, sent, job_of(experiment, came.jobs), came.jobs)


def _submit(story: JsonMap, allowed: PointBudget, job: JsonMap, states: Mapping[str, JobState]) -> Outcome:
    reference = {
        **job,
        "task": story["task"],
        "points": allowed.points,
        "stopped": allowed.stopped,
        "jobs": {name: short(state) for name, state in states.items()},
    }
    return succeeded(
        {"job": reference, "points": allowed.points, "stopped": allowed.stopped, "provenance": story}
    )


def poll(session: TaskSession) -> Outcome | Later:
    """Waits until the jobs have ended, however they did. Raises ToolError."""
    return _look_after(session, jobs.poll, "done")


def cancel(session: TaskSession) -> Outcome | Later:
    """Cancels the jobs that have not ended. Raises ToolError."""
    return _look_after(session, jobs.cancel, "cancelled")


def _look_after(
    session: TaskSession,
    call: Callable[[JobContext, Mapping[str, JobState]], Later | JobResults],
    locally: JobStatus,
) -> Outcome | Later:
    """What `call` makes of the jobs; a simulator's has no queue to be in, and stands as `locally`
    says."""
    reference = _reference(session)
    inner = _session_of_job(session, reference)
    backend = choose_backend(inner)
    if isinstance(backend, Simulator):
        return succeeded(_standing(reference, locally, reference.jobs))
    came = call(context(inner, backend), reference.jobs)
    if isinstance(came, Later):
        return note_decisions(came, PointBudget(reference.points, reference.stopped))
    return succeeded(_standing(reference, status_of(came.jobs), came.jobs))


def _standing(reference: JobReference, status: str, states: Mapping[str, JobState]) -> JsonMap:
    shown = {name: short(state) for name, state in states.items()}
    job = {**reference.model_dump(exclude={"jobs"}), "jobs": shown}
    return {"status": status, "ready": status == "done", "job": job}


def fetch(session: TaskSession) -> Outcome | Later:
    """What the jobs measured, as of a run; waits for them. Raises ToolError."""
    reference = _reference(session)
    inner = _session_of_job(session, reference)
    experiment, backend = plan(inner)
    if isinstance(backend, Simulator):
        return on_simulator(inner, experiment, backend)
    story = provenance(inner, experiment)
    orders = get_orders(inner, story, experiment, 0, reference.points)
    came = jobs.fetch(context(inner, backend), orders, reference.jobs)
    sent = PointBudget(reference.points, reference.stopped)
    if isinstance(came, Later):
        return note_decisions(came, sent)
    return finish(inner, experiment, came, EarlierPoints(), sent, story)


def _session_of_job(session: TaskSession, reference: JobReference) -> TaskSession:
    """The task that was submitted, with the credential and the pace of this one."""
    task = open_task(reference.task, session, "job.task")
    config = repeat_config(task, "job.task")
    given = session.config.backend
    backend = config.backend
    if given.auth is not None:
        backend = backend.model_copy(update={"auth": given.auth})
    update = {"backend": backend, "polling": session.config.polling, "keep": session.config.keep}
    return replace(session, config=config.model_copy(update=update))


def _reference(session: TaskSession) -> JobReference:
    found = plain(load_reference(session.config.job, session.services.results, "`job`"))
    if isinstance(found, Mapping) and isinstance(found.get("job"), Mapping):
        found = plain(load_reference(found["job"], session.services.results, "`job.job`"))
    try:
        return JobReference.model_validate(found)
    except ValidationError as error:
        raise ToolError(
            "client_error",
            f"`{session.config.action}` needs `job`, what a task with `action: submit` yielded, "
            'as in `job: "{{ step }}"`.',
            type="NotAJob",
        ) from error
