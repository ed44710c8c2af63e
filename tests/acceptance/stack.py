"""The stack as it runs in production: one process for each part, on a real database and a real
broker.

    with Stack(home, database_url, broker_url) as stack:
        execution = stack.begin(PLAYBOOK, {"items": 20})
        stack.wait([execution])
        stack.kill("code")          # SIGKILL, children included
        stack.start("code")

The parts live in sessions of their own and die with the test process. They are forked from a
process that has imported NoETL (`tests/zygote.py`), unless they are to be `real`; what users type
is in `test_commands.py` and `test_up.py`. What the parts say goes into files below `home/logs`; a
traceback in one of them is a failure unless the test expects it.
"""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import requests
from celery import Celery
from sqlalchemy import create_engine, make_url, text
from sqlalchemy.engine import Engine, Row

from noetl import bootstrap
from noetl.cli.services import server_argv
from noetl.config import Settings
from noetl.dispatch.celery import CeleryDispatcher, make_app
from noetl.processes import kill_tree
from noetl.usecases import catalog, inspect
from noetl.usecases.ports import ENDED, ExecutionRow
from noetl.usecases.runtime import Runtime
from noetl.usecases.start import StartRequest, start
from tests import zygote
from tests.ports import free_port
from tests.services import spawn
from tests.waiting import GUARD_S, until

ROOT = Path(__file__).resolve().parents[2]

#: What every stack runs unless told otherwise.
CORE = ("scheduler", "code", "io")


def worker(queues: str, pool: str, concurrency: int, name: str) -> list[str]:
    """What Procfile says, as arguments. Workers do not ask one another what they know, for which
    each would wait a second."""
    options = ["-Q", queues, "-P", pool, "-c", str(concurrency), "-n", f"{name}@%h"]
    return ["celery", "-A", "noetl", "worker", *options, "--without-gossip", "--without-mingle", "-l", "INFO"]


WORKERS = {
    "scheduler": worker("scheduler", "solo", 1, "scheduler"),
    "code": worker("python,shell", "prefork", 2, "code"),
    "io": worker("http,postgres,duckdb,sqlite,transfer,default", "threads", 8, "io"),
    #: One process for everything that the others do.
    "alone": worker("python,shell,http,postgres,duckdb,default", "solo", 1, "alone"),
}


def environment(settings: Mapping[str, object]) -> dict[str, str]:
    """This process's environment, with no setting of NoETL but those given."""
    outside = {name: value for name, value in os.environ.items() if not name.startswith("NOETL_")}
    return {**outside, **{f"NOETL_{name.upper()}": str(value) for name, value in settings.items()}}


def fork(argv: Sequence[str], log: Path, variables: Mapping[str, str]) -> subprocess.Popen[bytes]:
    """`python -m ARGV`, forked from a process that has imported what it needs."""
    with log.open("ab") as out:
        return zygote.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            cwd=ROOT,
            env=variables,
        )


def execute(argv: Sequence[str], log: Path, variables: Mapping[str, str]) -> subprocess.Popen[bytes]:
    """`python -m ARGV`, as users start it."""
    return spawn([sys.executable, "-m", *argv], log, cwd=ROOT, env=variables)


def family(pid: int) -> list[psutil.Process]:
    """A process and all its descendants."""
    with contextlib.suppress(psutil.NoSuchProcess):
        top = psutil.Process(pid)
        return [top, *top.children(recursive=True)]
    return []


def is_worker(process: psutil.Process) -> bool:
    """Whether it is a worker or a child of its pool, and no child of a tool: by what `ps` shows."""
    return any(word in " ".join(process.cmdline()) for word in ("celery", "noetl: "))


def kill_all(processes: Iterable[psutil.Process]) -> None:
    """SIGKILL to all of them; returns once they are gone."""
    found = list(processes)
    for process in found:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    psutil.wait_procs(found, timeout=GUARD_S)


def kill_trees(tops: Iterable[int]) -> None:
    """SIGKILL to processes and all their descendants; returns once they are gone.

    What one of them starts meanwhile is killed too: it would outlive all who could end it."""
    pids = list(tops)
    seen = [process for pid in pids for process in family(pid)]
    for pid in pids:
        kill_tree(pid)
    psutil.wait_procs(seen, timeout=GUARD_S)


