"""What docs/patterns.md says of milestones, of loops that grow and stay open, of steps that
complete others or do not wait for their iterations, is true of real workers that die with SIGKILL
meanwhile: by the files that tasks write, and by the processes that run."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from noetl.usecases.sweep import end_leases
from tests import services
from tests.waiting import until

from .mortal import SEED, kill_something, kill_workers, mortal_stack
from .playbooks import TWO_STEPS, head, note, notes
from .stack import Stack
from .test_cancelling import begin, ended, marked

pytestmark = [pytest.mark.acceptance, pytest.mark.postgres, pytest.mark.redis]


@pytest.fixture(scope="module")
def mortal(
    tmp_path_factory: pytest.TempPathFactory,
    postgres_server: services.Postgres,
    postgres_template: str,
    broker_of_module: str,
) -> Iterator[Stack]:
    home = tmp_path_factory.mktemp("mortal")
    queues = "python,shell"
    with mortal_stack(home, postgres_server, postgres_template, broker_of_module, queues) as running:
        running.start("api")
        yield running


@pytest.fixture
def chance() -> random.Random:
    print(f"seed {SEED}")
    return random.Random(SEED)


def kill_some(stack: Stack, chance: random.Random, *numbers: int) -> None:
    """Returns once everybody is at work again: had something been to happen meanwhile, it would
    have happened before the end of what was begun behind the kills."""
    for number in numbers:
        kill_something(stack, chance, number)
    assert stack.run(TWO_STEPS).result == 2


def send(stack: Stack, execution: str, signal: str) -> None:
    stack.post(f"executions/{execution}/signals/{signal}")


def noted(effects: Path, execution: str, words: str) -> None:
    """Waits until a task has noted that."""
    until(lambda: words in notes(effects, execution), words)


MILESTONE = (
    head("milestone")
    + f"""
workload: {{effects: ""}}
workflow:
  - {{step: start, next: [early, pay, ask]}}
  - {{step: early, tool: {note("early")}, next: {{arcs: [{{step: change, args: {{who: early}}}}]}}}}
  - {{step: pay, tool: [{{kind: wait, signal: pay}}, {note("pay")}], next: pack}}
  - {{step: pack, tool: {{kind: wait, signal: send}}, next: send}}
  - {{step: send, tool: {note("send")}}}
  - step: ask
    tool: [{{kind: wait, signal: change}}, {note("late")}]
    next: {{arcs: [{{step: change, args: {{who: late}}}}]}}
  - step: change
    spec: {{join: any, milestone: {{after: pay, before: send}}}}
    tool: {note("change {{ args.who }}")}
    next: changed
  - {{step: changed, tool: {note("changed")}}}
"""
)


def test_a_step_begins_only_between_two_others(mortal: Stack, effects: Path, chance: random.Random) -> None:
    execution = mortal.begin(MILESTONE, {"effects": str(effects)})
    noted(effects, execution, "early")
    kill_some(mortal, chance, 1, 3)
    assert notes(effects, execution) == ["early"], "it came too early, and did not wait"
    send(mortal, execution, "pay")
    noted(effects, execution, "changed")
    kill_some(mortal, chance, 3, 1)
    send(mortal, execution, "send")
    noted(effects, execution, "send")
    send(mortal, execution, "change")
    report = ended(mortal, execution)
    assert report["status"] == "completed"
    assert notes(effects, execution) == ["early", "pay", "change early", "changed", "send", "late"]
    mortal.check_log_of(execution)


#: Items 1 to 7, each of which brings two, or none.
GROWING = (
    head("growing")
    + f"""
workload: {{effects: ""}}
workflow:
  - {{step: start, next: [walk, closing]}}
  - step: walk
    loop:
      in: [1]
      iterator: n
      grow: "{{{{ [2 * n, 2 * n + 1] if n < 4 else null }}}}"
      close: "{{{{ ctx.closed | default(false) }}}}"
      spec: {{mode: parallel, max_in_flight: 3}}
    tool: [{note("{{ n }}")}, {{kind: noop, input: {{n: "{{{{ n }}}}"}}}}]
    next: counted
  - {{step: closing, tool: {{kind: wait, signal: close}}, set: {{ctx.closed: true}}}}
  - step: counted
    tool: {{kind: noop, input: {{results: "{{{{ walk.results }}}}", stats: "{{{{ walk.stats }}}}"}}}}
