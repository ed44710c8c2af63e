"""Signals: `/api/executions/{id}/signals/{name}`, and `/api/signals/{name}` for whoever waits."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, Field

from noetl.api.answers import WireModel
from noetl.api.bodies import CorrelatedSignalBody, OptionalSignalBody
from noetl.api.context import services
from noetl.api.groups import group
from noetl.api.requests import ExecutionPath, Parameters
from noetl.api.segments import decode_segment
from noetl.facts.json import Json
from noetl.usecases import signals
from noetl.usecases.signals import LONGEST, SentSignal

api = group("signals", "/api/executions", "What executions are told")
correlated_api = group("correlated", "/api/signals", "What whoever waits for it is told")


class SignalPath(ExecutionPath):
    name: Annotated[str, AfterValidator(decode_segment)] = Field(max_length=3 * LONGEST)


class SignalName(Parameters):
    name: str = Field(max_length=LONGEST)


class SignalSent(WireModel):
    execution_id: str
    id: str = Field(description="its id, as given or drawn")
    version: int = Field(description="of its event in the execution's log")
    existing: bool = Field(description="whether one of that id had been sent before")


class SignalsSent(WireModel):
    id: str
    sent: list[SignalSent] = Field(
        description="to which executions; empty: it is kept for the first that waits"
    )


def _view(sent: SentSignal) -> dict[str, Json]:
    return {
        "execution_id": sent.execution_id,
        "id": sent.id,
        "version": sent.version,
        "existing": sent.existing,
    }


@api.post("/<execution_id>/signals/<name>", responses={202: SignalSent})
def send(path: SignalPath, body: OptionalSignalBody) -> tuple[dict[str, Json], int]:
    """Tell an execution something

    Whether anything in it waits for that yet does not matter: it is kept. 404 for a name that
    nothing in the playbook ever waits for, 409 once the execution has ended.
    """
    sent = signals.send_signal(services().rt, path.execution_id, body.named(path.name))
    return _view(sent), 202


@correlated_api.post("/<name>", responses={202: SignalsSent})
def send_about(path: SignalName, body: CorrelatedSignalBody) -> tuple[dict[str, Json], int]:
    """Tell whoever waits for it something about a value

    The oldest execution that waits for a signal of that name with that value, or all of them. Where
    none does it is kept, until it expires, for the first that will.
    """
    asked = body.named(path.name)
    signal_id, sent = signals.send_about(services().rt, body.correlate, asked)
    return {"id": signal_id, "sent": [_view(one) for one in sent]}, 202
