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
from slot_watch import SlotWatch
from test_interleavings import schedules
from world import Schedule, World

from noetl.errors import Conflict, NotFound, Unavailable
from noetl.facts import events as e
from noetl.facts.approvals import Verdict
from noetl.facts.callbacks import TaskAddress
from noetl.facts.callers import Caller
from noetl.facts.events import Event
from noetl.facts.json import Json
from noetl.facts.limits import REGION_RUN
from noetl.usecases import control, inspect
from noetl.usecases.access import Grant, Principal
from noetl.usecases.approval_requests import ApprovalRequest
from noetl.usecases.approvals import answer
from noetl.usecases.callbacks import receive_call
from noetl.usecases.ports import ENDED
from noetl.usecases.signals import SignalRequest, send_about, send_signal
from tests.budget import examples

#: Of those that ask for it one has it at a time.
_ONE: Json = {"key": "bench", "limit": 1}
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
    "asked": {
        "tool": {"any": {"yes": {"approval": {"count": 2, "expires": 30, "remind": 4}}, "a": {"signal": "a"}}}
    },
    "each": {
        "loop": {"in": [1, 2], "iterator": "item", "spec": {"mode": "parallel"}},
        "tool": {"approval": {"message": "{{ iter.item }}?"}, "spec": {"timeout": 25}},
    },
    "called": {"tool": {"any": {"called": {"callback": {}}, "late": {"timer": 6}}}},
    "bounded": {"tool": {"any": {"b": {"signal": "b"}, "late": {"timer": 4}}}, "spec": {"concurrency": _ONE}},
    "waiting": {"tool": {"signal": "a"}, "spec": {"concurrency": _ONE, "deadline": 30}},
}
#: Who approves and who does not.
PEOPLE = ("ada", "bob", "eve")


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
    if draw(st.booleans()):
        inside = draw(st.lists(st.sampled_from(names), min_size=1, unique=True))
        book.regions = {
            "part": {"steps": list(inside), "deadline": 15, "on_cancel": "left", "finally": "swept"}
        }
        for name in ("left", "swept"):
            book.add(name, tool=[{"name": "t0", "kind": "python", "code": "x"}])
        if draw(st.booleans()):
            book.regions["part"]["concurrency"] = dict(_ONE)
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

    def _approve(self, argument: int) -> None:
        """Somebody answers one of what is asked."""
        who = Principal(PEOPLE[argument % 3], (Grant("approve"),))
        rt = self.sim.rt.acting_for(Caller(who.name, "r"))
        verdict: Verdict = "reject" if argument % 7 == 6 else "approve"
        step, iteration = ("asked", None) if argument % 2 else ("each", argument % 4 // 2)
        request = ApprovalRequest(verdict, step, iteration=iteration)
        self._try(lambda run: answer(rt, who, run, request))

    def _call(self, argument: int) -> None:
        self._try(lambda run: receive_call(self.sim.rt, TaskAddress(run, "called#1", None, "w"), argument))

    def _leave(self, _argument: int) -> None:
        self._try(lambda run: control.cancel_region(self.sim.rt, run, "part"))

    def _patch(self, argument: int) -> None:
        self._try(lambda run: control.patch_ctx(self.sim.rt, run, {"go": argument % 2 == 0}))

    def _try(self, ask: object) -> None:
        for run in self.everybody():
            if inspect.execution(self.sim.rt, run).status not in ENDED:
                with suppress(Conflict, NotFound, Unavailable):
                    ask(run)  # type: ignore[operator]

    def give(self) -> None:
        """All that anything can wait for."""
        for name in "ab":
            for number in range(8):
                signal = SignalRequest(name, 1, f"{name} last {number}")
                self._try(lambda run, one=signal: send_signal(self.sim.rt, run, one))
        for number in (1, 3, 0, 2):
            self._approve(number)
        self._call(0)
        send_about(self.sim.rt, "x", SignalRequest("c", 1, "c last", everyone=True))
        self._patch(0)


def check_waits(events: list[Event]) -> Iterator[str]:
    yield from _ends(events)
    yield from _timers(events)
    yield from _signals(events)
    yield from _answers(events)
    yield from _slots(events)


def _ends(events: list[Event]) -> Iterator[str]:
    """Each wait ends once, and nothing of a run comes behind its end."""
    begun: Counter[tuple[str | None, int | None]] = Counter()
    over: set[str | None] = set()
    for event in events:
        place = (event.draft.run_id, event.draft.iteration)
        match event.fact:
            case e.StepSuspended(wait=e.Wait()) | e.IterationSuspended(wait=e.Wait()):
                begun[place] += 1
            case e.WaitMatched(ends=True) | e.WaitFailed():
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


def _answers(events: list[Event]) -> Iterator[str]:
    """Nobody answers one thing twice, and what was approved was by as many as were asked."""
    seen: Counter[tuple[object, ...]] = Counter()
    for event in events:
        match event.fact:
            case e.ApprovalAnswered(name=name):
                place = (event.draft.run_id, event.draft.iteration, name)
                seen[*place, event.draft.caller and event.draft.caller.principal] += 1
            case e.WaitMatched(result={"answers": [*answers]}):
                wanted = 2 if event.draft.step == "asked" else 1
                if len({one["by"] for one in answers}) != wanted:
                    yield f"{event.draft.run_id} was approved by {answers}"
            case _:
                pass
    yield from (f"{who} answered {count} times" for who, count in seen.items() if count > 1)


def _slots(events: list[Event]) -> Iterator[str]:
    """Of those with one slot one is at work at a time; what is inside of a region that has it
    shares it."""
    holding: set[str] = set()
    inside: set[str] = set()
    for event in events:
        run = event.draft.run_id or ""
        match event.fact:
            case e.StepScheduled(regions=[_, *_]):
                inside.add(run)
            case e.SlotGranted():
                holding.add(run)
                shared = inside if any(one.startswith(REGION_RUN) for one in holding) else set()
                if len(holding - shared) > 1:
                    yield f"{sorted(holding - shared)} have one slot"
            case e.StepDone() | e.StepFailed() | e.StepCancelled() | e.StepSkipped():
                holding.discard(run)
            case e.RegionEnded():
                holding = {one for one in holding if not one.startswith(REGION_RUN)}
            case _:
                pass


@settings(max_examples=examples(25))
@given(
    book=waits(),
    schedule=schedules(
        *("signal",) * 3,
        *("approve",) * 2,
        *("speak", "stop", "drop", "patch", "call", "leave", "due", "due", "cancel"),
    ),
)
def test_each_wait_ends_once_whatever_comes_first(book: Book, schedule: Schedule) -> None:
    watch = SlotWatch()
    world = Visited(book.text, wrap=watch.over)
    try:
        run = world.start()
        world.play(schedule)
        for _ in range(4):
            world.settle()
            world.give()
        world.settle()
        assert [*broken(world, book), *check_waits(world.sim.events(run)), *watch.broken] == []
    finally:
        world.abandon()
