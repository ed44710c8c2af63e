"""Executions that contend for a few slots while workers and the scheduler die with SIGKILL: what
the tasks themselves write shows that there are never more at once, and the last one runs.

`NOETL_TEST_CONTENDERS` says how many there are.
"""

from __future__ import annotations

import random
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from noetl.usecases.pausing import pause_key, resume_key
from tests import services
from tests.budget import budget

from .mortal import SEED, ask, kill_something, mortal_stack
from .stack import Stack

pytestmark = [pytest.mark.acceptance, pytest.mark.postgres, pytest.mark.redis]

CONTENDERS = budget("NOETL_TEST_CONTENDERS", quick=60, full=200, long=1000)
LIMIT = 3
#: Seconds that each is at work: all of them together are for so long that there is time for kills.
PAUSE_S = max(0.1, 24 / CONTENDERS)

PLAYBOOK = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: contended, path: tests/contended}
workload: {file: "", pause: 0.05}
workflow:
  - step: work
    spec: {concurrency: {limit: LIMIT, key: contended}}
    tool:
      kind: python
      input: {file: "{{ file }}", name: "{{ execution_id }}", pause: "{{ pause }}"}
      code: |
        import os, time

        def note(word):
            to = os.open(file, os.O_APPEND | os.O_CREAT | os.O_WRONLY)
            os.write(to, f"{word} {name}\\n".encode())
            os.close(to)

        note("begin")
        time.sleep(float(pause))
        note("end")
        result = 1
"""


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


@pytest.mark.timeout(540)
def test_no_kill_lets_more_run_than_the_limit_and_the_last_one_runs(mortal: Stack, tmp_path: Path) -> None:
    print(f"seed {SEED}")
    chance, noted = random.Random(SEED), tmp_path / "noted"
    text = textwrap.dedent(PLAYBOOK).replace("LIMIT", str(LIMIT))
    # On a busy machine the first ones would be done before the last one was begun.
    pause_key(mortal.rt, "contended")
    runs = [mortal.begin(text, {"file": str(noted), "pause": PAUSE_S}) for _ in range(CONTENDERS)]
    resume_key(mortal.rt, "contended")
    kills = 0
    dsn = mortal.database.replace("postgresql+psycopg2", "postgresql")
    while ask(dsn, "select 1 from execution where ended_at is null limit 1"):
        kill_something(mortal, chance, kills)
        kills += 1
        time.sleep(chance.uniform(0.2, 1.5))
    mortal.wait(runs, 300)

    assert {mortal.row(one).status for one in runs} == {"completed"}
    most, seen = most_at_once(noted)
    assert (most, seen) == (LIMIT, set(runs))
    assert kills > 2
    assert ask(dsn, "select * from slot") == []
