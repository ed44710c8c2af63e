"""DBOS as a second yardstick for W1p: `--dbos PYTHON`, an interpreter of an environment that has
it.

    python -m venv /tmp/dbos && /tmp/dbos/bin/pip install dbos
    python -m benchmarks.run W1p --dbos /tmp/dbos/bin/python

It runs workflows in its caller's process, so a child process of that Python does it and is told
when.
"""

from __future__ import annotations

import subprocess
from pathlib import Path
from types import TracebackType
from typing import IO

from sqlalchemy import make_url

from benchmarks.servers import Servers
from benchmarks.sizes import FIB, STEPS

PROGRAM = Path(__file__).with_name("dbos_program.py")


class Dbos:
    """A process that runs the 40 steps once for each line that it reads."""

    def __init__(self, python: str, servers: Servers, home: Path) -> None:
        url = make_url(servers.database_url).set(drivername="postgresql", database="noetl_bench_dbos")
        self._argv = [
            python,
            "-I",
            str(PROGRAM),
            url.render_as_string(hide_password=False),
            str(STEPS),
            str(FIB),
        ]
        self._log = home / "dbos.log"

    def __enter__(self) -> Dbos:
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                self._argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True
            )
        self._ask()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._pipe(self._process.stdin).close()
        self._process.wait(20)

    def w1(self) -> list[float]:
        """Seconds of one workflow of 40 steps."""
        return [self._ask()]

    def _ask(self) -> float:
        request = self._pipe(self._process.stdin)
        request.write("run\n")
        request.flush()
        answer = self._pipe(self._process.stdout).readline()
        if not answer:
            raise RuntimeError(f"DBOS ended: {self._log.read_text()[-2000:]}")
        return float(answer)

    @staticmethod
    def _pipe(pipe: IO[str] | None) -> IO[str]:
        assert pipe is not None
        return pipe
