"""Whatever comes first, and however often: signals, times, deadlines, conditions and cancellations
race each other and the workers, and each wait has one end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass

from books import Book
from hypothesis import given, settings
from hypothesis import strategies as st
from promises import broken
from test_interleavings import schedules
from world import Schedule, World

from noetl.errors import Conflict, NotFound
from noetl.facts import events as e
from noetl.facts.events import Event
from noetl.facts.json import Json
from noetl.usecases import control, inspect
from noetl.usecases.ports import ENDED
from noetl.usecases.signals import SignalRequest, send_about, send_signal

#: Each waits for something else; their arcs say how they ended.
STEPS: dict[str, dict[str, Json]] = {
    "race": {"tool": {"any": {"a": {"signal": "a"}, "late": {"timer": 5}}}},
    "both": {
        "tool": {
            "all": {"a": {"signal": "a"}, "b": {"signal": {"name": "b", "when": "{{ signal.payload != 3 }}"}}}
        },
        "spec": {"deadline": 20},
    },
    "items": {
        "loop": {"in": [1, 2, 3], "iterator": "item", "spec": {"mode": "parallel", "max_in_flight": 2}},
        "tool": {"any": {"b": {"signal": "b"}, "late": {"timer": "{{ iter.item * 3 }}"}}},
    },
    "about": {"tool": {"signal": {"name": "c", "correlate": "x"}}},
    "watch": {"tool": {"condition": "{{ ctx.go }}", "spec": {"timeout": 40}}},
}


@st.composite
def waits(draw: st.DrawFn) -> Book:
    """Some of them side by side, then one step for all."""
    book = Book(wild=True, best_effort=True)
    names = draw(st.lists(st.sampled_from(sorted(STEPS)), min_size=1, max_size=4, unique=True))
    book.add("start", next=list(names))
    for name in names:
        body = dict(STEPS[name])
        config = body.pop("tool")
        assert isinstance(config, dict)
        arcs: list[Json] = [
            {"step": "last", "when": f"{{{{ event.name == 'step.{word}' }}}}"}
            for word in ("done", "timed_out", "cancelled", "failed")
        ]
        book.add(name, tool=[{"name": "w", "kind": "wait", **config}], next={"arcs": arcs}, **body)
    book.add("last", tool=[{"name": "t0", "kind": "python", "code": "x"}])
    return book


@dataclass
class Visited(World):
    """A world in which somebody speaks, ends steps and iterations, and changes ctx."""

    def _signal(self, argument: int) -> None:
        """One of a few: most are sent several times."""
        name = "ab"[argument % 2]
        self._try(
            lambda run: send_signal(self.sim.rt, run, SignalRequest(name, argument, f"{name}{argument}"))
        )

    def _speak(self, argument: int) -> None:
        send_about(self.sim.rt, "x", SignalRequest("c", argument, f"c{argument}", everyone=argument % 3 == 0))

    def _stop(self, argument: int) -> None:
        names = sorted(STEPS)
        self._try(lambda run: control.cancel_step(self.sim.rt, run, names[argument % len(names)]))

    def _drop(self, argument: int) -> None:
        self._try(lambda run: control.cancel_step(self.sim.rt, run, "items", argument % 3))

    def _patch(self, argument: int) -> None:
        self._try(lambda run: control.patch_ctx(self.sim.rt, run, {"go": argument % 2 == 0}))

    def _try(self, ask: object) -> None:
        for run in self.everybody():
            if inspect.execution(self.sim.rt, run).status not in ENDED:
                with suppress(Conflict, NotFound):
                    ask(run)  # type: ignore[operator]

    def give(self) -> None:
        """All that anything can wait for."""
        for name in "ab":
            for number in range(8):
                signal = SignalRequest(name, 1, f"{name} last {number}")
                self._try(lambda run, one=signal: send_signal(self.sim.rt, run, one))
        send_about(self.sim.rt, "x", SignalRequest("c", 1, "c last", everyone=True))
        self._patch(0)


def check_waits(events: list[Event]) -> Iterator[str]:
    yield from _ends(events)
    yield from _timers(events)
    yield from _signals(events)


def _ends(events: list[Event]) -> Iterator[str]:
    """Each wait ends once, and nothing of a run comes behind its end."""
    begun: Counter[tuple[str | None, int | None]] = Counter()
    over: set[str | None] = set()
    for event in events:
        place = (event.draft.run_id, event.draft.iteration)
        match event.fact:
            case e.StepSuspended(wait=e.Wait()) | e.IterationSuspended(wait=e.Wait()):
                begun[place] += 1
            case e.WaitMatched(ends=True) | e.WaitTimedOut():
                begun[place] -= 1
                if begun[place] < 0 or place[0] in over:
                    yield f"{event.fact.type} of {place}, which does not wait"
            case e.StepDone() | e.StepFailed() | e.StepCancelled():
                over.add(place[0])
            case _:
                pass


def _timers(events: list[Event]) -> Iterator[str]:
    due: dict[str, str] = {}
    for event in events:
        match event.fact:
            case e.TimerScheduled(timer=name, due_at=at):
                due[name] = at
            case e.TimerFired(timer=name):
                if name not in due or event.recorded_at.isoformat() < due.pop(name):
                    yield f"timer {name} fired before its time, or twice"
            case _:
                pass


def _signals(events: list[Event]) -> Iterator[str]:
    sent = {event.version: event.fact for event in events if isinstance(event.fact, e.SignalReceived)}
    facts = (event.fact for event in events if isinstance(event.fact, e.WaitMatched))
    taken = Counter(fact.received for fact in facts if fact.received is not None)
    for version, count in taken.items():
        if version not in sent or (count > 1 and not sent[version].everyone):
            yield f"the signal at version {version} was taken {count} times"


@settings(max_examples=settings().max_examples * 2)
@given(
    book=waits(),
    schedule=schedules(*("signal",) * 3, *("speak", "stop", "drop", "patch", "due", "due", "cancel")),
)
def test_each_wait_ends_once_whatever_comes_first(book: Book, schedule: Schedule) -> None:
    world = Visited(book.text)
    try:
        run = world.start()
        world.play(schedule)
        for _ in range(4):
            world.settle()
            world.give()
        world.settle()
        assert [*broken(world, book), *check_waits(world.sim.events(run))] == []
    finally:
        world.abandon()
