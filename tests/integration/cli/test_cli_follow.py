"""Following an execution, here or on a server: one loop, which neither leaves early nor leaves
twice."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from noetl.cli.follow import REASON, EventBatch, follow, follow_attempts
from noetl.cli.progress import PlainProgress, ProgressView
from noetl.errors import Conflict
from noetl.facts.events import Draft, Event, SlotRequested
from noetl.facts.limits import AskedSlot
from noetl.store.running import RunningStack, find, hold_home, write_note

Cli = Callable[..., Any]


class Told:
    """A source whose pages are known beforehand; an exception among them is raised."""

    def __init__(self, *pages: EventBatch | BaseException, refuses: bool = False) -> None:
        self._pages: Iterator[EventBatch | BaseException] = iter(pages)
        self._refuses = refuses
        self.reasons: list[str] = []
        self.awaited: list[Mapping[str, Any]] = []

    def page(self, after: int, wait_s: float, *, until_idle: bool) -> EventBatch:
        page = next(self._pages)
        if isinstance(page, BaseException):
            raise page
        return page

    def waits(self) -> Sequence[Mapping[str, Any]]:
        return self.awaited

    def cancel(self, reason: str) -> None:
        self.reasons.append(reason)
        if self._refuses:
            raise Conflict("Execution 1 has ended (completed).")

    @property
    def left(self) -> int:
        return len(list(self._pages))


def at(status: str, *, idle: bool = False) -> EventBatch:
    return EventBatch([], status, 0, idle)


def followed(source: Told, *, wait: bool = False) -> None:
    follow(source, ProgressView(), wait=wait, wait_s=0.0)


def test_what_owes_a_turn_after_a_patch_is_not_waited_for_in_vain() -> None:
    source = Told(at("waiting"), at("running"), at("completed", idle=True), at("completed", idle=True))
    followed(source)
    assert source.left == 1


@pytest.mark.parametrize("status", ["waiting", "paused"])
def test_only_who_does_not_wait_leaves_an_execution_that_is_idle(status: str) -> None:
    pages = (at(status, idle=True), at("completed", idle=True))
    hasty, patient = Told(*pages), Told(*pages)
    followed(hasty)
    followed(patient, wait=True)
    assert (hasty.left, patient.left) == (1, 0)


def test_the_first_interrupt_cancels_and_the_second_leaves() -> None:
    source = Told(KeyboardInterrupt(), at("running"), KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        followed(source)
    assert source.reasons == [REASON]


def test_an_execution_that_ended_before_it_could_be_cancelled_is_no_failure(
    capsys: pytest.CaptureFixture[str],
) -> None:
    source = Told(KeyboardInterrupt(), at("completed", idle=True), refuses=True)
    followed(source)
    assert "Execution 1 has ended (completed)." in capsys.readouterr().err


class Failed:
    """What has failed, and what is said of its next attempt, one answer after another."""

    def __init__(self, *answers: Mapping[str, Any] | BaseException | None, execution_id: str = "1") -> None:
        self._answers = iter(answers)
        self.execution_id = execution_id
        self.reasons: list[str] = []

    def next_attempt(self) -> Mapping[str, Any] | None:
        answer = next(self._answers)
        if isinstance(answer, BaseException):
            raise answer
        return answer

    def another(self, execution_id: str) -> Failed:
        return Failed(None, execution_id=execution_id)

    def cancel(self, reason: str) -> None:
        self.reasons.append(reason)


SCHEDULED = {"standing": "scheduled", "text": "It will be.", "execution_id": None}
STARTED = {"standing": "started", "text": "It is.", "execution_id": "2"}


def attempted(source: Failed, *, quiet: bool = False) -> tuple[list[str], int]:
    """Who was followed, in order, and how often something was done meanwhile."""
    seen: list[str] = []
    tended: list[None] = []
    follow_attempts(
        source,  # type: ignore[type-var]
        lambda one: seen.append(one.execution_id),
        wait_s=0.0,
        quiet=quiet,
        meanwhile=lambda: tended.append(None),
    )
    return seen, len(tended)


def test_the_next_attempt_is_waited_for_and_followed(capsys: pytest.CaptureFixture[str]) -> None:
    assert attempted(Failed(SCHEDULED, SCHEDULED, STARTED)) == (["1", "2"], 4)
    assert capsys.readouterr().err == "1 failed. It will be.\n1 failed. It is.\n"


def test_what_is_not_retried_is_the_last_one(capsys: pytest.CaptureFixture[str]) -> None:
    declined = {"standing": "declined", "text": "It is not.", "execution_id": None}
    for answer in (None, declined, {**declined, "standing": "cancelled"}):
        assert attempted(Failed(answer)) == (["1"], 1)
    assert attempted(Failed(SCHEDULED, declined), quiet=True)[0] == ["1"]
    assert capsys.readouterr().err == ""


def test_an_interrupt_between_attempts_calls_off_the_next_one_and_a_second_leaves() -> None:
    source = Failed(KeyboardInterrupt(), {**SCHEDULED, "standing": "cancelled"})
    assert attempted(source)[0] == ["1"]
    assert source.reasons == [REASON]
    with pytest.raises(KeyboardInterrupt):
        attempted(Failed(KeyboardInterrupt(), SCHEDULED, KeyboardInterrupt()))


@pytest.fixture
def stranger() -> Iterator[str]:
    """The URL of a server that knows nothing of NoETL."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.send_error(404)

        def log_message(self, *_: object) -> None: ...

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_a_server_that_is_not_ours_is_said_to_be_none(cli: Cli, stranger: str) -> None:
    ended = cli("run", "sum.yaml", "--server", stranger)
    assert ended.code == 2
    assert (
        ended.err == f"error: {stranger}/api/catalog is not the API of NoETL: it answered 404 without JSON.\n"
    )


