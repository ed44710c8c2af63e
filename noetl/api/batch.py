"""`/api/executions/batch`: start many executions with one request."""

from __future__ import annotations

from http import HTTPStatus
from typing import Final

from noetl.api import problems, shapes
from noetl.api.answers import Batch
from noetl.api.bodies import BatchBody
from noetl.api.groups import group
from noetl.api.services import services
from noetl.errors import NoetlError, Unavailable
from noetl.facts.json import Json
from noetl.usecases.start import Answer, StartRequest, start_all

PREFIX: Final = "/api/executions/batch"
#: Bytes of a batch.
MAX_BODY: Final = 16 * 1024 * 1024

api = group("batch", PREFIX, "Many executions at once")


@api.post("", responses={200: Batch})
def create(body: BatchBody) -> dict[str, Json]:
    """Start up to 1,000 executions

    Each item is answered by itself, in its place: 202 once it is in the log, or the problem that it
    would have met alone; none spoils another. A body that is not a batch is refused as a whole
    (400).
    """
    answers = start_all(services().rt, [StartRequest(**dict(item)) for item in body.executions])
    first = answers[0]
    if isinstance(first, Unavailable):
        # Nothing was recorded: the store fails for all that follow it.
        raise first
    items = [_item(answer) for answer in answers]
    accepted = sum(item["status"] == HTTPStatus.ACCEPTED for item in items)
    return {"accepted": accepted, "refused": len(items) - accepted, "executions": items}


def _item(answer: Answer) -> dict[str, Json]:
    if isinstance(answer, NoetlError):
        problem = problems.as_json(answer)
        return {"status": problem["status"], "problem": problem}
    return {
        "status": HTTPStatus.ACCEPTED,
        "execution_id": answer.execution_id,
        "warnings": list(answer.warnings),
        "links": shapes.links(answer.execution_id),
    }
