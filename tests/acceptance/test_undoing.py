"""What has been done is undone while workers and the scheduler die with SIGKILL: each booking is
given back, the latest first, before whoever waits for that is told."""

from __future__ import annotations

import random
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

from noetl.usecases import catalog
from tests import services
from tests.budget import budget

from .mortal import KILLS, SEED, kill_something, mortal_stack
from .places import reach
from .stack import Stack

pytestmark = [pytest.mark.acceptance, pytest.mark.postgres, pytest.mark.redis]

TRIPS = budget("NOETL_TEST_TRIPS", quick=4, full=10, long=400)
CITIES = 4
#: Lines that all of them write at least: what is booked, given back, and told.
LINES = TRIPS * (2 * (CITIES + 1) + 1)

PLAYBOOK = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: trip, path: tests/trip}
workload: {file: ""}
executor: {spec: {finally: told}}
workflow:
  - step: start
    loop: {in: "{{ range(CITIES) | list }}", iterator: city, spec: {mode: parallel, max_in_flight: 2}}
    compensate: give_back
    tool: {kind: python, input: {file: "{{ file }}", words: "book {{ execution_id }} {{ iter.city }}"}, code: *note}
    next: stay
  - step: stay
    tool: {kind: playbook, path: tests/stay, payload: {file: "{{ file }}", trip: "{{ execution_id }}"}}
    next: pay
  - step: pay
    tool: {kind: python, code: "raise ValueError('no money')"}
  - step: give_back
    tool: {kind: python, input: {file: "{{ file }}", words: "back {{ execution_id }} {{ args.item }}"}, code: *note}
  - step: told
    tool: {kind: python, input: {file: "{{ file }}", words: "told {{ execution_id }} {{ args.status }}"}, code: *note}
"""
STAY = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: stay, path: tests/stay}
workload: {file: "", trip: ""}
workflow:
  - step: start
    compensate: give_back
    tool: {kind: python, input: {file: "{{ file }}", words: "book {{ trip }} stay"}, code: *note}
  - step: give_back
    tool: {kind: python, input: {file: "{{ file }}", words: "back {{ trip }} stay"}, code: *note}
"""
CODE = """
import os
to = os.open(file, os.O_APPEND | os.O_CREAT | os.O_WRONLY)
os.write(to, f"{words}\\n".encode())
os.close(to)
result = words
"""


@pytest.fixture
def mortal(
    tmp_path: Path, postgres_server: services.Postgres, postgres_template: str, broker_of_module: str
) -> Iterator[Stack]:
    with mortal_stack(tmp_path, postgres_server, postgres_template, broker_of_module, "python") as running:
        yield running


def noting(text: str) -> str:
    """The playbook, with the code of its tasks."""
    note = f"x-note: &note |\n{textwrap.indent(CODE.strip(), '  ')}\n"
    return note + text.lstrip().replace("CITIES", str(CITIES))


def count_lines(noted: Path) -> int:
    return len(noted.read_text().splitlines()) if noted.exists() else 0


def ended(mortal: Stack, run: str) -> list[str]:
    """The indices of the iterations, in the order in which they ended."""
    query = (
        "select iteration from event where execution_id = :run and type = 'loop.iteration.done'"
        " order by version"
    )
    return [str(index) for (index,) in mortal.sql(query, run=int(run))]


def test_every_booking_is_given_back_whatever_dies(mortal: Stack, tmp_path: Path) -> None:
    print(f"seed {SEED}")
    chance, noted = random.Random(SEED), tmp_path / "noted"
    catalog.register(mortal.rt, noting(STAY))
    runs = [mortal.begin(noting(PLAYBOOK), {"file": str(noted)}) for _ in range(TRIPS)]
    for number, place in enumerate(sorted(chance.sample(range(1, LINES), KILLS))):
        reach(
            mortal,
            lambda place=place: count_lines(noted) >= place,
            f"line {place} of what is done and undone",
        )
        kill_something(mortal, chance, number)
    mortal.wait(runs)

    assert {mortal.row(one).status for one in runs} == {"failed"}
    lines = [line.split() for line in noted.read_text().splitlines()]
    for run in runs:
        own = [(word, what) for word, name, what in lines if name == run]
        # What a kill interrupts is called again.
        back = list(dict.fromkeys(what for word, what in own if word == "back"))
        assert {what for word, what in own if word == "book"} == {"stay", *map(str, range(CITIES))}
        assert back == ["stay", *reversed(ended(mortal, run))]
        assert own[-1] == ("told", "failed")
