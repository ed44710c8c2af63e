"""What is paused does not begin on real workers, and all of it runs once it is resumed, though
workers and the scheduler die with SIGKILL meanwhile: a queue, a step, a key. What is not paused
goes on. What happened says a file that the tasks write."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TypeAlias

import pytest

from tests import services, zygote
from tests.gates import Gate
from tests.waiting import until

from .mortal import SEED, kill_something, kill_workers, mortal_stack
from .playbooks import head, note, notes
from .stack import ROOT, Stack

pytestmark = [pytest.mark.acceptance, pytest.mark.postgres, pytest.mark.redis]

EXECUTIONS = 3

#: `held` is what is paused, `free` is beside it.
PLAYBOOK = (
    head("paused")
    + f"""
workload: {{effects: ""}}
workflow:
  - {{step: start, tool: {{kind: wait, signal: go}}, next: [held, free]}}
  - {{step: held, spec: {{concurrency: {{limit: 2, key: door}}}}, tool: {note("held")}}}
  - {{step: free, spec: {{queue: python}}, tool: {note("free")}}}
"""
)

#: At work on a queue until a gate is open.
BUSY = (
    head("busy")
    + f"""
workload: {{effects: ""}}
workflow:
  - step: start
    spec: {{queue: QUEUE}}
    tool:
      - {note("begin")}
      - {{kind: shell, command: COMMAND}}
      - {note("end")}
"""
)


def busy(gate: Gate, queue: str) -> str:
    playbook = BUSY.replace("COMMAND", json.dumps(gate.shell("{{ execution_id }}")))
    return playbook.replace("QUEUE", queue).replace("acceptance/busy", f"acceptance/busy_{queue}")


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


Do: TypeAlias = Callable[[Stack, str, Sequence[str]], None]


def queue(stack: Stack, verb: str, _: Sequence[str]) -> None:
    stack.post(f"queues/shell/{verb}", reason="repairs")


def step(stack: Stack, verb: str, executions: Sequence[str]) -> None:
    for one in executions:
        stack.post(f"executions/{one}/{verb}", step="held")


def key(stack: Stack, verb: str, _: Sequence[str]) -> None:
    """By a command, as somebody types it who sees the database and no server."""
    argv = ["noetl", "limits", verb, "door"]
    zygote.run(argv, cwd=ROOT, env=stack.environment, check=True, capture_output=True)


def have_all_that_died_taken_again(stack: Stack, effects: Path, gate: Gate) -> None:
    """A worker dies at work on a queue that is not paused, and another one has that work."""
    execution = stack.begin(busy(gate, "python"), {"effects": str(effects)})
    until(lambda: execution in gate.names(), "it to be at work")
    kill_workers(stack)
    gate.open()
    stack.wait([execution])
    stack.report(execution)


@pytest.mark.parametrize("do", [queue, step, key])
def test_what_is_paused_begins_when_it_is_resumed_whatever_dies(
    mortal: Stack, effects: Path, tmp_path: Path, do: Do
) -> None:
    print(f"seed {SEED}")
    chance = random.Random(SEED)
    runs = [mortal.begin(PLAYBOOK, {"effects": str(effects)}) for _ in range(EXECUTIONS)]
    until(lambda: {mortal.row(one).status for one in runs} == {"waiting"}, "all to wait")
    do(mortal, "pause", runs)
    for one in runs:
        mortal.post(f"executions/{one}/signals/go")
    for number in (1, 3, 0):
        kill_something(mortal, chance, number)
    until(lambda: all(notes(effects, one) for one in runs), "what is beside it to run")
    have_all_that_died_taken_again(mortal, effects, Gate(tmp_path / "gate"))
    assert [notes(effects, one) for one in runs] == [["free"]] * EXECUTIONS

    do(mortal, "resume", runs)
    kill_something(mortal, chance, 1)
    assert {row.status for row in mortal.wait(runs).values()} == {"completed"}
    assert [notes(effects, one) for one in runs] == [["free", "held"]] * EXECUTIONS
    for one in runs:
        mortal.check_log_of(one)


def test_what_a_dead_worker_was_at_waits_for_its_queue_to_be_resumed(
    mortal: Stack, effects: Path, tmp_path: Path
) -> None:
    gate = Gate(tmp_path / "gate")
    execution = mortal.begin(busy(gate, "shell"), {"effects": str(effects)})
    until(lambda: execution in gate.names(), "it to be at work")
    queue(mortal, "pause", ())
    kill_workers(mortal)
    gate.open()
    have_all_that_died_taken_again(mortal, tmp_path / "others", Gate(tmp_path / "other"))
    assert effects.read_text().splitlines() == [f"{execution} begin"]
    assert mortal.row(execution).status == "running"
    queue(mortal, "resume", ())
    mortal.wait([execution])
    mortal.report(execution)
    assert notes(effects, execution) == ["begin", "end"]
