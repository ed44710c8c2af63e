"""When progress is told of what waits for slots and pauses."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from typing import Final

from noetl.cli.progress import ProgressView
from noetl.facts.events import Event, StepCancelled, StepDone, StepFailed
from noetl.facts.json import JsonMap
from noetl.facts.limits import SlotGranted, SlotRequested

#: Seconds between two looks at who has the slots that one waits for, and at what is paused.
WAITS_LOOK_S: Final = 2.0


class ShownWaits:
    """What waits for slots and pauses, as `progress` shows it. The log does not say who has them:
    that is asked for when a request was not granted at once, and now and then while nothing
    happens."""

    def __init__(self, ask: Callable[[], Sequence[JsonMap]], progress: ProgressView) -> None:
        self._ask = ask
        self._progress = progress
        self._asking: set[tuple[str | None, str]] = set()
        self._shown = False
        self._looked = time.monotonic()

    @property
    def look_s(self) -> float:
        """Seconds after which it is looked again, though nothing happened."""
        return WAITS_LOOK_S if self._progress.shows_waits and (self._asking or self._shown) else math.inf

    def look(self, events: Sequence[Event], *, is_over: bool) -> None:
        """Has what waits shown, where that may have changed with the `events`."""
        if not self._progress.shows_waits:
            return
        before = set(self._asking)
        for event in events:
            self._note(event)
        is_news = bool(self._asking - before) or (self._shown and not self._asking and bool(before))
        is_quiet = time.monotonic() - self._looked >= WAITS_LOOK_S and (self._shown or not events)
        if not is_over and (is_news or is_quiet):
            found = [one for one in self._ask() if one["kind"] in ("slot", "pause")]
            self._progress.show_waits(found)
            self._shown, self._looked = bool(found), time.monotonic()

    def _note(self, event: Event) -> None:
        match event.fact:
            case SlotRequested(part=part):
                self._asking.add((event.draft.run_id, part))
            case SlotGranted(part=part):
                self._asking.discard((event.draft.run_id, part))
            case StepDone() | StepFailed() | StepCancelled():
                self._asking = {one for one in self._asking if one[0] != event.draft.run_id}
            case _:
                pass