"""
)


def test_a_loop_grows_and_stays_open_until_it_is_closed(
    mortal: Stack, effects: Path, chance: random.Random
) -> None:
    execution = mortal.begin(GROWING, {"effects": str(effects)})
    kill_some(mortal, chance, 0, 1, 3)
    until(lambda: mortal.ended_iterations(execution) == 7, "all that it grew to")
    kill_some(mortal, chance, 1, 3)
    assert mortal.get(f"executions/{execution}")["status"] == "waiting"
    send(mortal, execution, "close")
    result = ended(mortal, execution)["result"]
    assert result["stats"] == {"total": 7, "completed": 7, "failed": 0}
    assert sorted(one["n"] for one in result["results"]) == [1, 2, 3, 4, 5, 6, 7]
    assert set(notes(effects, execution)) == set("1234567")
    mortal.check_log_of(execution)


#: Two of three iterations sleep, each in a process of its own.
COMPLETED = (
    head("completed")
    + """
workload: {mark: x}
workflow:
  - {step: start, next: [work, stop]}
  - step: work
    loop: {in: [600, 0, 600], iterator: nap, spec: {mode: parallel, max_in_flight: 3}}
    tool:
      - kind: shell
        command: "python3 -c 'import sys, time; time.sleep(int(sys.argv[2]))' {{ workload.mark }} {{ nap }} & wait"
      - {kind: noop, input: {nap: "{{ nap }}"}}
    next: after
  - {step: stop, tool: {kind: wait, signal: stop}, spec: {completes: [work]}}
  - {step: after, tool: {kind: noop, input: {results: "{{ work.results }}", stats: "{{ work.stats }}"}}}
"""
)


@pytest.fixture
def patient(
    tmp_path: Path, postgres_server: services.Postgres, postgres_template: str, broker_of_module: str
) -> Iterator[Stack]:
    """A busy machine loses no lease of it. An iteration that is lost alone would be begun again
    once the others have ended."""
    with mortal_stack(
        tmp_path / "home", postgres_server, postgres_template, broker_of_module, "python,shell", lease_s=600
    ) as running:
        running.start("api")
        yield running


def sleeps(stack: Stack, execution: str, mark: str) -> bool:
    """Whether one iteration has ended and two sleep."""
    return stack.ended_iterations(execution) == 1 and len(marked(mark)) == 2


def test_a_step_completes_another_one_whose_iterations_are_stopped(patient: Stack) -> None:
    execution, mark = begin(patient, COMPLETED)
    until(lambda: sleeps(patient, execution, mark), "two to sleep")
    kill_workers(patient)
    assert end_leases(patient.rt) >= 2
    patient.restart("scheduler")
    until(lambda: sleeps(patient, execution, mark), "two to sleep again")
    send(patient, execution, "stop")
    until(lambda: not marked(mark), "its processes to be gone")
    report = ended(patient, execution)
    assert (report["status"], report["result"]) == (
        "completed",
        {
            "results": [None, {"nap": 0}, None],
            "stats": {"total": 3, "completed": 1, "failed": 0, "cancelled": 2},
        },
    )


#: Between two looks at the file that iterations wait for.
LOOKS_S = 0.05

#: The iterations wait for a file that the test makes, one at a time: a place is left for others.
APART = (
    head("apart")
    + f"""
workload: {{effects: "", sign: ""}}
workflow:
  - step: start
    finally: tidy
    loop: {{in: [1, 2, 3], iterator: n, spec: {{sync: false}}}}
    tool:
      - {{kind: shell, command: "until [ -e {{{{ workload.sign }}}} ]; do sleep {LOOKS_S}; done"}}
      - {note("n {{ n }}")}
    next: behind
  - {{step: behind, tool: {note("behind {{ start.results }} {{ start.stats.total }}")}}}
  - {{step: tidy, tool: {note("tidy {{ args.status }}")}}}
"""
)


def test_iterations_run_on_behind_their_step_though_workers_die(
    mortal: Stack, effects: Path, chance: random.Random, tmp_path: Path
) -> None:
    sign = tmp_path / "sign"
    execution = mortal.begin(APART, {"effects": str(effects), "sign": str(sign)})
    noted(effects, execution, "behind 3")
    kill_some(mortal, chance, 1, 3, 1)
    assert notes(effects, execution) == ["behind 3"]
    sign.touch()
    kill_some(mortal, chance, 0)
    report = ended(mortal, execution)
    assert report["status"] == "completed"
    assert notes(effects, execution) == ["behind 3", "n 1", "n 2", "n 3", "tidy done"]