@dataclass
class Part:
    """One process of the stack: `python -m ARGV`, or a program where `argv` starts with a slash."""

    name: str
    argv: Sequence[str]
    log: Path
    process: subprocess.Popen[bytes] | None = None
    #: How much of the log belongs to earlier lives, and how much was looked at for tracebacks.
    born_at: int = 0
    checked: int = 0

    @property
    def pid(self) -> int:
        assert self.process is not None, f"{self.name} does not run"
        return self.process.pid

    def describe(self) -> str:
        """Where the threads of a forked process are, or how it ended."""
        if self.process is None or self.process.poll() is not None:
            return f"It does not run: {self.process and self.process.returncode}."
        if not isinstance(self.process, zygote.Popen):
            return ""
        since = self.log.stat().st_size
        process = self.process
        process.send_signal(zygote.SHOW_THREADS)
        # One that was stopped never says it; the failure that is reported is another one.
        with contextlib.suppress(AssertionError):
            until(lambda: "recent call first" in self.said(since) or process.poll() is not None, "threads")
        return self.said(since)

    def said(self, since: int = 0) -> str:
        if not self.log.exists():
            return ""
        return self.log.read_bytes()[since:].decode("utf-8", "replace")


@dataclass
class Stack:
    """A scheduler, workers, and what else is named in `parts`. `settings` become NOETL_*
    variables."""

    home: Path
    database: str
    broker: str
    parts: Sequence[str] = CORE
    settings: Mapping[str, object] = field(default_factory=dict)
    #: Whether `parts` are executed, as users start them, and not forked.
    real: bool = False
    running: dict[str, Part] = field(default_factory=dict)
    #: Patterns of tracebacks' last lines that the test has announced.
    expected: list[str] = field(default_factory=list)
    #: Flower's address, where a test has started it.
    flower: str = ""
    _port: int = 0
    _rt: Runtime | None = None
    _app: Celery | None = None
    _engine: Engine | None = None

    def __enter__(self) -> Stack:
        (self.home / "logs").mkdir(parents=True, exist_ok=True)
        driver = make_url(self.database).set(drivername="postgresql+psycopg2")
        self._engine = create_engine(driver, pool_pre_ping=True)
        try:
            self.start(*self.parts)
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    # --- processes -------------------------------------------------------------------------------

    @property
    def api(self) -> str:
        """The API's address, without `/api`."""
        return f"http://127.0.0.1:{self._port}"

    @property
    def environment(self) -> dict[str, str]:
        known = {"home": self.home, "database_url": self.database, "broker_url": self.broker}
        return environment({**known, "log_level": "INFO", **self.settings})

    def start(self, *names: str) -> None:
        """Starts the named parts and waits until all of them are ready."""
        for name in names:
            self.launch(name, self._argv(name), real=self.real)
        for name in names:
            self.await_ready(name)

    def launch(self, name: str, argv: Sequence[str], *, real: bool = False, **more: str) -> Part:
        """Starts a process without waiting for it: `python -m ARGV`, executed where it is `real`,
        forked otherwise. `more` are environment variables."""
        part = self.running.get(name) or Part(name, argv, self.home / "logs" / f"{name}.log")
        part.born_at = part.log.stat().st_size if part.log.exists() else 0
        start = execute if real else fork
        part.process = start(argv, part.log, {**self.environment, **more})
        self.running[name] = part
        return part

    def _argv(self, name: str) -> Sequence[str]:
        if name in WORKERS:
            return WORKERS[name]
        if name == "sweeper":
            return ["noetl", "sweeper"]
        assert name == "api", name
        self._port = self._port or free_port()
        return ["gunicorn", *server_argv("127.0.0.1", self._port)]

    def await_ready(self, name: str, says: str = " ready.") -> None:
        part = self.running[name]

        def ready() -> bool:
            assert part.process is not None
            code = part.process.poll()
            assert code is None, f"{name} ended with {code}:\n{part.said(part.born_at)[-3000:]}"
            if name == "api":
                return is_healthy(self.api)
            return name == "sweeper" or says in part.said(part.born_at)

        until(ready, f"{name} to be ready")

    def kill(self, name: str) -> None:
        """SIGKILL to the part and everything below it."""
        part = self.running[name]
        kill_trees([part.pid])
        assert part.process is not None
        part.process.wait()

    def kill_child(self, name: str) -> None:
        """SIGKILL to one process of a prefork pool."""
        kill_all(self.pool(name)[:1])

    def kill_parent(self, name: str) -> list[psutil.Process]:
        """SIGKILL to the process that was started, and to none of those below it: which they
        are."""
        part = self.running[name]
        below = family(part.pid)[1:]
        assert part.process is not None
        part.process.kill()
        part.process.wait()
        return below

    def pool(self, name: str) -> list[psutil.Process]:
        """The processes of a prefork pool."""
        below = psutil.Process(self.running[name].pid).children()
        return [one for one in below if is_worker(one)]

    def restart(self, name: str) -> None:
        self.kill(name)
        self.start(name)

    def stop(self) -> None:
        """Kills everything that was started: nothing is asked of it any more, and what it would do
        at a SIGTERM has tests of its own."""
        alive = [
            part.process for part in self.running.values() if part.process and part.process.poll() is None
        ]
        kill_trees(process.pid for process in alive)
        for process in alive:
            process.wait()
        self.disconnect()
        if self._app is not None:
            self._app.close()
            self._app = None

    def disconnect(self) -> None:
        """Lets go of this process's own connections to the database."""
        if self._rt is not None:
            bootstrap.close(self._rt)
            self._rt = None
        if self._engine is not None:
            self._engine.dispose()

    # --- logs ------------------------------------------------------------------------------------

    def tails(self, size: int = 4000) -> Iterator[tuple[str, str]]:
        """The ends of the logs, for reports of failures; behind each where the part's threads
        are, or how it ended."""
        for part in self.running.values():
            log = part.said()[-size:]
            yield part.name, f"{log}\n{part.describe()}"

    def check_logs(self) -> None:
        """Fails where a log has a traceback that nobody expected, since the last look."""
        found = []
        for part in self.running.values():
            said = part.said(part.checked)
            part.checked += len(said.encode("utf-8", "replace"))
            found += [f"{part.name}:\n{trace}" for trace in tracebacks(said) if not self._expects(trace)]
        self.expected.clear()
        assert not found, "unexpected tracebacks:\n" + "\n\n".join(found[:5])

    def _expects(self, trace: str) -> bool:
        return any(re.search(pattern, trace) for pattern in self.expected)

    # --- executions ------------------------------------------------------------------------------

    @property
    def app(self) -> Celery:
        if self._app is None:
            self._app = make_app(self.broker, self._settings.backend)
        return self._app

    @property
    def _settings(self) -> Settings:
        known = {"NOETL_HOME": str(self.home), "NOETL_DATABASE_URL": self.database}
        return Settings.from_env({**known, "NOETL_BROKER_URL": self.broker})

    @property
    def rt(self) -> Runtime:
        """The use cases in this process, over the same database and broker."""
        if self._rt is None:
            self._rt = bootstrap.runtime(self._settings, CeleryDispatcher(self.app))
        return self._rt

    def begin(self, playbook: str, payload: Mapping[str, Any] | None = None, **more: Any) -> str:
        """Registers the playbook and starts an execution of it."""
        row = catalog.register(self.rt, playbook)
        return start(self.rt, StartRequest(row.path, row.version, dict(payload or {}), **more)).execution_id

    def row(self, execution: str) -> ExecutionRow:
        return inspect.execution(self.rt, execution)

    def wait(self, executions: Iterable[str]) -> dict[str, ExecutionRow]:
        """The rows of the executions once all have ended."""
        rows: dict[str, ExecutionRow] = {}
        wanted = list(executions)

        def has_ended(execution: str) -> bool:
            rows[execution] = self.row(execution)
            return rows[execution].status in ENDED

        for one in wanted:
            until(lambda one=one: has_ended(one), lambda: f"the executions to end:\n{self.describe(wanted)}")
        return rows

    def run(self, playbook: str, payload: Mapping[str, Any] | None = None) -> inspect.Report:
        """Runs one execution to its end and returns its report. Fails where it did not complete."""
        execution = self.begin(playbook, payload)
        self.wait([execution])
        return self.report(execution)

    def report(self, execution: str) -> inspect.Report:
        """The report of an execution that completed. Fails where it did not."""
        report = inspect.report(self.rt, execution)
        assert report.row.status == "completed", report.as_json()
        return report

    def post(self, path: str, **body: Any) -> Any:
        """What the API answers to a POST of `body` to `/api/PATH`. Fails where it refuses."""
        answer = requests.post(f"{self.api}/api/{path}", json=body, timeout=GUARD_S)
        assert answer.ok, f"{path}: {answer.text}"
        return answer.json()

    def get(self, path: str) -> Any:
        """What the API answers to a GET of `/api/PATH`. Fails where it refuses."""
        answer = requests.get(f"{self.api}/api/{path}", timeout=GUARD_S)
        assert answer.ok, f"{path}: {answer.text}"
        return answer.json()

    def ended_iterations(self, execution: str) -> int:
        """How many iterations have ended so far."""
        statement = "SELECT count(*) FROM event WHERE execution_id = :id AND type = 'loop.iteration.done'"
        return int(self.sql(statement, id=int(execution))[0][0])

    def describe(self, executions: Iterable[str]) -> str:
        """What still stands open of the executions that have not ended."""
        lines = []
        for one in executions:
            row = self.row(one)
            if row.status in ENDED:
                continue
            lines.append(
                f"{one}: {row.status} {row.halt} decided {row.decided_version} of {row.head_version}"
            )
            commands = self.sql(
                "SELECT command_id, state, attempt, owner, sent_at, lease_until FROM command"
                " WHERE execution_id = :id AND state <> 'closed'",
                id=int(one),
            )
            lines += [f"    {tuple(map(str, command))}" for command in commands]
        return "\n".join(lines)

    # --- the database ----------------------------------------------------------------------------

    def sql(self, statement: str, **parameters: Any) -> Sequence[Row[Any]]:
        assert self._engine is not None
        with self._engine.connect() as connection:
            return connection.execute(text(statement), parameters).all()

    def change(self, statement: str, **parameters: Any) -> int:
        assert self._engine is not None
        with self._engine.begin() as connection:
            return connection.execute(text(statement), parameters).rowcount

    def check_log_of(self, execution: str) -> None:
        """No version gap; each step run has one end; each iteration that began has one end."""
        number = int(execution)
        first, last, count = self.sql(
            "SELECT min(version), max(version), count(*) FROM event WHERE execution_id = :id", id=number
        )[0]
        assert (first, last) == (1, count), f"{execution}: versions {first} to {last}, {count} events"
        assert self.row(execution).head_version == count
        assert self._ends(number, "step.scheduled", "step.done", "step.failed", "step.cancelled") == set()
        assert self._ends(number, None, "loop.iteration.done", "loop.iteration.failed") == set()

    def _ends(self, number: int, begin: str | None, *ends: str) -> set[tuple[Any, ...]]:
        """What ended more than once, or not although `begin` says that it began."""
        rows = self.sql(
            "SELECT step_run_id, iteration, count(*) FROM event"
            " WHERE execution_id = :id AND type = ANY(:types) GROUP BY 1, 2",
            id=number,
            types=list(ends),
        )
        wrong = {tuple(row) for row in rows if row[2] != 1}
        if begin is None:
            return wrong
        begun = self.sql(
            "SELECT step_run_id FROM event WHERE execution_id = :id AND type = :type", id=number, type=begin
        )
        return wrong | {tuple(row) for row in begun if row[0] not in {one[0] for one in rows}}

    def check_nothing_was_sent_twice(self) -> None:
        """What holds without faults: every command was claimed once, and no sweeper sent one
        again."""
        again = self.sql("SELECT command_id, attempt FROM command WHERE attempt > 1")
        assert again == [], f"commands with more than one delivery: {again[:5]}"
        for part in self.running.values():
            assert "sent again" not in part.said(), f"{part.name} sent commands again"


def is_healthy(url: str) -> bool:
    """Whether the server at that address, without `/api`, answers."""
    with contextlib.suppress(requests.RequestException):
        return requests.get(f"{url}/api/health", timeout=GUARD_S).ok
    return False


def tracebacks(said: str) -> list[str]:
    """The tracebacks in a log: each with the line before it and its last line."""
    lines = said.splitlines()
    found = []
    for number, line in enumerate(lines):
        if line.lstrip().startswith("Traceback (most recent call last)"):
            rest = lines[number + 1 :]
            length = next((i for i, one in enumerate(rest) if one and not one[0].isspace()), len(rest))
            found.append("\n".join(lines[max(0, number - 1) : number + length + 2]))
    return found
