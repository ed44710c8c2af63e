"""Executions of older versions that were interrupted within a repeat end as they would have.

`repeats-<version>.sql.xz` is the database that the version left. Executions were interrupted as a
call began (the end of the call before it was recorded, and nothing of this one), or while they
waited for a delay, a tool or a called playbook.
"""

from __future__ import annotations

import base64
import json
import lzma
import sqlite3
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from noetl.pipeline.model import Call
from noetl.results import open_results
from noetl.store import migrate, open_store
from noetl.testing import START, Simulation, StillLeases, default_tools
from noetl.usecases.ports import ENDED
from noetl.usecases.work.leases import Worker
from tests.budget import level

from .calls import Calls, called, key_of, parents
from .scenarios import ALL_KINDS, HEAD, TOOLS

HERE = Path(__file__).parent
VERSIONS = [
    "repeats-46fb24c",
    pytest.param("repeats-a3c2a8c", marks=pytest.mark.full("its nets say little more")),
]
#: One in so many of them is gone on with, by profile; all of them at night.
STEPS = {"quick": 4, "full": 4, "long": 1}
#: Scenarios with a delay between calls, and its seconds.
DELAYS = {
    "pages_with_a_delay": 60,
    "delays_in_parallel_iterations": 60,
    "links_into_ctx_with_a_growing_delay": 4,
}
#: All leases have run out by then, and all delays have passed.
LATER = START + timedelta(days=1)


def unpacked(name: str) -> bytes:
    return lzma.decompress((HERE / name).read_bytes())


@dataclass(frozen=True)
class Continued:
    """What came of the executions of a database. `points` say where each was interrupted, and
    `calls` which calls were made since, by execution."""

    scenarios: Mapping[str, Any]
    points: list[dict[str, Any]]
    told: Mapping[str, Any]
    calls: Mapping[str, Calls]


def continued(version: str, folder: Path) -> Continued:
    """Goes on with the executions that `version` left, to their ends."""
    expected = json.loads(unpacked(f"{version}.json.xz"))
    points = expected["points"][:: STEPS[level()]]
    database = folder / "noetl.sqlite"
    with closing(sqlite3.connect(database)) as connection:
        connection.executescript(unpacked(f"{version}.sql.xz").decode())
        _forget_others(connection, {point["execution"] for point in points})
    migrate.upgrade(f"sqlite:///{database}")
    assert migrate.check(f"sqlite:///{database}") == []
    for name, content in expected["results"].items():
        file = folder / "results" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(base64.b64decode(content))
    made: Calls = []
    sim = _simulation(database, folder / "results", made)
    try:
        told = dict(_come_to_an_end(sim, [point["execution"] for point in points]))
    finally:
        sim.rt.store.close()
    with closing(sqlite3.connect(database)) as connection:
        above = parents(connection)
    calls = defaultdict(list)
    for call in made:
        calls[above.get(call["execution"], call["execution"])].append(call)
    return Continued(expected["scenarios"], points, told, calls)


def _forget_others(connection: sqlite3.Connection, kept: set[str]) -> None:
    """Leaves the executions that are `kept`, and whom they called."""
    above = parents(connection)
    every = [str(row[0]) for row in connection.execute("SELECT execution_id FROM execution")]
    others = [(one,) for one in every if above.get(one, one) not in kept]
    for table in ("event", "command", "loop_run", "snapshot", "idempotency", "execution"):
        connection.executemany(f"DELETE FROM {table} WHERE execution_id = ?", others)
    connection.commit()


def _simulation(database: Path, results: Path, made: Calls) -> Simulation:
    """Today's code over the database, with another worker. Calls are added to `made`."""
    stubs = {**default_tools(), **TOOLS}

    def noted(call: Call) -> Any:
        made.append({**called(call), "at": (sim.now - START).total_seconds()})
        return stubs[call.kind](call)

    sim = Simulation(
        HEAD.replace("PATH", "today") + "workflow: [{step: start}]",
        {kind: noted for kind in stubs if kind != "noop"},
        store=open_store(f"sqlite:///{database}"),
        kinds=ALL_KINDS,
    )
    sim.rt = replace(sim.rt, results=open_results(f"file://{results}"))
    sim.leases = StillLeases(sim.rt)
    sim.worker = Worker(sim.rt, "today", sim.leases)
    sim.now = LATER
    return sim


