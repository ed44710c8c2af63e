"""What python and shell tasks share: isolation, limits from `spec`, and replies of the runner as
outcomes."""

from __future__ import annotations

import re
import signal
import threading
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, TypeAlias

from noetl.errors import ToolError
from noetl.facts import json
from noetl.facts.json import Json, JsonMap
from noetl.facts.nearest import nearest
from noetl.facts.outcome import ErrorInfo, Outcome, failed
from noetl.pipeline.model import Call
from noetl.scratch import held_folder
from noetl.tools.code.listening import listener, tee
from noetl.tools.code.runner import python_code
from noetl.tools.code.runner.client import Request, Runner, encode_request, put_tables, shared_runner
from noetl.tools.code.runner.control import RunnerGone, RunnerSettings
from noetl.tools.code.runner.exchange import Listen
from noetl.tools.code.runner.requests import CodeLimits, PrintedText, PythonRequest, RunnerReply
from noetl.tools.code.runner.sandbox import NoSandbox
from noetl.tools.kit.base import Services
from noetl.tools.kit.call_secrets import current_mask
from noetl.tools.kit.files import FilePolicy

#: From the laxest to the strictest.
Isolation: TypeAlias = Literal["inline", "process", "sandbox"]
_ISOLATIONS: tuple[Isolation, ...] = ("inline", "process", "sandbox")
#: Environment variables: what a playbook may write as the value of one.
EnvValue: TypeAlias = str | int | float | bool
#: The code is registered as a module while it runs, and there is one such name in a process.
_one_at_a_time = threading.Lock()
_SAID_ELSEWHERE = PrintedText("", 0, False)
_NAMES_CONTEXT = re.compile(r"\bcontext\b")


class Runners:
    """The runners of one tool, one for each isolation; each starts its process with its first
    call."""

    def __init__(self, services: Services) -> None:
        self._plain = RunnerSettings(
            services.scratch, inherited=services.python_env, grace_s=services.stop_grace_s
        )
        self._hidden = services.private
        self._lock = threading.Lock()
        self._runners: dict[RunnerSettings, Runner] = {}

    def of(self, isolation: Literal["process", "sandbox"], policy: FilePolicy) -> Runner:
        """That of the process, shared with other tools. A sandbox shows the directory that the code
        starts in."""
        settings = self._plain
        if isolation == "sandbox":
            readable = () if policy.start is None else (policy.start,)
            settings = replace(settings, sandbox=True, readable=readable, hidden=self._hidden)
        with self._lock:
            if settings not in self._runners:
                self._runners[settings] = shared_runner(settings)
            return self._runners[settings]

    def interrupt(self, token: object) -> None:
        """Ends the call of `token`, wherever it runs (see `Runner.interrupt`)."""
        for runner in list(self._runners.values()):
            runner.interrupt(token)

    def close(self) -> None:
        """Lets go of all of them."""
        with self._lock:
            runners, self._runners = list(self._runners.values()), {}
        for runner in runners:
            runner.close()


def isolation(services: Services, spec: JsonMap) -> Isolation:
    """Where a call runs: `spec.isolation` may ask for more than the setting, never for less. Raises
    ToolError."""
    least = services.python_isolation
    asked = spec.get("isolation", least)
    if asked not in _ISOLATIONS:
        near = nearest(str(asked), _ISOLATIONS)
        meant = f"; did you mean {near}?" if near else "."
        raise ToolError(
            "client_error", f"spec.isolation is {asked!r}, and not one of {', '.join(_ISOLATIONS)}{meant}"
        )
    if asked == "inline" and services.python_inline and least == "process":
        return "inline"
    if _ISOLATIONS.index(asked) < _ISOLATIONS.index(least):
        allowed = (
            "set NOETL_PYTHON_INLINE=1 where only trusted playbooks run"
            if asked == "inline" and least == "process"
            else f"this worker runs user code in a {least} (NOETL_PYTHON_ISOLATION)"
        )
        raise ToolError("client_error", f"spec.isolation: {asked} is not allowed here: {allowed}.")
    chosen: Isolation = asked
    return chosen


def environment(env: Mapping[str, EnvValue]) -> dict[str, str]:
    """The variables of a call as text (booleans in lower case). Raises ToolError for what cannot be
    one."""
    variables = {
        name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in env.items()
    }
    for name, value in variables.items():
        if not name or "=" in name or "\0" in name + value:
            raise ToolError(
                "client_error",
                f"env cannot have {name!r}: names are not empty, without = and NUL, values without NUL.",
            )
    return variables


def limits(services: Services, spec: JsonMap, output: int | None = None) -> CodeLimits:
    """The bounds of a call. `spec.memory_mb` overrides the setting. Raises ToolError."""
    memory = spec.get("memory_mb", services.memory_mb)
    if isinstance(memory, bool) or not isinstance(memory, int | float) or not 16 <= memory <= 1 << 20:
        raise ToolError(
            "client_error", f"spec.memory_mb must be a number from 16 to 1048576, not {memory!r}."
        )
    return CodeLimits(
        memory_mb=int(memory),
        file_mb=services.file_mb,
        output=services.output_limit if output is None else output,
        result=services.result_limit,
    )


