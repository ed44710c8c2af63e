"""Playbooks of waits, slots, scopes and loops, and what is broken in them under fixed schedules."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from books import Book, call_of_kid, tool
from promises import broken
from seeded import Scenario
from slot_watch import SlotWatch
from test_instances import check_enough, looping
from test_undoing import check, task
from test_waits import STEPS, Visited, check_waits
from world import OPERATIONS, Schedule, World


@dataclass(frozen=True)
class Scoped(Scenario):
    """What `plays` says is broken."""

    plays: Callable[[Schedule], list[str]]
    operations: tuple[str, ...]
    seeds: range = range(4)
    length: int = 100

    def trouble(self, schedule: Schedule, **_options: Any) -> list[str]:
        return self.plays(schedule)


HEALTHY = ("step", "step", "deliver")
CALLS = (*OPERATIONS, "duplicate")
VISITS = (*OPERATIONS, "signal", "signal", "signal", "due", "due", "stop", "leave")


def played(
    book: Book,
    schedule: Schedule,
    *,
    count: int = 1,
    look: Callable[[World, str], object] = check,
    **more: Any,
) -> list[str]:
    """What is broken once `count` executions of `book` were played. `look` raises
    AssertionError."""
    watch = SlotWatch()
    others = [other.text for other in book.others]
    world = World(book.text, {"python": tool}, others=others, wrap=watch.over, **more)
    try:
        runs = [world.start() for _ in range(count)]
        world.play(schedule)
        world.settle()
        found = [*broken(world, book), *watch.broken]
        if not found:
            for run in runs:
                look(world, run)
        return found
    except AssertionError as error:
        return [f"not as it has to be: {error!s:.300}"]
    finally:
        world.abandon()


def visited(book: Book, schedule: Schedule) -> list[str]:
    """The same of a book that waits: in the end all comes that it can wait for."""
    watch = SlotWatch()
    world = Visited(book.text, {"python": tool}, wrap=watch.over)
    try:
        run = world.start()
        world.play(schedule)
        for _ in range(4):
            world.settle()
            world.give()
            # What somebody is asked in vain expires.
            world.play([("expire", 0), ("sweep", 0), ("finish", 0)])
        world.settle()
        return [*broken(world, book), *check_waits(world.sim.events(run)), *watch.broken]
    finally:
        world.abandon()


def ends_as(*statuses: str) -> Callable[[World, str], None]:
    def look(world: World, run: str) -> None:
        status = world.sim.report(run).row.status
        assert status in statuses, f"it has {status}"

    return look


def retried(name: str = "t0", **inputs: object) -> dict[str, Any]:
    return {**task(**inputs), "name": name}


def strict(**inputs: object) -> dict[str, Any]:
    return {**task(**inputs), "spec": {}}


# --- waits ----------------------------------------------------------------------------------------


def add_waits(book: Book, names: list[str]) -> None:
    for name in names:
        body = dict(STEPS[name])
        config = body.pop("tool")
        assert isinstance(config, dict)
        book.add(name, tool=[{"name": "w", "kind": "wait", **config}], **body)


def wait_races(schedule: Schedule) -> list[str]:
    """All that waits, side by side; two of them want one slot."""
    book = Book(wild=True, best_effort=True)
    names = ["race", "both", "items", "bounded", "waiting"]
    book.add("start", next=[*names, "urged"])
    add_waits(book, names)
    urged = {"approval": {"expires": 30, "remind": 4}}
    book.add("urged", tool=[{"name": "w", "kind": "wait", **urged}])
    return visited(book, schedule)


def goes_on_behind(schedule: Schedule) -> list[str]:
    """Pipelines that do something behind their waits, so that a worker may die there."""
    book = Book(wild=True, best_effort=True)
    book.add("start", next=["race", "items"])
    for name in ("race", "items"):
        body = dict(STEPS[name])
        config = body.pop("tool")
        assert isinstance(config, dict)
        book.add(name, tool=[{"name": "w", "kind": "wait", **config}, retried(), retried("t1")], **body)
    return visited(book, schedule)


def waits_in_a_region(schedule: Schedule) -> list[str]:
    """What waits in a region that has a deadline, and tokens that wait in it for a join."""
    book = Book(wild=True, best_effort=True)
    book.add("start", next=["race", "waiting", "side"])
    add_waits(book, ["race", "waiting"])
    book.add("side", tool=[retried()], next="joined")
    for step in book.steps[1:3]:
        step["next"] = "joined"
    book.add("joined", tool=[retried()], spec={"join": {"mode": "all"}})
    book.regions = {
        "part": {
            "steps": ["race", "waiting", "side", "joined"],
            "deadline": 15,
            "on_cancel": "left",
            "finally": "swept",
        }
    }
    book.add("left", tool=[retried()])
    book.add("swept", tool=[retried()])
    return visited(book, schedule)


def iterations_with_a_slot(schedule: Schedule) -> list[str]:
    """Iterations that wait with a slot that others wait for; somebody ends some of them."""
    book = Book(wild=True, best_effort=True)
    book.add("start", next=["items", "both"])
    add_waits(book, ["both"])
    wait = {"name": "w", "kind": "wait", "signal": "b"}
    spec = {"mode": "parallel", "max_in_flight": 3, "concurrency": {"key": "lanes", "limit": 1}}
    book.add("items", loop={"in": [1, 2, 3], "iterator": "item", "spec": spec}, tool=[wait, retried()])
    return visited(book, schedule)


WAIT_RACES = Scoped(wait_races, VISITS, range(6))
GOES_ON_BEHIND = Scoped(
    goes_on_behind, (*HEALTHY, "finish", "signal", "crash", "expire", "sweep"), range(6), 150
)
REGION_WAITS = Scoped(waits_in_a_region, (*HEALTHY * 20, "finish", "leave"), range(8))
PAUSED_WAITS = Scoped(wait_races, (*HEALTHY * 8, "finish", "due", "pause", "resume", "signal"), range(6), 200)
SLOTTED_ITERATIONS = Scoped(iterations_with_a_slot, (*HEALTHY * 8, "signal", "drop"), range(8))

# --- slots ----------------------------------------------------------------------------------------


def contended() -> Book:
    """Steps that want slots of two keys, in either order."""
    keys = [{"key": "x", "limit": 1}, {"key": "y", "limit": 2}]
    book = Book(best_effort=True)
    book.add("start", next=["a", "b", "c"])
    book.add("a", tool=[retried()], spec={"concurrency": keys})
    book.add("b", tool=[retried()], spec={"concurrency": keys[1]}, next="d")
    book.add("c", tool=[retried()], spec={"concurrency": keys[0]}, next="d")
    book.add("d", tool=[retried()], spec={"concurrency": keys, "join": {"mode": "all"}})
    return book


def slots_without_a_sweeper(schedule: Schedule) -> list[str]:
    return played(contended(), schedule, count=3, look=ends_as("completed"), sweeps=False)


def slots_under_fire(schedule: Schedule) -> list[str]:
    ended = ends_as("completed", "cancelled")
    return played(contended(), schedule, count=3, look=ended)


def called_with_a_slot(schedule: Schedule) -> list[str]:
    """What is called wants the slot that its caller has."""
    slot = {"concurrency": {"key": "shared", "limit": 1}}
    kid = Book(path="tests/kid")
    kid.add("a", tool=[task()], spec=slot)
    book = Book(others=[kid])
    book.add("start", tool=[call_of_kid()], spec=slot)
    return played(book, schedule, count=2, look=ends_as("completed"))


SLOTS_ALONE = Scoped(slots_without_a_sweeper, HEALTHY, range(4), 200)
SLOTS_UNDER_FIRE = Scoped(slots_under_fire, (*OPERATIONS, "cancel"), range(4), 200)
CALLED_WITH_A_SLOT = Scoped(called_with_a_slot, OPERATIONS)

# --- scopes ---------------------------------------------------------------------------------------


def undone_calls(schedule: Schedule) -> list[str]:
    """A loop of calls that do things, then a step that fails."""
    kid = Book(path="tests/kid")
    kid.add("a", tool=[task()], compensate="undo", next="b")
    kid.add("b", tool=[task()], compensate="undo")
    kid.add("undo", tool=[task()])
    book = Book(widths={"loop": 2}, others=[kid])
    spec = {"mode": "parallel", "max_in_flight": 2}
    book.add(
        "loop", loop={"in": [1, 2, 3], "iterator": "item", "spec": spec}, tool=[call_of_kid()], next="mine"
    )
    book.add("mine", tool=[task()], compensate="undo", next="bad")
    book.add("bad", tool=[strict(broken=True)])
    book.add("undo", tool=[task()])
    return played(book, schedule)


def calls_given_up(schedule: Schedule) -> list[str]:
    """A call that may have ended well just before its caller is cancelled."""
    kid = Book(path="tests/kid")
    kid.add("a", tool=[task()], compensate="undo", next="b")
    kid.add("b", tool=[task()], compensate="undo")
    kid.add("undo", tool=[task()])
    book = Book(widths={"loop": 2}, others=[kid])
    spec = {"mode": "parallel", "max_in_flight": 2}
    book.add("loop", loop={"in": [1, 2, 3], "iterator": "item", "spec": spec}, tool=[call_of_kid()])
    return played(book, schedule)


def scoped(*, fails: bool) -> Book:
    """Things that are undone and cleaned up, in a region and beside it."""
    book = Book(widths={"loop": 2})
    spec = {"mode": "parallel", "max_in_flight": 2}
    done: dict[str, Any] = {"compensate": "undo", "finally": "swept"}
    book.add("start", tool=[task()], next=["loop", "beside"], **done)
    book.add(
        "loop",
        loop={"in": [1, 2, 3], "iterator": "item", "spec": spec},
        tool=[task(fails=1)],
        next="inner",
        **done,
    )
    book.add("inner", tool=[task(fails=1)], next="behind", **done)
    book.add("beside", tool=[task(fails=1)], **done)
    book.add("behind", tool=[strict(broken=fails)])
    for name in ("undo", "swept", "closed"):
        book.add(name, tool=[task()])
    book.regions = {"part": {"steps": ["loop", "inner"], "compensate": True, "finally": "closed"}}
    return book


def a_failure_in_scopes(schedule: Schedule) -> list[str]:
    return played(scoped(fails=True), schedule, look=ends_as("failed"))


def a_cancel_in_scopes(schedule: Schedule) -> list[str]:
    return played(scoped(fails=False), schedule, look=ends_as("completed", "cancelled"))


UNDONE_CALLS = Scoped(undone_calls, CALLS)
CALLS_GIVEN_UP = Scoped(calls_given_up, (*OPERATIONS * 3, "cancel"), range(12), 250)
FAILURE = Scoped(a_failure_in_scopes, OPERATIONS)
CANCEL = Scoped(a_cancel_in_scopes, (*HEALTHY * 30, "finish", "due", "sweep", "cancel"), range(10), 200)

# --- loops and ends -------------------------------------------------------------------------------


def enough(rest: str) -> Callable[[Schedule], list[str]]:
    guard = {"when": "{{ completed >= 3 }}", "rest": rest}

    def trouble(schedule: Schedule) -> list[str]:
        book = looping({"enough": guard}, 2, "parallel", 1, 6)
        return played(book, schedule, look=lambda world, _run: check_enough(world, 3, rest, 6))

    return trouble


def growing(schedule: Schedule) -> list[str]:
    """Each item below 20 brings another two."""
    grow = "{{ [item + 20, item + 40] if item < 20 else none }}"
    book = looping({"grow": grow}, 2, "parallel", 0, 4)
    return played(book, schedule, look=ends_as("completed"))


def completing(schedule: Schedule) -> list[str]:
    """One that ends others as done, which waited or retried, or run a loop."""
    book = Book(widths={"loop": 2})
    book.add("start", next=["slow", "loop", "quick"])
    book.add("slow", tool=[task(fails=3)], next="behind")
    spec = {"mode": "parallel", "max_in_flight": 2}
    book.add(
        "loop", loop={"in": [1, 2, 3], "iterator": "item", "spec": spec}, tool=[task(fails=2)], next="behind"
    )
    book.add("quick", tool=[task()], spec={"completes": ["slow", "loop"]})
    book.add("behind", tool=[task()])
    return played(book, schedule, look=ends_as("completed"))


def milestones(schedule: Schedule) -> list[str]:
    """A step that may begin once `a` is done and until `c` begins."""
    book = Book(best_effort=True)
    book.add("start", next=["a", "late", "soon"])
    book.add("a", tool=[task(fails=1)], next="b")
    book.add("b", tool=[task()], next="c")
    book.add("c", tool=[task()])
    only = {"milestone": {"after": "a", "before": "c"}}
    book.add("late", tool=[task(fails=2)], next="last")
    book.add("last", tool=[task()], spec=only)
    book.add("soon", next="only")
    book.add("only", tool=[task()], spec=only)
    return played(book, schedule, look=ends_as("completed", "partial"))


def terminating(schedule: Schedule) -> list[str]:
    """A step that ends all else."""
    book = Book(widths={"loop": 2})
    book.add("start", next=["slow", "loop", "quick"])
    book.add("slow", tool=[retried(name) for name in ("t0", "t1", "t2", "t3")], next="behind")
    spec = {"mode": "parallel", "max_in_flight": 2}
    book.add("loop", loop={"in": [1, 2, 3], "iterator": "item", "spec": spec}, tool=[task()], next="behind")
    book.add("quick", tool=[task()], terminate="completed")
    book.add("behind", tool=[task()])
    return played(book, schedule, look=ends_as("completed"))


ENOUGH_CANCELS = Scoped(enough("cancel"), OPERATIONS)
ENOUGH_RUNS = Scoped(enough("run"), OPERATIONS)
GROWING = Scoped(growing, OPERATIONS)
COMPLETING = Scoped(completing, OPERATIONS)
MILESTONES = Scoped(milestones, OPERATIONS)
TERMINATING = Scoped(terminating, (*HEALTHY * 2, *OPERATIONS), range(8))

#: All of them, by name.
SCENARIOS = {name: one for name, one in globals().items() if isinstance(one, Scoped)}
