"""One status: the API, its list, the state, the command line and its list agree at every moment,
under load."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import pytest
import requests

from noetl.usecases.ports import ENDED

from .playbooks import LOOP, head
from .stack import ROOT, Stack

pytestmark = [pytest.mark.acceptance, pytest.mark.postgres, pytest.mark.redis]

#: Statuses may only move to a higher rank; running, waiting and paused take turns.
RANK = {"pending": 0, "running": 1, "waiting": 1, "paused": 1} | dict.fromkeys(ENDED, 2)

#: Executions that loop (the last of them is under way the longest), and some that fail.
LOOPS, FAILURES = 10, 4

#: Seconds within which every source has answered once.
SLOWEST = 40

FAILS = (
    head("fails")
    + """
workflow:
  - step: start
    tool:
      kind: python
      code: |
        import time
        time.sleep(0.2)
        raise ValueError("not today")
    next: end
  - step: end
"""
)


@dataclass(frozen=True)
class Seen:
    """One answer: when it was asked for, when it came, who gave it, and what it said."""

    asked: float
    came: float
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

    def ask(self, source: str, question: Callable[[], Iterable[tuple[str, str]]]) -> None:
        """Once more when it is over: however slow a source is, its last answer is about the end."""
        last = False
        while not last:
            last = self.over.is_set()
            asked = time.monotonic()
            try:
                answers = list(question())
            except (AssertionError, LookupError, ValueError, OSError, subprocess.SubprocessError) as error:
                # A finding: it must not end in a thread that nobody looks at.
                self.problems.append(f"{source}: {error!r}")
                return
            came = time.monotonic()
            mine = [answer for answer in answers if answer[0] in self.executions]
            self.seen += [Seen(asked, came, source, *answer) for answer in mine]

    def sources(self) -> set[str]:
        """Who has answered."""
        return {one.source for one in list(self.seen)}

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

    def get(self, path: str) -> dict:
        answer = requests.get(f"{self.stack.api}/api/executions{path}", timeout=20)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def api_list(self) -> Iterable[tuple[str, str]]:
        rows = self.get("?limit=100")["executions"]
        return [(row["execution_id"], row["status"]) for row in rows]

    def api(self) -> Iterable[tuple[str, str]]:
        return [(one, self.get(f"/{one}")["status"]) for one in self.executions[::4]]

    def state(self) -> Iterable[tuple[str, str]]:
        return [(one, self.get(f"/{one}/state")["status"]) for one in self.executions[1::4]]

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

    def noetl(self, *words: str) -> list | dict:
        done = subprocess.run(
            [sys.executable, "-m", "noetl", *words],
            cwd=ROOT,
            env=self.stack.environment,
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
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
def test_everybody_tells_the_same_status_at_every_moment_and_an_end_is_final(stack: Stack) -> None:
    payload = {"items": 40, "width": 4, "nap": 0.03}
    executions = [stack.begin(LOOP, payload) for _ in range(LOOPS)]
    executions += [stack.begin(FAILS) for _ in range(FAILURES)]
    watch = Watch(stack, executions)
    threads = watch.threads()
    for thread in threads:
        thread.start()
    for _ in range(SLOWEST):
        if len(watch.sources()) == len(threads):
            break
        # A command takes seconds to start where the machine is slow: the load outlasts it.
        executions.insert(LOOPS, stack.begin(LOOP, payload))
        time.sleep(1)
    rows = stack.wait(executions, 60)
    ended = time.monotonic()
    watch.over.set()
    for thread in threads:
        thread.join(60)
    assert watch.problems == []
    loops = len(executions) - FAILURES
    assert [rows[one].status for one in executions] == ["completed"] * loops + ["failed"] * FAILURES
    assert contradictions(watch.seen) == []
    everybody = watch.sources()
    assert len(everybody) == 6, everybody
    assert {one.source for one in watch.seen if one.came < ended} == everybody, "the load was over too soon"
    assert any(one.status == "running" for one in watch.seen)
    for source in ("api list", "noetl execution list"):
        last = {one.execution: one.status for one in watch.seen if one.source == source}
        assert last == {one: rows[one].status for one in executions}


def test_a_contradiction_would_be_found() -> None:
    """The check above can fail: each of these histories is refused."""
    ended = Seen(1.0, 1.1, "api", "7", "completed")
    assert contradictions([ended, Seen(1.2, 1.3, "cli", "7", "running")])
    assert contradictions([ended, Seen(1.2, 1.3, "list", "7", "failed")])
    assert contradictions([Seen(1.0, 1.1, "api", "7", "running"), Seen(1.2, 1.3, "cli", "7", "pending")])
    # Asked for before the other was answered: either may be newer.
    assert not contradictions([ended, Seen(1.05, 1.3, "cli", "7", "running")])
