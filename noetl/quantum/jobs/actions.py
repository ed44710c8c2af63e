"""`submit`, `poll`, `fetch` and `cancel`: the parts of a run, each a task of its own.

What `submit` yields holds all that the others need. A simulator has no queue: there `fetch` runs what `submit` holds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from pydantic import BaseModel, NonNegativeInt, ValidationError

from noetl.errors import ToolError
from noetl.facts.json import JsonMap
from noetl.facts.outcome import Outcome, succeeded
from noetl.facts.reference import plain
from noetl.pipeline.model import Later
from noetl.quantum.backends.choice import chosen
from noetl.quantum.experiment import Experiment
from noetl.quantum.jobs import run as jobs
from noetl.quantum.jobs.elsewhere import (
    desk,
    finished,
    job_of,
    noted,
    sendable,
    sent_orders,
    status_of,
)
from noetl.quantum.jobs.stand import short
from noetl.quantum.limits import Need, Room, room
from noetl.quantum.model import JobState, JobStatus, LocalBackend, RemoteBackend
from noetl.quantum.planning import planned
from noetl.quantum.provenance import provenance, repeated
from noetl.quantum.running import Before, identity, on_simulator
from noetl.quantum.session import Session, now
from noetl.quantum.verifying import again
from noetl.tools.kit.references import loaded


@dataclass(frozen=True, slots=True)
class Reference:
    """What `submit` yielded as `job`: the task that it is of, how many of its points were sent, and its jobs by order."""

    task: JsonMap
    points: int
    stopped: JsonMap | None
    states: Mapping[str, JobState]
    as_json: JsonMap


class _Told(BaseModel):
    """What of a reference is read; who wrote it by hand hears what is wrong with it."""

    task: dict[str, Any]
    points: NonNegativeInt
    stopped: dict[str, Any] | None
    jobs: dict[str, JobState]


def submit(session: Session) -> Outcome | Later:
    """Sends what a run would send, and waits for none of it. Raises ToolError."""
    backend = chosen(session)
    experiment = planned(session, backend.capabilities())
    story = provenance(session, experiment)
    if isinstance(backend, LocalBackend):
        allowed = room(
            session.config.limits,
            Need(len(experiment.points), experiment.shots, experiment.calibration_shots),
        )
        return _submitted(story, allowed, _held(experiment, story), {})
    sent = sendable(session, experiment, backend, 0)
    if isinstance(sent, Later):
        return sent
    orders = sent_orders(session, story, experiment, 0, sent.points)
    came = jobs.submit(desk(session, backend), orders)
    if isinstance(came, Later):
        return noted(came, sent)
    return _submitted(story, sent, job_of(experiment, came.jobs), came.jobs)


def _held(experiment: Experiment, story: JsonMap) -> JsonMap:
    return {
        "provider": experiment.capabilities.provider,
        "target": None,
        "id": f"local-{identity(story)[:32]}",
        "submitted_at": now(),
    }


def _submitted(story: JsonMap, allowed: Room, job: JsonMap, states: Mapping[str, JobState]) -> Outcome:
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


def poll(session: Session) -> Outcome | Later:
    """Waits until the jobs have ended, however they did. Raises ToolError."""
    return _looked_after(session, jobs.poll, "done")


def cancel(session: Session) -> Outcome | Later:
    """Cancels the jobs that have not ended. Raises ToolError."""
    return _looked_after(session, jobs.cancel, "cancelled")


def _looked_after(
    session: Session,
    call: Callable[[jobs.Desk, Mapping[str, JobState]], Later | jobs.Done],
    locally: JobStatus,
) -> Outcome | Later:
    """What `call` makes of the jobs; a simulator's has no queue to be in, and stands as `locally` says."""
    reference = _reference(session)
    inner, backend = _there(session, reference)
    if isinstance(backend, LocalBackend):
        return succeeded(_standing(reference, locally, reference.states))
    came = call(desk(inner, backend), reference.states)
    if isinstance(came, Later):
        return noted(came, Room(reference.points, reference.stopped))
    return succeeded(_standing(reference, status_of(came.jobs), came.jobs))


def _standing(reference: Reference, status: str, states: Mapping[str, JobState]) -> JsonMap:
    told = {name: short(state) for name, state in states.items()}
    return {"status": status, "ready": status == "done", "job": {**reference.as_json, "jobs": told}}


def fetch(session: Session) -> Outcome | Later:
    """What the jobs measured, as of a run; waits for them. Raises ToolError."""
    reference = _reference(session)
    inner, backend = _there(session, reference)
    experiment = planned(inner, backend.capabilities())
    if isinstance(backend, LocalBackend):
        return on_simulator(inner, experiment, backend)
    story = provenance(inner, experiment)
    orders = sent_orders(inner, story, experiment, 0, reference.points)
    came = jobs.fetch(desk(inner, backend), orders, reference.states)
    sent = Room(reference.points, reference.stopped)
    if isinstance(came, Later):
        return noted(came, sent)
    return finished(inner, experiment, came, Before(), sent, story)


def _there(session: Session, reference: Reference) -> tuple[Session, LocalBackend | RemoteBackend]:
    """The task that was submitted, on its machine, with the credential and the pace of this one."""
    task = again(reference.task, session, "job.task")
    config = repeated(task, "job.task")
    given = session.config.backend
    backend = config.backend
    if given.auth is not None:
        backend = backend.model_copy(update={"auth": given.auth})
    update = {"backend": backend, "polling": session.config.polling, "keep": session.config.keep}
    inner = replace(session, config=config.model_copy(update=update))
    return inner, chosen(inner)


def _reference(session: Session) -> Reference:
    found = plain(loaded(session.config.job, session.services.results, "`job`"))
    if isinstance(found, Mapping) and isinstance(found.get("job"), Mapping):
        found = plain(loaded(found["job"], session.services.results, "`job.job`"))
    try:
        told = _Told.model_validate(found)
    except ValidationError as error:
        raise ToolError(
            "client_error",
            f'`{session.config.action}` needs `job`, what a task with `action: submit` yielded, as in `job: "{{{{ step }}}}"`.',
            type="NotAJob",
        ) from error
    return Reference(told.task, told.points, told.stopped, told.jobs, found)
