"""The promises about waits, slots, scopes and loops are worth something, too: each of these seeded
defects breaks one of them under fixed schedules."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
import scope_scenarios as scenarios
from seeded import Defects

from noetl.engine import children as engine_children
from noetl.engine import completion as engine_completion
from noetl.engine import decide as engine_decide
from noetl.engine import evolve as engine_evolve
from noetl.engine import firing as engine_firing
from noetl.engine import loop_guards as engine_loop_guards
from noetl.engine import milestones as engine_milestones
from noetl.engine import occurrences as engine_occurrences
from noetl.engine import regions as engine_regions
from noetl.engine import run_ends as engine_run_ends
from noetl.engine import runs as engine_runs
from noetl.engine import scopes as engine_scopes
from noetl.engine import serving as engine_serving
from noetl.engine import slot_table as engine_slot_table
from noetl.engine import undoing as engine_undoing
from noetl.engine import waits as engine_waits
from noetl.engine.loop_ends import release
from noetl.engine.state import State
from noetl.facts import events as e
from noetl.store.events import SqlEvents
from noetl.store.slots import SqlSlots
from noetl.usecases import parent_notifications
from noetl.usecases import slots as usecases_slots
from noetl.usecases.turn import advance, writing


@pytest.mark.full("a second proof of what random schedules show")
@pytest.mark.parametrize("name", scenarios.SCENARIOS)
def test_the_engine_as_it_is_keeps_every_promise(name: str) -> None:
    assert scenarios.SCENARIOS[name].troubles() == []


DEFECTS = Defects()

# --- waits and timers -----------------------------------------------------------------------------


@DEFECTS.seed(scenarios.WAIT_RACES, "which does not wait")
def races_that_two_win(patch: pytest.MonkeyPatch) -> None:
    find, draft = engine_waits.find_occurrences, engine_occurrences._draft

    def endless(*asked: Any) -> Iterator[Any]:
        return (replace(come, ends=frozenset()) for come in find(*asked))

    patch.setattr(engine_waits, "find_occurrences", endless)
    patch.setattr(
        engine_occurrences, "_draft", lambda wait, fact, key: replace(draft(wait, fact, key), dedup_key=None)
    )


@DEFECTS.seed(scenarios.WAIT_RACES, "was taken")
def signals_that_all_take(patch: pytest.MonkeyPatch) -> None:
    taken = engine_occurrences._taken

    def shared(wait: Any, key: str, *how: Any) -> Any:
        return replace(taken(wait, key, *how), ends=frozenset({key}))

    patch.setattr(engine_occurrences, "_taken", shared)


@DEFECTS.seed(scenarios.WAIT_RACES, "was taken")
def signals_that_stay(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(engine_waits, "_take_signal", lambda state, received: state)


@DEFECTS.seed(scenarios.GOES_ON_BEHIND, "waits again for what had come")
def waits_begun_again_behind_a_crash(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(SqlEvents, "of_run", lambda self, run, step, iteration: [])


@DEFECTS.seed(scenarios.WAIT_RACES, "fired before its time, or twice")
def timers_that_fire_twice(patch: pytest.MonkeyPatch) -> None:
    due, fire = engine_occurrences.due_timers, engine_occurrences.fire_timer
    patch.setattr(engine_occurrences, "due_timers", lambda state, now: due(state, now) * 2)
    patch.setattr(
        engine_occurrences, "fire_timer", lambda timer, step: replace(fire(timer, step), dedup_key=None)
    )


@DEFECTS.seed(scenarios.PAUSED_WAITS, "(timer.fired|wait.matched) of .* while the execution was paused")
def timers_that_fire_in_a_pause(patch: pytest.MonkeyPatch) -> None:
    rules = tuple(
        engine_waits.tend_waits if rule is engine_decide._tend_waits else rule
        for rule in engine_decide._RULES
    )
    patch.setattr(engine_decide, "_RULES", rules)


@DEFECTS.seed(scenarios.WAIT_RACES, "while the execution was paused")
def pauses_that_hold_nothing_back(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(State, "is_halted", property(lambda state: state.cancelling and not state.closing))


# --- slots ----------------------------------------------------------------------------------------


@DEFECTS.seed(scenarios.WAIT_RACES, "slots of .* are taken")
def one_slot_more_than_there_is(patch: pytest.MonkeyPatch) -> None:
    counting = engine_slot_table.SlotTable.counting
    patch.setattr(engine_slot_table.SlotTable, "counting", lambda self, key: counting(self, key)[1:])


@DEFECTS.seed(scenarios.SLOTS_ALONE, "has some of its slots")
def slots_granted_one_by_one(patch: pytest.MonkeyPatch) -> None:
    serve = engine_serving._Service.serve

    def in_part(self: Any, request: Any) -> bool:
        lacking = self.table.find_lacking(request)
        free = tuple(row for row in request.rows if row not in lacking)
        if lacking and free and request.holder in self._asking.holders:
            self.served.granted += self.table.grant(replace(request, rows=free))
        return serve(self, request)

    patch.setattr(engine_serving._Service, "serve", in_part)


@DEFECTS.seed(scenarios.WAIT_RACES, "slots are held|is still")
def slots_that_nobody_gives_back(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(writing, "free_ended", lambda tx, states, after: None)


@DEFECTS.seed(scenarios.SLOTS_ALONE, "is still")
def slots_that_runs_keep(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(SqlSlots, "free_run", lambda self, execution, run: None)


@DEFECTS.seed(scenarios.SLOTTED_ITERATIONS, "is still")
def slots_that_cancelled_iterations_keep(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(writing, "free_cancelled", lambda tx, before, run, index: None)


@DEFECTS.seed(scenarios.SLOTS_UNDER_FIRE, "slots are held after the end")
def slots_that_executions_keep(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(SqlSlots, "free_execution", lambda self, execution: None)


@DEFECTS.seed(scenarios.SLOTS_ALONE, "is still")
def waiters_that_nobody_wakes(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(advance, "wake_waiters", lambda rt, keys=None: 0)


@DEFECTS.seed(scenarios.CALLED_WITH_A_SLOT, "is still|it has failed")
def slots_that_are_not_shared_with_the_caller(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(usecases_slots, "_find_callers", lambda tx, parent: [])


# --- scopes ---------------------------------------------------------------------------------------


@DEFECTS.seed(scenarios.UNDONE_CALLS, "were not undone")
def calls_that_are_forgotten(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(engine_children, "remember_call", lambda state, child, fact: state)


@DEFECTS.seed(scenarios.UNDONE_CALLS, "asked to be undone twice")
def calls_that_are_undone_twice(patch: pytest.MonkeyPatch) -> None:
    fold = engine_evolve.fold_undo

    def kept(state: Any, fact: Any) -> Any:
        after = fold(state, fact)
        again = isinstance(fact, e.ChildUndone) and int(fact.child_id or 0) % 2
        return replace(after, undoable=state.undoable) if again else after

    patch.setattr(engine_evolve, "fold_undo", kept)


@DEFECTS.seed(scenarios.CALLS_GIVEN_UP, "each is undone once")
def calls_that_end_before_their_cancel(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(parent_notifications, "undo_given_up", lambda rt, tx, execution: False)


@DEFECTS.seed(scenarios.UNDONE_CALLS, "is still|recorded twice|never made")
def executions_that_undo_and_are_not_written(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(writing, "write_copy", lambda tx, copy, now: copy.row)


@DEFECTS.seed(scenarios.FAILURE, "were not undone")
def runs_that_are_forgotten(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(engine_run_ends, "remember_run", lambda state, run: state)


@DEFECTS.seed(scenarios.FAILURE, "were not undone")
def an_iteration_that_is_forgotten(patch: pytest.MonkeyPatch) -> None:
    find = engine_undoing._find_iterations
    patch.setattr(engine_undoing, "_find_iterations", lambda run, loop, version: find(run, loop, version)[1:])


@DEFECTS.seed(scenarios.UNDONE_CALLS, "was undone behind")
def undone_in_the_order_of_what_was_done(patch: pytest.MonkeyPatch) -> None:
    def first(state: Any, region: Any = None) -> Any:
        return min(state.undoable, key=lambda one: one.latest, default=None)

    patch.setattr(engine_scopes, "next_undoable", first)


@DEFECTS.seed(scenarios.FAILURE, "was undone behind")
def iterations_undone_oldest_first(patch: pytest.MonkeyPatch) -> None:
    find = engine_undoing._find_iterations
    patch.setattr(
        engine_undoing, "_find_iterations", lambda run, loop, version: find(run, loop, version)[::-1]
    )


def _forget_first(purpose: str) -> Any:
    """That the first run of a handler with that purpose has ended is not kept."""
    fold = engine_run_ends.fold_handled

    def forgetful(state: Any, run: Any) -> Any:
        handling = run.handling
        first = handling is not None and handling.purpose == purpose and state.steps[run.step].runs == 1
        return state if first else fold(state, run)

    return forgetful


@DEFECTS.seed(scenarios.FAILURE, "handled 2 times")
def undone_twice(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(engine_run_ends, "fold_handled", _forget_first("compensate"))


@DEFECTS.seed(scenarios.CANCEL, "handled 2 times")
def regions_cleaned_up_twice(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(engine_run_ends, "fold_handled", _forget_first("finally"))


@DEFECTS.seed(scenarios.CANCEL, "were not cleaned up")
def what_was_cancelled_is_not_cleaned_up(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(engine_run_ends, "_leave", lambda state, run: engine_run_ends.without_run(state, run.id))


@DEFECTS.seed(scenarios.CANCEL, "was entered .* cleaned up 0 times")
def regions_not_cleaned_up_behind_a_cancel(patch: pytest.MonkeyPatch) -> None:
    find = engine_scopes._next_handler

    def but_behind_a_cancel(state: Any, region: Any, now: Any, status: str) -> Any:
        handler = find(state, region, now, status)
        skipped = handler is not None and handler.purpose == "finally" and status == "cancelled"
        return None if skipped else handler

    patch.setattr(engine_scopes, "_next_handler", but_behind_a_cancel)


@DEFECTS.seed(scenarios.FAILURE, "region part ended while")
def regions_that_do_not_wait_for_loops(patch: pytest.MonkeyPatch) -> None:
    inside = engine_regions.runs_inside

    def but_for_loops(*where: Any) -> Any:
        return [run for run in inside(*where) if run.loop is None]

    patch.setattr(engine_regions, "runs_inside", but_for_loops)


@DEFECTS.seed(scenarios.REGION_WAITS, "lay in region part")
def tokens_left_in_a_cancelled_region(patch: pytest.MonkeyPatch) -> None:
    cancel = engine_scopes._cancel

    def runs_alone(*why: Any) -> Any:
        return [draft for draft in cancel(*why) if not isinstance(draft.fact, e.StepSkipped)]

    patch.setattr(engine_scopes, "_cancel", runs_alone)


# --- loops and ends -------------------------------------------------------------------------------


@DEFECTS.seed(scenarios.ENOUGH_CANCELS, "closed too early")
def loops_that_close_too_early(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(engine_loop_guards, "truth", lambda guard, names, load=None: True)


@DEFECTS.seed(scenarios.ENOUGH_CANCELS, "nothing runs on")
def iterations_that_run_on(patch: pytest.MonkeyPatch) -> None:
    def goes_on(step: Any, state: Any, inputs: Any, run: Any, loop: Any, _reason: str) -> Any:
        return release(step, state, inputs, run, loop, engine_loop_guards.loop_result(loop))

    patch.setattr(engine_loop_guards, "cut_loop", goes_on)


@DEFECTS.seed(scenarios.ENOUGH_RUNS, "those that run on come to their end")
def iterations_that_do_not_run_on(patch: pytest.MonkeyPatch) -> None:
    def cut(step: Any, state: Any, inputs: Any, run: Any, loop: Any, _result: Any) -> Any:
        return engine_loop_guards.cut_loop(step, state, inputs, run, loop, "enough")

    patch.setattr(engine_loop_guards, "release", cut)


@DEFECTS.seed(scenarios.GROWING, "asked what they bring twice")
def iterations_that_are_asked_twice(patch: pytest.MonkeyPatch) -> None:
    fold, grown = engine_runs.fold_iteration, engine_loop_guards._grown

    def forgetful(loop: Any, index: int, fact: Any) -> Any:
        after = fold(loop, index, fact)
        first = isinstance(fact, e.LoopGrown) and not loop.added
        return replace(after, asked=loop.asked) if first else after

    patch.setattr(engine_runs, "fold_iteration", forgetful)
    patch.setattr(engine_loop_guards, "_grown", lambda *what: replace(grown(*what), dedup_key=None))


@DEFECTS.seed(scenarios.COMPLETING, "routed twice")
def completed_runs_that_are_routed_twice(patch: pytest.MonkeyPatch) -> None:
    leave, route = engine_evolve.leave_routed, engine_decide.route

    def stays_once(state: Any, name: str) -> Any:
        run = state.runs.get(name)
        if run is None or run.step != "slow" or run.released == "due":
            return leave(state, name)
        return replace(state, runs={**state.runs, name: replace(run, released="due")})

    def keyless(*where: Any) -> Any:
        return [replace(draft, dedup_key=None) for draft in route(*where)]

    patch.setattr(engine_evolve, "leave_routed", stays_once)
    patch.setattr(engine_decide, "route", keyless)


@DEFECTS.seed(scenarios.COMPLETING, "is still|a decision failed|a process failed")
def runs_that_are_completed_again(patch: pytest.MonkeyPatch) -> None:
    complete = engine_completion._complete

    def of_any(plan: Any, state: Any, inputs: Any) -> Any:
        return [
            draft
            for run in state.runs.values()
            if run.is_done
            for name in plan.step(run.step).completes
            for other in state.runs.values()
            if other.step == name
            for draft in complete(plan.step(name), state, inputs, other, run.id)
        ]

    rules = tuple(of_any if rule is engine_decide.complete_others else rule for rule in engine_decide._RULES)
    patch.setattr(engine_decide, "_RULES", rules)


@DEFECTS.seed(scenarios.MILESTONES, "began after c")
def milestones_that_never_pass(patch: pytest.MonkeyPatch) -> None:
    stage_of = engine_milestones.stage_of

    def late(state: Any, milestone: Any) -> Any:
        stage = stage_of(state, milestone)
        return "reached" if stage == "passed" else stage

    patch.setattr(engine_milestones, "stage_of", late)


@DEFECTS.seed(scenarios.MILESTONES, "began before a was done")
def milestones_that_are_reached_at_once(patch: pytest.MonkeyPatch) -> None:
    ask = engine_firing.ask_milestone

    def at_once(state: Any, step: Any, tokens: Any) -> Any:
        stage, drafts = ask(state, step, tokens)
        return ("reached" if stage == "early" else stage), drafts

    patch.setattr(engine_firing, "ask_milestone", at_once)


@DEFECTS.seed(scenarios.TERMINATING, "had ended the execution")
def what_runs_on_behind_an_end(patch: pytest.MonkeyPatch) -> None:
    rules = tuple(rule for rule in engine_decide._RULES if rule is not engine_decide._withdraw_others)
    patch.setattr(engine_decide, "_RULES", rules)


@pytest.mark.full("a test of the tests")
@pytest.mark.parametrize("name", DEFECTS.by_name)
def test_every_seeded_defect_breaks_a_promise(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    DEFECTS.check(name, monkeypatch)
