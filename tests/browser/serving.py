"""A server as `noetl server` becomes it, on SQLite and without a broker, for pages that are looked
at.

    with Site(home) as site:
        execution = site.run(PLAYBOOK)
        requests.get(f"{site.url}/executions/{execution}")

Playbooks are run in this process, as `noetl run` does, on the same database.
"""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from noetl import bootstrap
from noetl.cli.services import server_argv
from noetl.config import Settings
from noetl.usecases import catalog, inspect
from noetl.usecases.ports import ENDED
from noetl.usecases.runtime import Runtime
from noetl.usecases.start import StartRequest, start
from tests.acceptance.stack import environment, fork, is_healthy, kill_trees, tracebacks
from tests.ports import free_port
from tests.waiting import until


class Site:
    """The server, and the executions that its pages show."""

    rt: Runtime

    def __init__(self, home: Path) -> None:
        self._home = home
        self._log = home / "server.log"
        self._open = contextlib.ExitStack()
        self._port = free_port()

    @property
    def url(self) -> str:
        """Its address, without a slash at the end."""
        return f"http://127.0.0.1:{self._port}"

    def __enter__(self) -> Site:
        with contextlib.ExitStack() as opening:
            # The database is made by one of them.
            settings = Settings.from_env({"NOETL_HOME": str(self._home)})
            self.rt = opening.enter_context(bootstrap.local(settings))
            process = opening.enter_context(self._serving())

            def answers() -> bool:
                assert process.poll() is None, f"the server ended with {process.poll()}:\n{self.said()}"
                return is_healthy(self.url)

            until(answers, "the server to answer")
            self._open = opening.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    @contextlib.contextmanager
    def _serving(self) -> Iterator[subprocess.Popen[bytes]]:
        known = environment({"home": self._home, "host": "127.0.0.1", "port": self._port})
        process = fork(["gunicorn", *server_argv("127.0.0.1", self._port)], self._log, known)
        try:
            yield process
        finally:
            # In good order it would wait for the streams of pages that are gone.
            kill_trees([process.pid])
            process.wait()

    def run(self, playbook: str, payload: Mapping[str, Any] | None = None, **more: Any) -> str:
        """Runs an execution to its end, whatever that is, and returns its identifier."""
        row = catalog.register(self.rt, playbook)
        begun = start(self.rt, StartRequest(row.path, row.version, dict(payload or {}), **more)).execution_id
        until(lambda: inspect.execution(self.rt, begun).status in ENDED, f"the end of {row.path}")
        return begun

    def said(self) -> str:
        """What the server has written."""
        return self._log.read_text(encoding="utf-8", errors="replace")

    def check_log(self) -> None:
        """Fails where the server has written a traceback."""
        found = tracebacks(self.said())
        assert not found, "unexpected tracebacks:\n" + "\n\n".join(found[:5])