def ask(runner: Runner, request: Request, deadline_s: float, token: Call | None = None) -> RunnerReply:
    """Runs the call `token`, which it can be interrupted by; what it prints goes to its log. Raises
    ToolError where there is no process to run it in."""
    try:
        return runner.call(request, deadline_s, token, listener(token))
    except NoSandbox as error:
        message = f"User code is to run in a sandbox, and there is none: {error}."
        raise ToolError("internal", message, type="NoSandbox") from None
    except (RunnerGone, OSError) as error:
        message = f"No process could be started for user code: {str(error) or 'the runner ended'}."
        raise ToolError("internal", message, retryable=True, type=type(error).__name__) from error


def ask_python(
    runners: Runners, services: Services, call: Call, request: PythonRequest, deadline_s: float
) -> RunnerReply:
    """Runs python code of `call` where its `spec.isolation` and the settings say. Raises
    ToolError."""
    where = isolation(services, call.spec)
    if where == "inline":
        return _run_inline(request, services.scratch, listener(call))
    return ask(runners.of(where, services.files_of(call)), request, deadline_s, token=call)


def _run_inline(request: PythonRequest, scratch: Path, listen: Listen) -> RunnerReply:
    """Runs one call in this thread: for trusted notebooks and for debuggers. Raises ToolError where
    it needs a process, and what `keep` raises.

    What a child gives is missing: no deadline, no bound on memory, nothing between the code and the
    worker's environment and secrets, and a crash of the code is one of the worker. What it prints
    goes where the worker's own output goes, and to the log of its call."""
    if request.env:
        raise ToolError(
            "client_error", "env needs a separate process; leave spec.isolation: inline or env away."
        )
    # Through JSON, as in a child: the code must not get hold of what the engine holds.
    message = json.loads(encode_request(request, lambda path: path))
    # Of a process there is one such directory, which other threads start from, too.
    message["cwd"] = None
    with held_folder(scratch, "inline") as folder:
        with _one_at_a_time, tee(listen):
            text, _ = python_code.run(message, str(folder))
        answer: dict[str, Any] = json.loads(b"{%s}" % text)
        value = answer.get("value")
        if request.keep is not None and (written := answer.get("tables")):
            files = [folder / f"{number}.parquet" for number in range(len(written["sizes"]))]
            value = put_tables(value, written, files, request.keep)
    error = answer.get("error")
    return RunnerReply("error" if error else "ok", _SAID_ELSEWHERE, _SAID_ELSEWHERE, value, error or {})


def context(call: Call, code: str) -> Mapping[str, Json] | None:
    """The whole template context, only where the code names it: it may be large."""
    if not _NAMES_CONTEXT.search(code):
        return None
    return dict(call.args) if call.context is None else call.context()


def shown_text(printed: PrintedText) -> str:
    """What was printed, without the beginning of a secret where it was cut."""
    return current_mask().cut(printed.text) if printed.truncated else printed.text


def printed_text(reply: RunnerReply) -> dict[str, Json]:
    """`stdout` and `stderr` for the outcome's meta, with `truncated` where some of it was
    dropped."""
    meta: dict[str, Json] = {}
    for name, kept in (("stdout", reply.stdout), ("stderr", reply.stderr)):
        if kept.size:
            meta[name] = shown_text(kept)
        if kept.truncated:
            meta["truncated"] = True
            meta[f"{name}_bytes"] = kept.size
    return meta


def failure(reply: RunnerReply, kind: str, what: str) -> Outcome:
    """The outcome of a reply that is not ok. `what` is how messages call the thing that ran."""
    return failed(error(reply, kind, what), printed_text(reply))


def error(reply: RunnerReply, kind: str, what: str) -> ErrorInfo:
    """What a reply that is not ok says. `what` is how messages call the thing that ran."""
    match reply.status:
        case "timeout":
            message = f"{what} was ended at its deadline: {reply.reason} (spec.timeout)."
            return ErrorInfo("timeout", message, type="DeadlineExceeded", retryable=True)
        case "limit":
            return ErrorInfo("limit", f"{what} was ended: {reply.reason}.", type="LimitExceeded")
        case "died":
            # Killed from outside, mostly because the machine's memory ran out, another attempt may
            # help. One that ends itself or crashes does so again.
            killed, message = signal.SIGKILL.name in reply.reason, f"{what} gave no result: {reply.reason}."
            return ErrorInfo(kind, message, type="NoResult", retryable=killed)
    raised = reply.error
    return ErrorInfo(
        str(raised.get("kind", kind)),
        str(raised.get("message", "")),
        type=str(raised.get("type", "")),
        line=raised.get("line"),
        traceback=raised.get("traceback"),
    )
