"""What inline code prints: it goes where the worker's own output goes, and to the log of its call as well."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Literal, TextIO

from noetl.tools.code.runner.exchange import Listen, ignore_output


class _Tee:
    """Stands for `sys.stdout` or `sys.stderr` while inline code runs. Other threads write as ever."""

    def __init__(self, stream: TextIO, name: Literal["stdout", "stderr"], listen: Listen) -> None:
        self._stream = stream
        self._name = name
        self._listen = listen
        self._thread = threading.get_ident()

    def write(self, text: str) -> int:
        if threading.get_ident() == self._thread:
            self._listen(self._name, text.encode("utf-8", "backslashreplace"))
        return self._stream.write(text)

    def writelines(self, lines: Any) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@contextmanager
def tee(listen: Listen) -> Iterator[None]:
    """Lets `listen` hear what this thread prints while the block runs. One block at a time in a process."""
    if listen is ignore_output:
        yield
        return
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = _Tee(before[0], "stdout", listen), _Tee(before[1], "stderr", listen)
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before
        for name in ("stdout", "stderr"):
            listen(name, None)
