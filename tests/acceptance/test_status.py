"""One status: the API, its list, the state, the command line and its list agree at every moment,
under load."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import pytest
import requests

from noetl.usecases.ports import ENDED
from tests import zygote
from tests.gates import Gate
from tests.waiting import GUARD_S, until

from .playbooks import LOOP, head
from .stack import ROOT, Stack

pytestmark = [pytest.mark.acceptance, pytest.mark.postgres, pytest.mark.redis]

#: Statuses may only move to a higher rank; running, waiting and paused take turns.
RANK = {"pending": 0, "running": 1, "waiting": 1, "paused": 1} | dict.fromkeys(ENDED, 2)

#: Executions that loop, the last of which is under way until everybody has said so, and some that
#: fail.
LOOPS, FAILURES = 6, 3

EVERYBODY = {"api list", "api", "state", "log", "noetl execution list", "noetl execution show"}

FAILS = (
    head("fails")
    + """
workflow:
  - step: start
    tool:
      kind: python
      code: raise ValueError("not today")
    next: end
  - step: end
"""
)


@dataclass(frozen=True)
class Seen:
    """One answer: when it was asked for, when it came (as ordinal numbers of such moments), who
    gave it, and what it said."""

    asked: int
    came: int
    source: str
    execution: str
    status: str


@dataclass
class Watch:
    """Asks all sources again and again, each in a thread of its own."""

    stack: Stack
    executions: list[str]
    seen: list[Seen] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    over: threading.Event = field(default_factory=threading.Event)
    moments: Iterator[int] = field(default_factory=count)

    def ask(self, source: str, question: Callable[[], Iterable[tuple[str, str]]]) -> None:
        """Once more when it is over: however slow a source is, its last answer is about the end."""
        last = False
        while not last:
            last = self.over.is_set()
            asked = next(self.moments)
            try:
                answers = list(question())
            except (AssertionError, LookupError, ValueError, OSError) as error:
                # A finding: it must not end in a thread that nobody looks at.
                self.problems.append(f"{source}: {error!r}")
                return
            came = next(self.moments)
            mine = [answer for answer in answers if answer[0] in self.executions]
            self.seen += [Seen(asked, came, source, *answer) for answer in mine]

    def sources(self, execution: str = "", status: str = "") -> set[str]:
        """Who has answered, or has said that of the execution."""
        return {
            one.source
            for one in list(self.seen)
            if not execution or (one.execution, one.status) == (execution, status)
        }

    def threads(self) -> list[threading.Thread]:
        questions = {
            "api list": self.api_list,
            "api": self.api,
            "state": self.state,
            "log": self.log,
            "noetl execution list": self.cli_list,
            "noetl execution show": self.cli_show,
        }
        return [threading.Thread(target=self.ask, args=one, daemon=True) for one in questions.items()]

    def get(self, path: str) -> Any:
        answer = requests.get(f"{self.stack.api}/api/executions{path}", timeout=GUARD_S)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def api_list(self) -> Iterable[tuple[str, str]]:
        rows = self.get("?limit=100")["executions"]
        return [(row["execution_id"], row["status"]) for row in rows]

    def watched(self, of_four: int) -> list[str]:
        """A fourth of them, and the one that stays."""
        return [*self.executions[of_four::4], self.executions[LOOPS - 1]]

    def api(self) -> Iterable[tuple[str, str]]:
        return [(one, self.get(f"/{one}")["status"]) for one in self.watched(0)]

    def state(self) -> Iterable[tuple[str, str]]:
        return [(one, self.get(f"/{one}/state")["status"]) for one in self.watched(1)]

    def log(self) -> Iterable[tuple[str, str]]:
        """What the log's last event says: only of those that have ended."""
        for one in self.executions:
            ends = self.get(f"/{one}/events?type=playbook.processed")["events"]
            if ends:
                yield one, ends[0]["payload"]["status"]

    def cli_list(self) -> Iterable[tuple[str, str]]:
        rows = self.noetl("execution", "list", "--json", "--limit", "100")
        return [(row["execution_id"], row["status"]) for row in rows]

    def cli_show(self) -> Iterable[tuple[str, str]]:
        one = self.executions[LOOPS - 1]
        return [(one, self.noetl("execution", "show", one, "--json")["status"])]

    def noetl(self, *words: str) -> Any:
        done = zygote.run(
            ["noetl", *words], cwd=ROOT, env=self.stack.environment, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)


def contradictions(seen: Iterable[Seen]) -> list[str]:
    """Answers that are older than what somebody had been told before they were asked for."""
    found = []
    known: dict[str, list[Seen]] = {}
    for one in sorted(seen, key=lambda answer: answer.asked):
        for earlier in known.setdefault(one.execution, []):
            if earlier.came > one.asked:
                continue
            back = RANK[one.status] < RANK[earlier.status]
            changed = RANK[earlier.status] == 2 and one.status != earlier.status
            if back or changed:
                found.append(f"{earlier} and then {one}")
        known[one.execution].append(one)
    return found


@pytest.mark.full("a load of commands")
def test_everybody_tells_the_same_status_at_every_moment_and_an_end_is_final(
    stack: Stack, tmp_path: Path
) -> None:
    gate = Gate(tmp_path / "gate")
    payload = {"items": 12, "width": 4}
    executions = [stack.begin(LOOP, payload) for _ in range(LOOPS - 1)]
    executions.append(stack.begin(LOOP, {"items": 2, "width": 1, "gate": str(tmp_path / "gate")}))
    executions += [stack.begin(FAILS) for _ in range(FAILURES)]
    watch = Watch(stack, executions)
    threads = watch.threads()
    for thread in threads:
        thread.start()
    # The log speaks only of those that have ended.
    until(
        lambda: watch.sources(executions[LOOPS - 1], "running") == EVERYBODY - {"log"} or watch.problems,
        lambda: f"everybody to answer: {watch.sources()}",
    )
    gate.open()
    rows = stack.wait(executions)
    watch.over.set()
    for thread in threads:
        thread.join(GUARD_S)
    assert watch.problems == []
    assert [rows[one].status for one in executions] == ["completed"] * LOOPS + ["failed"] * FAILURES
    assert contradictions(watch.seen) == []
    assert watch.sources() == EVERYBODY
    for source in ("api list", "noetl execution list"):
        last = {one.execution: one.status for one in watch.seen if one.source == source}
        assert last == {one: rows[one].status for one in executions}


def test_a_contradiction_would_be_found() -> None:
    """The check above can fail: each of these histories is refused."""
    ended = Seen(0, 2, "api", "7", "completed")
    assert contradictions([ended, Seen(3, 4, "cli", "7", "running")])
    assert contradictions([ended, Seen(3, 4, "list", "7", "failed")])
    assert contradictions([Seen(0, 2, "api", "7", "running"), Seen(3, 4, "cli", "7", "pending")])
    # Asked for before the other was answered: either may be newer.
    assert not contradictions([ended, Seen(1, 4, "cli", "7", "running")])