def test_the_reason_of_a_connection_that_failed_is_one_word_of_the_system(cli: Cli) -> None:
    ended = cli("run", "sum.yaml", "--server", "http://127.0.0.1:9")
    assert ended.err == "error: The server at http://127.0.0.1:9 does not answer: Connection refused.\n"


def test_a_second_stack_learns_of_the_first_before_its_port(cli: Cli, home: Path) -> None:
    home.mkdir()
    here = "http://127.0.0.1:8642"
    with hold_home(home):
        write_note(home, RunningStack(here, None, "d", "b", "about", "logs", {"up": 1}))
        ended, detached = cli("up", "--port", "1"), cli("up", "-d")
    assert (ended.code, detached.code) == (1, 1)
    assert f"Another `noetl up` uses {home} ({here}); stop it with `noetl down`" in ended.err
    assert f"A stack runs on {home} already" in detached.err


def test_what_a_killed_stack_left_behind_is_no_running_stack(cli: Cli, home: Path) -> None:
    home.mkdir()
    write_note(home, RunningStack("http://127.0.0.1:1", None, "d", "b", "about", "logs", {"up": 1}))

    assert find(home) is None
    assert cli("status").code == 1
    assert cli("down").out == f"Nothing runs on {home}.\n"
    with hold_home(home):
        assert find(home) is None
        assert "just starting or stopping" in cli("down").err


def test_a_broker_that_does_not_answer_is_said_instead_of_being_up(
    cli: Cli, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NOETL_BROKER_URL", "redis://:secret@127.0.0.1:9/0")

    ended = cli("up", "--port", "0")

    assert ended.code == 1
    assert "is up" not in ended.out
    assert "NOETL_BROKER_URL (127.0.0.1:9/0): start it, or unset" in ended.err
    assert "secret" not in ended.err
    assert not (home / "up.json").exists()


@pytest.mark.parametrize(
    "options", [["--set", "a=1"], ["--payload", "{}"], ["--json"]], ids=lambda one: one[0]
)
def test_options_of_a_run_need_a_run(cli: Cli, options: Sequence[str]) -> None:
    ended = cli("up", *options)
    assert (ended.code, "error: --set, --payload and --json belong to --run" in ended.err) == (2, True)


def test_an_attempt_that_failed_names_its_iteration_in_one_line(cli: Cli) -> None:
    Path("again.yaml").write_text("""\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: again, path: tests/again}
workflow:
  - step: each
    loop: {in: [1, 2], iterator: n}
    tool:
      kind: python
      input: {n: "{{ iter.n }}", tries: "{{ _attempt }}"}
      code: |
        if n == 2 and tries == 1:
            raise ValueError("not\\nyet")
        result = n
      spec: {policy: {rules: [{when: "{{ outcome.status == 'error' }}", then: {do: retry, delay: 0}}]}}
""")
    ended = cli("run", "again.yaml")
    assert ended.code == 0, ended.err
    assert "each[1]: attempt 1 failed with item 2: not yet\n" in ended.err


def test_progress_without_events_says_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    import sys

    with PlainProgress(sys.stderr) as progress:
        follow(Told(at("completed", idle=True)), progress, wait=True, wait_s=0.0)
    assert capsys.readouterr().err == ""


def test_what_is_followed_is_asked_what_it_waits_for_and_that_is_said(
    capsys: pytest.CaptureFixture[str],
) -> None:
    import sys

    draft = Draft(SlotRequested("-", (AskedSlot("k", 1),)), step="load", run_id="load#1")
    event = Event("7", 1, datetime(2026, 1, 1, tzinfo=UTC), draft)
    source = Told(EventBatch([event], "running", 1, False), at("completed", idle=True))
    slot = {"name": "k", "text": "a slot of 'k'", "slot": {"key": "k", "taken": 1, "paused": None}}
    place = {"step": "load", "region": None, "run_id": "load#1", "iteration": None}
    source.awaited = [{"kind": "slot", "mode": "all", "since": None, "until": None, "for": [slot], **place}]
    with PlainProgress(sys.stderr) as progress:
        follow(source, progress, wait=True, wait_s=0.0)
    assert capsys.readouterr().err == "load: waits for a slot of 'k': noetl limits --key k\n"


def test_a_playbook_that_cannot_run_starts_no_stack(cli: Cli, home: Path) -> None:
    Path("bad.yaml").write_text(Path("sum.yaml").read_text().replace("kind: noop", "kind: nop"))
    ended = cli("up", "--run", "sum.yaml", "--run", "bad.yaml")
    assert ended.code == 2
    assert ended.err.startswith("bad.yaml:7:18: error[")
    assert "did you mean 'noop'?" in ended.err
    assert not (home / "up.lock").exists()
