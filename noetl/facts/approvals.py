"""What people are asked for while a task waits, and what they answered."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Literal, TypeAlias

from noetl.facts.fingerprint import fingerprint
from noetl.facts.json import Json, JsonMap

Verdict: TypeAlias = Literal["approve", "reject"]

#: What stands before the name of a group among those who are asked.
GROUP = "group:"


@dataclass(frozen=True, slots=True)
class SoughtApproval:
    """The approval of `count` people. `by` names those who are asked, and groups (`group:ops`);
    with none it is whoever may approve. They are told `message`, shown `show`, and fill in `form`
    (`{inputs, defaults}`: declared inputs as a net has them, and values to begin with).
    `four_eyes`: who started the execution is not among them. Nobody can answer `expires_s` seconds
    after it was asked; every `remind_s` it is brought up again."""

    by: tuple[str, ...] = ()
    count: int = 1
    message: str = ""
    show: Json = None
    form: JsonMap = field(default_factory=dict)
    four_eyes: bool = False
    expires_s: float | None = None
    remind_s: float | None = None

    def shown(self, own_id: str) -> str:
        """Equal for approvals that show the same to the same people (`fingerprint`); `own_id` is
        the execution's."""
        asked = [list(self.by), self.count, self.four_eyes, self.message, self.show, self.form]
        return fingerprint(asked, own_id, short=0)

    def describe(self) -> str:
        """`approval of alice or group:ops`, `2 approvals`."""
        whom = f" of {' or '.join(self.by)}" if self.by else ""
        return f"approval{whom}" if self.count == 1 else f"{self.count} approvals{whom}"


@dataclass(frozen=True, slots=True)
class ApprovalAnswered:
    """Somebody (the event's caller) answered, at `at` (UTC, ISO 8601), what the task waits for
    under the name `name`. `values` are those of the form, `shown` is what the answer is to
    (`SoughtApproval.shown`)."""

    type: ClassVar[str] = "approval.answered"
    task: str
    name: str
    answer: Verdict
    at: str
    shown: str
    reason: str = ""
    values: JsonMap = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CallbackReceived:
    """Somebody who was handed the address of the task called it, at `at` (UTC, ISO 8601). The first
    call counts, also where the task does not wait yet."""

    type: ClassVar[str] = "callback.received"
    task: str
    at: str
    payload: Json = None
