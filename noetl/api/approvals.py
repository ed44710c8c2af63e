"""Approvals: `/api/approvals`, all that are open, and `/api/executions/{id}/approvals`, where they
are answered."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from noetl.api.answers import JsonObject, WireModel
from noetl.api.bodies import Body
from noetl.api.context import services
from noetl.api.groups import group
from noetl.api.requests import MAX_VERSION, ExecutionPath, Parameters, Reason
from noetl.facts.json import Json
from noetl.usecases import approvals, open_approvals
from noetl.usecases.approval_requests import ApprovalRequest

api = group("approvals", "/api/executions", "What people are asked, and their answers")
inbox_api = group("inbox", "/api/approvals", "What people are asked, of all executions")


class InboxQuery(Parameters):
    mine: bool = Field(False, description="only those that who asks may answer, and has not")
    limit: int = Field(100, ge=1, le=1000, description="how many at most")
    after: str | None = Field(None, max_length=80, description="`next` of the page before")


class ApprovalBody(Body):
    """An answer. Which approval is meant has to be said as far as more than one is open; `id` says
    it for good. The same answer again is the first one."""

    answer: Literal["approve", "reject"]
    id: str | None = Field(None, max_length=1000, description="the approval's `id`, as it is listed")
    step: str | None = Field(None, max_length=200, description="its step, or one run of it: `step#k`")
    task: str | None = Field(None, max_length=200, description="its task")
    name: str | None = Field(None, max_length=200, description="its name, of several that one task waits for")
    iteration: int | None = Field(None, ge=0, le=MAX_VERSION, description="the iteration of its loop, from 0")
    reason: Reason = ""
    values: JsonObject = Field(default_factory=dict, description="of the form, over its defaults")

    def asked(self) -> ApprovalRequest:
        """The answer as use cases have it."""
        return ApprovalRequest(
            self.answer, self.step, self.task, self.name, self.iteration, self.reason, self.values, self.id
        )


class GivenAnswer(WireModel):
    """What somebody answered."""

    by: str
    answer: Literal["approve", "reject"]
    at: str
    reason: str
    values: JsonObject


class ApprovalView(WireModel):
    """An approval that is open."""

    execution_id: str
    path: str = Field(description="of its playbook")
    key: str | None = Field(description="the business key of the execution")
    id: str = Field(description="what names it in its execution, whatever is asked before or later")
    step: str
    run_id: str = Field(description="of the step: `step#k`")
    iteration: int | None
    task: str
    name: str
    since: str | None
    expires_at: str | None = Field(description="when it can be answered last")
    by: list[str] = Field(description="who is asked, groups as `group:ops`; empty: whoever may approve")
    count: int = Field(description="how many have to approve")
    message: str
    show: Json = Field(description="what is shown; of one execution in full")
    form: JsonObject | None = Field(description="the JSON Schema of what is filled in, with its defaults")
    four_eyes: bool = Field(description="whether who asked for the execution cannot answer")
    shown: str = Field(description="a digest of all that is shown: equal where it is the same")
    reminded: int = Field(description="how often it was brought up again")
    answers: list[GivenAnswer]
    may_answer: bool = Field(description="whether who looks may")
    why_not: str | None
    answered: Literal["approve", "reject"] | None = Field(description="what who looks has answered")


class ApprovalList(WireModel):
    approvals: list[ApprovalView]


class ApprovalInbox(ApprovalList):
    next: str | None = Field(description="`after` of the next page; null on the last one")


class ApprovalGiven(WireModel):
    execution_id: str
    step: str
    iteration: int | None
    task: str
    name: str
    answer: Literal["approve", "reject"]
    version: int = Field(description="of its event in the execution's log")
    existing: bool = Field(description="whether it had been given before")


@inbox_api.get("", responses={200: ApprovalInbox})
def inbox(query: InboxQuery) -> dict[str, Json]:
    """List open approvals

    Of all executions that who asks may look at, the oldest execution first.
    """
    here = services()
    page = open_approvals.pending(
        here.rt, here.principal, mine=query.mine, after=query.after, limit=query.limit
    )
    return {"approvals": [one.as_json() for one in page.found], "next": page.next}


@api.get("/<execution_id>/approvals", responses={200: ApprovalList})
def list_approvals(path: ExecutionPath) -> dict[str, Json]:
    """List the open approvals of an execution"""
    here = services()
    found = open_approvals.open_in(here.rt, here.principal, path.execution_id)
    return {"approvals": open_approvals.show_open(here.rt, found)}


@api.post("/<execution_id>/approvals", responses={202: ApprovalGiven})
def answer(path: ExecutionPath, body: ApprovalBody) -> tuple[dict[str, Json], int]:
    """Answer an approval

    400 where several are open and none is named, 403 for who is not asked, 404 for a step or a name
    that there is not, 409 where nothing waits for an approval (any more) or who asks has answered
    otherwise, 422 with all that is wrong with the values.
    """
    here = services()
    given = approvals.answer(here.rt, here.principal, path.execution_id, body.asked())
    return given.as_json(), 202
