"""Steps that belong together end together, with processes that are really stopped: by a deadline
while workers and the scheduler die with SIGKILL, by whoever asks over HTTP, by a step that ends all
else. What is behind an end is run once, in the order that the documentation says."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import services
from tests.budget import budget
from tests.waiting import until

from .hours import let_timers_come
from .mortal import SEED, kill_something, mortal_stack
from .places import reach
from .playbooks import head, note, notes
from .stack import Stack
from .test_cancelling import begin, cancel, ended, marked

pytestmark = [pytest.mark.acceptance, pytest.mark.postgres, pytest.mark.redis]

#: At least one process of the two workers with two each is free while all of them sleep.
TRIPS = budget("NOETL_TEST_TRIPS", quick=2, full=3, long=3)
KILLS = budget("NOETL_TEST_KILLS", quick=6, full=12, long=60)

SLEEP = "{kind: shell, command: \"python3 -c 'import time; time.sleep(600)' {{ workload.mark }} & wait\"}"

TRIP = (
    head("trip")
    + f"""
workload: {{mark: x, effects: "", deadline: 1h}}
regions:
  trip:
    steps: [book, stay]
    deadline: "{{{{ workload.deadline }}}}"
    compensate: true
    on_cancel: tell
    finally: close
workflow:
  - {{step: start, next: [book, beside]}}
  - {{step: beside, tool: {{kind: shell, command: "true"}}}}
  - {{step: book, compensate: unbook, tool: {note("book")}, next: stay}}
  - {{step: stay, tool: {SLEEP}, next: home}}
  - {{step: home, tool: {note("home")}}}
  - {{step: unbook, tool: {note("unbook {{ args.of }}")}}}
  - {{step: tell, tool: {note("tell {{ args.reason }}")}, next: after}}
  - {{step: close, tool: {note("close {{ args.status }}")}}}
  - {{step: after, tool: {note("after")}}}
"""
)


@pytest.fixture
def mortal(
    tmp_path: Path, postgres_server: services.Postgres, postgres_template: str, broker_of_module: str
) -> Iterator[Stack]:
    with mortal_stack(tmp_path, postgres_server, postgres_template, broker_of_module, "shell") as running:
        running.start("api")
        yield running


def count_lines(effects: Path) -> int:
    return len(effects.read_text().splitlines())


def times_done(stack: Stack, execution: str, step: str) -> int:
    """How often the log says that a run of the step was done."""
    statement = "SELECT count(*) FROM event WHERE execution_id = :id AND step = :step AND type = 'step.done'"
    return int(stack.sql(statement, id=int(execution), step=step)[0][0])


def test_a_deadline_ends_undoes_and_closes_a_region_whatever_dies(mortal: Stack, effects: Path) -> None:
    print(f"seed {SEED}")
    chance = random.Random(SEED)
    runs = [begin(mortal, TRIP, effects=str(effects), deadline="1h") for _ in range(TRIPS)]
    for number in range(KILLS // 2):
        kill_something(mortal, chance, number)
    mortal.kill("scheduler")
    let_timers_come(mortal, [execution for execution, _ in runs])
    mortal.start("scheduler")
    # Each is booked already; four lines of it are to come.
    places = sorted(TRIPS + chance.randint(0, 4 * TRIPS) for _ in range(KILLS - KILLS // 2))
    for number, place in enumerate(places):
        reach(mortal, lambda place=place: count_lines(effects) >= place, f"line {place} of what is done")
        kill_something(mortal, chance, number)
    for execution, mark in runs:
        report = ended(mortal, execution)
        assert report["status"] == "completed", report
        assert notes(effects, execution) == [
            "book",
            "unbook book",
            "tell its deadline has come",
            "close cancelled",
            "after",
        ]
        for step in ("beside", "book", "unbook", "tell", "close", "after"):
            assert times_done(mortal, execution, step) == 1, step
        until(lambda mark=mark: not marked(mark), "its processes to be gone")
        mortal.check_log_of(execution)


def test_whoever_asks_cancels_a_region_and_the_rest_goes_on(stack: Stack, effects: Path) -> None:
    execution, mark = begin(stack, TRIP, effects=str(effects))
    cancel(stack, execution, mark, region="trip", reason="rain")
    assert ended(stack, execution)["status"] == "completed"
    assert times_done(stack, execution, "beside") == 1
    assert notes(effects, execution) == ["book", "unbook book", "tell rain", "close cancelled", "after"]


KEPT = (
    head("kept")
    + f"""
workload: {{mark: x, effects: "", work: sleep}}
workflow:
  - step: start
    finally: unlock
    tool:
      kind: shell
      command: |
        [ {{{{ workload.work }}}} = sleep ] || exit {{{{ workload.work }}}}
        python3 -c 'import time; time.sleep(600)' {{{{ workload.mark }}}} & wait
    next:
      arcs:
        - {{step: after, when: "{{{{ event.name == 'step.done' }}}}", args: {{how: done}}}}
        - {{step: after, when: "{{{{ event.name == 'step.failed' }}}}", args: {{how: failed}}}}
        - {{step: after, when: "{{{{ event.name == 'step.cancelled' }}}}", args: {{how: cancelled}}}}
  - {{step: unlock, tool: {note("unlock {{ args.of }} {{ args.status }}")}}}
  - {{step: after, tool: {note("after {{ args.how }}")}}}
"""
)


@pytest.mark.parametrize(("work", "how"), [("0", "done"), ("3", "failed"), ("sleep", "cancelled")])
def test_what_is_behind_every_end_of_a_step_is_run_once_before_what_follows(
    stack: Stack, effects: Path, work: str, how: str
) -> None:
    if how == "cancelled":
        execution, mark = begin(stack, KEPT, effects=str(effects), work=work)
        cancel(stack, execution, mark, step="start")
    else:
        execution = stack.begin(KEPT, {"effects": str(effects), "work": work})
    assert ended(stack, execution)["status"] == "completed"
    assert notes(effects, execution) == [f"unlock start {how}", f"after {how}"]


STOPPED = (
    head("stopped")
    + f"""
workload: {{mark: x, effects: ""}}
executor: {{spec: {{final_step: told}}}}
workflow:
  - {{step: start, next: [asleep, waits, stop]}}
  - {{step: asleep, tool: {SLEEP}, next: never}}
  - {{step: waits, tool: {{kind: wait, signal: nobody_sends_this}}, next: never}}
  - {{step: stop, tool: {{kind: wait, signal: stop}}, terminate: HOW}}
  - {{step: never, tool: {note("never")}}}
  - {{step: told, tool: {note("told {{ args.status }}")}}}
"""
)


@pytest.mark.parametrize("how", ["completed", "failed", "cancelled"])
def test_a_step_ends_all_else_and_says_how(stack: Stack, effects: Path, how: str) -> None:
    execution, mark = begin(stack, STOPPED.replace("HOW", how), effects=str(effects))
    stack.post(f"executions/{execution}/signals/stop")
    until(lambda: not marked(mark), "its processes to be gone")
    report = ended(stack, execution)
    assert report["status"] == how
    assert (report["error"] or {}).get("type") == {"failed": "Terminated"}.get(how)
    assert notes(effects, execution) == [f"told {how}"]
