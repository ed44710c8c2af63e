"""What every store promises of a log that is read by page (`noetl.usecases.ports.Events`)."""

from __future__ import annotations

from collections.abc import Sequence

from noetl.facts.events import Draft, Event, StepDone
from noetl.usecases.ports import EventFilter, Store

from .given import append, create, patched


def test_slices_of_the_log_are_counted_from_its_beginning(store: Store) -> None:
    create(store)
    append(store, [patched(f"v{number}") for number in range(1, 7)])
    everything = EventFilter()
    with store.read() as tx:
        assert tx.events.count("100", everything, 6) == 6
        assert tx.events.count("100", everything, 4) == 4
        assert versions(tx.events.slice("100", everything, 6, 2, 3)) == [3, 4, 5]
        assert versions(tx.events.slice("100", everything, 4, 2, 3)) == [3, 4]
        assert versions(tx.events.slice("100", everything, 6, 6, 3)) == []
        assert tx.events.slice("100", everything, 6, 5, 1) == tx.events.read("100", after=5)


def test_slices_of_the_log_are_narrowed_by_type_step_run_and_iteration(store: Store) -> None:
    create(store)
    places = [("s#1", None), ("s#1", 0), ("z#1", 0), ("s#2", 0), ("s#1", 1)]
    append(store, [patched("a", step=run[0], run_id=run, iteration=iteration) for run, iteration in places])
    append(store, [Draft(StepDone(), step="s", run_id="s#1")], after=5)
    wanted = {
        EventFilter(step="s"): [1, 2, 4, 5, 6],
        EventFilter(run_id="s#1"): [1, 2, 5, 6],
        EventFilter(step="s", iteration=0): [2, 4],
        EventFilter(("step.done",)): [6],
        EventFilter(("step.done", "ctx.patched"), run_id="s#1", iteration=0): [2],
        EventFilter(("step.failed",)): [],
    }
    with store.read() as tx:
        for where, found in wanted.items():
            assert tx.events.count("100", where, 6) == len(found)
            assert tx.events.count("100", where, 4) == len([one for one in found if one <= 4])
            assert versions(tx.events.slice("100", where, 6, 0, 10)) == found
            assert versions(tx.events.slice("100", where, 6, 1, 2)) == found[1:3]
            assert versions(tx.events.slice("100", where, 4, 1, 10)) == [one for one in found[1:] if one <= 4]


def versions(events: Sequence[Event]) -> list[int]:
    return [event.version for event in events]
