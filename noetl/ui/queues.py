"""The page of queues, of the workers that serve them, and of the limits of what runs at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Literal
from urllib.parse import urlencode

from flask import Response, request

from noetl.errors import BadRequest
from noetl.facts.limits import QUEUE_KEY, RATE_KEY, WHOLE, SlotRow, region_of
from noetl.ui.charts import say_span
from noetl.ui.site import Visitor, answer, here, is_part, own_path, render, share, show
from noetl.usecases import limits, pausing, queues
from noetl.usecases.limits import KeyUse
from noetl.usecases.ports import QueuedCommand

#: Steps of one worker, and holders and waiters of one key, that are shown; and of one queue, or one
#: key, that was asked for.
FEW: Final = 5
MANY: Final = 100
#: A part of the page is not older than so many seconds, however long ago the last news were.
FRESH_S: Final = 1.0
#: Shapes of the states of workers: those of what executions are.
_SHAPES: Final[Mapping[queues.Presence, str]] = {"alive": "completed", "late": "waiting", "gone": "cancelled"}


@dataclass(frozen=True, slots=True)
class ShownWorker:
    """A worker. `seen`: how long ago its last sign of life was. `more`: how many it holds besides
    those that are shown."""

    use: queues.WorkerUse
    shape: str
    seen: str
    held: Sequence[QueuedCommand]
    more: int

    @classmethod
    def of(cls, use: queues.WorkerUse, now: datetime) -> ShownWorker:
        # What a worker that is gone holds is lost until its lease has run out.
        shape = "failed" if use.presence == "gone" and use.held else _SHAPES[use.presence]
        held = use.held[:FEW]
        return cls(use, shape, _say_ago((now - use.row.seen_at).total_seconds()), held, len(use.held) - FEW)


@dataclass(frozen=True, slots=True)
class ShownSlot:
    """Somebody who has a slot, or waits for one: `place` is the step, or what else of the
    execution."""

    row: SlotRow
    path: str
    place: str
    since: datetime

    @classmethod
    def of(cls, row: SlotRow, path: str) -> ShownSlot:
        return cls(row, path, _say_place(row), row.granted_at or row.requested_at)


@dataclass(frozen=True, slots=True)
class ShownKey:
    """A key. `name` is what it is called without the word for its `kind`. The numbers of those that
    are not shown are `more_holders` and `more_waiters`."""

    use: KeyUse
    kind: Literal["key", "queue", "rate"]
    name: str
    holders: Sequence[ShownSlot]
    waiters: Sequence[ShownSlot]
    per: str

    @classmethod
    def of(cls, use: KeyUse, most: int) -> ShownKey:
        kind, name = _name_key(use.key)
        holders = [ShownSlot.of(row, path) for row, path in use.holders[:most]]
        waiters = [ShownSlot.of(row, path) for row, path in use.waiters[:most]]
        return cls(use, kind, name, holders, waiters, "" if use.per_s is None else _say_period(use.per_s))

    @property
    def free(self) -> int | None:
        return None if self.use.limit is None else max(0, self.use.limit - self.use.held)

    @property
    def more_holders(self) -> int:
        return len(self.use.holders) - len(self.holders)

    @property
    def more_waiters(self) -> int:
        return len(self.use.waiters) - len(self.waiters)


@dataclass(frozen=True, slots=True)
class QueuesLook:
    """What somebody looks at: one queue, or one key, besides all of them. It stands in the
    address."""

    queue: str = ""
    key: str = ""

    @classmethod
    def read(cls) -> QueuesLook:
        return cls(request.args.get("queue", "").strip(), request.args.get("key", "").strip())

    def to(self, **changes: str) -> str:
        """The address of this page with that opened."""
        given = {name: text for name, text in changes.items() if text}
        return f"/queues?{urlencode(given)}" if given else "/queues"

    def here(self) -> str:
        return self.to(queue=self.queue, key=self.key)


def show_queues() -> Response:
    """The page, or the part of it that changes. Those who look at the same get the same part, which
    is never older than `FRESH_S`: signs of life are no news."""
    visitor, look = here().find_visitor(), QueuesLook.read()
    return answer(share(lambda: _render(visitor, look), within_s=FRESH_S))


def _render(visitor: Visitor, look: QueuesLook) -> str:
    template = "queues/part.html" if is_part() else "queues/page.html"
    return render(template, look=look, **_gather(visitor, look))


def _gather(visitor: Visitor, look: QueuesLook) -> Mapping[str, Any]:
    rt, now, principal = visitor.rt, visitor.rt.clock(), visitor.principal
    is_visible = None if principal.may("read") else lambda path: principal.may("read", path)
    seen = queues.look(rt, is_visible)
    most = MANY if look.key else FEW
    keys = limits.look(rt, look.key or None, 10 * MANY, is_visible)
    opened = next((one for one in seen.queues if one.name == look.queue), None)
    return {
        "now": now,
        "seen": seen,
        "workers": [ShownWorker.of(one, now) for one in seen.workers],
        "keys": [ShownKey.of(one, most) for one in keys],
        "opened": opened,
        "running": _find(visitor, look, "claimed", is_visible) if opened else (),
        "waiting": _find(visitor, look, "open", is_visible) if opened else (),
        "sees_all": is_visible is None,
        "may_steer": principal.may("operate"),
    }


def _find(
    visitor: Visitor,
    look: QueuesLook,
    state: Literal["open", "claimed"],
    is_visible: queues.IsVisible | None,
) -> Sequence[QueuedCommand]:
    return queues.find_commands(visitor.rt, state, look.queue, MANY, is_visible)


def _say_ago(seconds: float) -> str:
    """How long ago, in whole seconds: a clock that is ahead of ours is not in the future."""
    return f"{max(0, int(seconds))} s" if seconds < 60 else say_span(seconds)


def _say_period(seconds: float) -> str:
    """Of a rate: `second`, `minute`, `10 s`."""
    known = {1.0: "second", 60.0: "minute", 3600.0: "hour", 86400.0: "day"}
    return known.get(seconds) or f"{seconds:g} s"


def _name_key(key: str) -> tuple[Literal["key", "queue", "rate"], str]:
    if key.startswith(QUEUE_KEY):
        return "queue", key.removeprefix(QUEUE_KEY)
    if key.startswith(RATE_KEY):
        return "rate", key.removeprefix(RATE_KEY)
    return "key", key


def _say_place(row: SlotRow) -> str:
    if not row.run_id:
        return "the whole execution"
    if (region := region_of(row.run_id)) is not None:
        return f"region {region}"
    step = row.run_id.rpartition("#")[0] or row.run_id
    if row.part == WHOLE:
        return step
    number = row.part[1:]
    return f"{step}, iteration {number}" if row.part.startswith("i") else f"{step}, lane {number}"


# --- pause and resume -----------------------------------------------------------------------------

#: What each does, in words of a button, of a question, and of what came of it.
_WORDS: Final[Mapping[str, str]] = {"pause": "Pause", "resume": "Resume"}
_ABOUT: Final[Mapping[tuple[str, str], str]] = {
    ("pause", "queue"): "Workers take nothing of it until somebody resumes it. What they are at comes to its "
    "end.",
    ("resume", "queue"): "Workers take again what waits in it.",
    ("pause", "key"): "Nobody gets a slot of it until somebody resumes it. Who has one keeps it.",
    ("resume", "key"): "Who waits gets a slot again, the first in line first.",
}


def steer() -> Response:
    """Asks whether that is meant, or does it and says so. Raises BadRequest, and Conflict where
    what is to be resumed is not paused."""
    visitor, form = here().find_visitor(), request.form
    act, kind, name = form.get("act", ""), form.get("kind", ""), form.get("name", "")
    if (act, kind) not in _ABOUT:
        raise BadRequest(f"{act[:40]!r} of a {kind[:40]!r} is nothing that can be done here.")
    reason, is_sure = form.get("reason", "").strip(), form.get("sure") == "yes"
    if is_sure:
        _do(visitor, act, kind, name, reason)
    names: dict[str, Any] = {
        "act": act,
        "kind": kind,
        "name": name,
        "word": _WORDS[act],
        "about": _ABOUT[act, kind],
    }
    template = "queues/done.html" if is_sure else "queues/ask.html"
    return show(template, back=own_path(form.get("back", "/queues")), **names)


def _do(visitor: Visitor, act: str, kind: str, name: str, reason: str) -> None:
    match act, kind:
        case "pause", "queue":
            pausing.pause_queue(visitor.rt, name, reason)
        case "resume", "queue":
            pausing.resume_queue(visitor.rt, name)
        case "pause", _:
            pausing.pause_key(visitor.rt, name, reason)
        case _:
            pausing.resume_key(visitor.rt, name)