def _come_to_an_end(sim: Simulation, executions: list[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    """How each of them has ended."""
    for _ in range(60):
        sim.pass_time(31)
        sim.settle(100_000)
        if all(sim.report(one).row.status in ENDED for one in executions):
            break
    for one in executions:
        report = sim.report(one)
        told = {part: getattr(report, part) for part in ("result", "ctx", "error", "steps")}
        yield one, json.loads(json.dumps({"status": report.row.status, **told}))


def known_then(found: Any, then: Any) -> Any:
    """`found` without the keys that later versions added to its mappings. Sentences of reports may be
    said in other words."""
    if isinstance(found, dict) and isinstance(then, dict):
        return {
            key: then[key] if key == "text" else known_then(value, then[key])
            for key, value in found.items()
            if key in then
        }
    return found


def each_ends_as_if_nothing_had_happened(continued: Continued) -> None:
    wrong = {}
    for point in continued.points:
        then = continued.scenarios[point["scenario"]]["told"]
        if (now := known_then(continued.told[point["execution"]], then)) != then:
            wrong[_named(point)] = (now, then)
    assert wrong == {}


def no_call_whose_end_was_recorded_is_made_again_and_none_is_left_out(continued: Continued) -> None:
    wrong = {}
    for point in continued.points:
        made = continued.calls.get(point["execution"], [])
        # Executions that are called by one run side by side.
        in_order = len({call["execution"] for call in made}) <= 1
        if (now := _alike(made, in_order)) != (then := _alike(point["after"], in_order)):
            wrong[_named(point)] = (now, then)
    assert wrong == {}


def services_can_tell_that_a_call_is_made_again(continued: Continued) -> None:
    """The key of a call is the one that the worker that died handed over."""
    for point in continued.points:
        occasions = defaultdict(set)
        for call in point["after"]:
            occasions[_shown(call)].add(call["occasion"])
        for call in continued.calls.get(point["execution"], []):
            assert call["key"] in {key_of(call, one) for one in occasions[_shown(call)]}, _named(point)


def delays_pass_between_calls(continued: Continued) -> None:
    gaps = defaultdict(list)
    for point in continued.points:
        calls = continued.calls.get(point["execution"], [])
        for iteration in {call["iteration"] for call in calls if point["scenario"] in DELAYS}:
            at = [call["at"] for call in calls if call["iteration"] == iteration]
            gaps[point["scenario"]] += [later - sooner for sooner, later in pairwise(at)]
    assert gaps.keys() == DELAYS.keys()
    for scenario, delay in DELAYS.items():
        assert gaps[scenario]
        assert min(gaps[scenario]) >= delay, scenario


def every_scenario_is_continued_from_several_points(continued: Continued) -> None:
    found = Counter(point["scenario"] for point in continued.points)
    assert found.keys() == continued.scenarios.keys()
    assert min(found.values()) >= 2
    redone = [point for point in continued.points if continued.calls.get(point["execution"])]
    assert len(redone) > len(continued.points) / 2


def _alike(calls: Calls, in_order: bool) -> list[str]:
    """What was called with what: of each iteration in order, or in any."""
    if not in_order:
        return sorted(map(_shown, calls))
    return [_shown(call) for call in sorted(calls, key=lambda call: (call["run"], call["iteration"] or 0))]


def _shown(call: dict[str, Any]) -> str:
    """A call, without the ids and names of this one."""
    named = ("execution", "key", "task", "occasion", "at")
    return json.dumps({k: v for k, v in call.items() if k not in named}, sort_keys=True)


def _named(point: dict[str, Any]) -> str:
    way = f"call {point['dies_at']}" if "dies_at" in point else f"rest {point['rests_at']}"
    return f"{point['scenario']}, {way}"


CHECKS = (
    every_scenario_is_continued_from_several_points,
    each_ends_as_if_nothing_had_happened,
    no_call_whose_end_was_recorded_is_made_again_and_none_is_left_out,
    services_can_tell_that_a_call_is_made_again,
    delays_pass_between_calls,
)


# One test for all: processes that run tests side by side would each go on with the database.
@pytest.mark.parametrize("version", VERSIONS)
def test_interrupted_repeats_go_on(version: str, tmp_path: Path, subtests: pytest.Subtests) -> None:
    found = continued(version, tmp_path)
    for check in CHECKS:
        with subtests.test(check.__name__):
            check(found)
