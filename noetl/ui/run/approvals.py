"""The approvals that an execution asks for, on its page, and the answers that the page sends."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from noetl.errors import BadRequest
from noetl.facts.json import JsonMap
from noetl.ui.forms import PREFIX, ZONE_PREFIX, FormField, make_fields, read_fields
from noetl.ui.site import Visitor
from noetl.ui.values import ShownValue, show_value
from noetl.usecases.approval_requests import ApprovalRequest
from noetl.usecases.approvals import answer
from noetl.usecases.open_approvals import OpenApproval, open_in, show_open

#: Approvals that one page shows.
MOST: Final = 50
#: What the buttons send.
APPROVE: Final = "approve"
REJECT: Final = "reject"


@dataclass(frozen=True, slots=True)
class ShownApproval:
    """An approval as the page shows it: `about` is as REST has it, `shown` what people are shown
    before they answer, None where that is nothing."""

    about: JsonMap
    shown: ShownValue | None
    fields: list[FormField]
    reason: str = ""

    @property
    def is_closed(self) -> bool:
        """Whether the visitor is known, and has nothing to answer."""
        return bool(self.about["answered"]) or not self.about["may_answer"]


def show_approvals(
    visitor: Visitor, execution_id: str, typed: Mapping[str, str] | None = None
) -> tuple[list[ShownApproval], int]:
    """The approvals that the execution asks for, up to `MOST`, and how many more there are. `typed`
    is a form that came back: it is shown again."""
    found = open_in(visitor.rt, visitor.principal, execution_id)
    first = found[:MOST]
    abouts = show_open(visitor.rt, first)
    shown = [_show(visitor, one, about, typed) for one, about in zip(first, abouts, strict=True)]
    return shown, len(found) - len(first)


def _show(
    visitor: Visitor, one: OpenApproval, about: JsonMap, typed: Mapping[str, str] | None
) -> ShownApproval:
    own = typed if typed is not None and typed.get("id") == one.id else None
    reason = "" if own is None else own.get("reason", "")
    shown = None if about["show"] is None else show_value(about["show"], visitor.rt.load)
    return ShownApproval(about, shown, make_fields(one, own), reason)


def take_answer(visitor: Visitor, execution_id: str, sent: Mapping[str, str]) -> None:
    """Answers as the form says. Raises as `answer` does."""
    found = open_in(visitor.rt, visitor.principal, execution_id)
    one = next((one for one in found if one.id == sent.get("id")), None)
    approves = sent.get("answer") == APPROVE
    if not approves and sent.get("answer") != REJECT:
        raise BadRequest("Nothing was answered: choose Approve or Reject.")
    request = ApprovalRequest(
        APPROVE if approves else REJECT,
        id=sent.get("id", ""),
        reason=sent.get("reason", "").strip().replace("\r\n", "\n"),
        values=read_fields(one, sent) if one is not None and approves else {},
    )
    answer(visitor.rt, visitor.principal, execution_id, request)


def typed_in(sent: Mapping[str, str]) -> dict[str, str]:
    """What a form that came back holds and may be shown again: never the token."""
    ours = (PREFIX, ZONE_PREFIX)
    return {key: text for key, text in sent.items() if key in ("id", "reason") or key.startswith(ours)}
