"""Executions that contend for a few slots while workers and the scheduler die with SIGKILL: what
the tasks themselves write shows that there are never more at once, and the last one runs.

`NOETL_TEST_CONTENDERS` says how many there are.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import services
from tests.budget import budget
from tests.gates import Gate
from tests.waiting import until

from .mortal import KILLS, SEED, ask, kill_something, mortal_stack
from .places import reach
from .stack import Stack

pytestmark = [pytest.mark.acceptance, pytest.mark.postgres, pytest.mark.redis]

CONTENDERS = budget("NOETL_TEST_CONTENDERS", quick=30, full=60, long=1000)
LIMIT = 3

PLAYBOOK = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: contended, path: tests/contended}
workload: {file: ""}
workflow:
  - step: work
    spec: {concurrency: {limit: LIMIT, key: contended}}
    tool:
      kind: python
      input: {file: "{{ file }}", name: "{{ execution_id }}"}
      code: CODE
"""
NOTE = """
def note(word):
    to = os.open(file, os.O_APPEND | os.O_CREAT | os.O_WRONLY)
    os.write(to, f"{word} {name}\\n".encode())
    os.close(to)

"""


def playbook(gate: Gate) -> str:
    """Each execution comes to the gate while it is at work."""
    code = f"import os\n{NOTE}note('begin')\n{gate.python('name')}note('end')\nresult = 1\n"
    return PLAYBOOK.replace("LIMIT", str(LIMIT)).replace("CODE", json.dumps(code))


@pytest.fixture
def mortal(
    tmp_path: Path, postgres_server: services.Postgres, postgres_template: str, broker_of_module: str
) -> Iterator[Stack]:
    with mortal_stack(tmp_path, postgres_server, postgres_template, broker_of_module, "python") as running:
        yield running


def most_at_once(noted: Path) -> tuple[int, set[str]]:
    """How many executions were at work at once, at most, and which ones were at all. One whose
    worker died is at work until its next attempt has ended."""
    running: set[str] = set()
    seen: set[str] = set()
    most = 0
    for line in noted.read_text().splitlines():
        word, name = line.split()
        if word == "begin":
            running.add(name)
            seen.add(name)
        else:
            running.discard(name)
        most = max(most, len(running))
    return most, seen


def count_ends(noted: Path) -> int:
    return noted.read_text().count("end ")


def test_no_kill_lets_more_run_than_the_limit_and_the_last_one_runs(mortal: Stack, tmp_path: Path) -> None:
    print(f"seed {SEED}")
    chance, noted, gate = random.Random(SEED), tmp_path / "noted", Gate(tmp_path / "gate")
    text = playbook(gate)
    # The first ones wait at the gate until the last one was begun.
    runs = [mortal.begin(text, {"file": str(noted)}) for _ in range(CONTENDERS)]
    until(lambda: len(gate.names()) == LIMIT, f"{LIMIT} of them to be at work")
    for number in range(2):
        kill_something(mortal, chance, number)
    gate.open()
    places = sorted(chance.sample(range(1, CONTENDERS), min(KILLS, CONTENDERS // 2)))
    for number, place in enumerate(places):
        reach(mortal, lambda place=place: count_ends(noted) >= place, f"the end of {place} of them")
        kill_something(mortal, chance, number)
    mortal.wait(runs)

    assert {mortal.row(one).status for one in runs} == {"completed"}
    most, seen = most_at_once(noted)
    assert (most, seen) == (LIMIT, set(runs))
    dsn = mortal.database.replace("postgresql+psycopg2", "postgresql")
    assert ask(dsn, "select * from slot") == []
