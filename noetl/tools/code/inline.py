"""Python code in the worker's own process: for trusted notebooks and for debuggers.

What a child gives is missing: no deadline, no bound on memory, nothing between the code and the
worker's environment and secrets, and a crash of the code is one of the worker. What it prints goes
where the worker's own output goes, and to the log of its call."""

from __future__ import annotations

import json
import tempfile
import threading
from pathlib import Path
from typing import Any

from noetl.errors import ToolError
from noetl.tools.code.listening import tee
from noetl.tools.code.runner import python_code
from noetl.tools.code.runner.client import encode_request, put_tables
from noetl.tools.code.runner.exchange import Listen, ignore_output
from noetl.tools.code.runner.requests import PrintedText, PythonRequest, RunnerReply

#: The code is registered as a module while it runs, and there is one such name in a process.
_one_at_a_time = threading.Lock()
_SAID_ELSEWHERE = PrintedText("", 0, False)


def run(request: PythonRequest, scratch: Path, listen: Listen = ignore_output) -> RunnerReply:
    """Runs one call in this thread. Raises ToolError where it needs a process, and what `keep`
    raises."""
    if request.env:
        raise ToolError(
            "client_error", "env needs a process of its own; leave spec.isolation: inline or env away."
        )
    # Through JSON, as in a child: the code must not get hold of what the engine holds.
    message = json.loads(encode_request(request, lambda path: path))
    # Of a process there is one such directory, which other threads start from, too.
    message["cwd"] = None
    scratch.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="noetl-inline-", dir=scratch) as folder:
        with _one_at_a_time, tee(listen):
            text, _ = python_code.run(message, folder)
        answer: dict[str, Any] = json.loads(b"{%s}" % text)
        value = answer.get("value")
        if request.keep is not None and (written := answer.get("tables")):
            files = [Path(folder, f"{number}.parquet") for number in range(len(written["sizes"]))]
            value = put_tables(value, written, files, request.keep)
    error = answer.get("error")
    return RunnerReply("error" if error else "ok", _SAID_ELSEWHERE, _SAID_ELSEWHERE, value, error or {})
