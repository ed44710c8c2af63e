"""What python and shell tasks share: limits from `spec`, and replies of the runner as outcomes."""

from __future__ import annotations

from noetl.errors import ToolError
from noetl.facts.json import Json, JsonMap
from noetl.facts.outcome import ErrorInfo, Outcome, failed
from noetl.tools.base import Services
from noetl.tools.runner.client import Request, Runner, RunnerSettings, shared_runner
from noetl.tools.runner.control import RunnerGone
from noetl.tools.runner.requests import Limits, RunnerReply
from noetl.tools.runner.sandbox import NoSandbox


def open_runner(services: Services) -> Runner:
    """The process's runner; the tool that opened it closes it."""
    if services.python_isolation == "process":
        return shared_runner(RunnerSettings(services.scratch))
    readable = () if services.base_dir is None else (services.base_dir,)
    return shared_runner(RunnerSettings(services.scratch, sandbox=True, readable=readable))


def limits(services: Services, spec: JsonMap, output: int | None = None) -> Limits:
    """The bounds of a call. `spec.memory_mb` overrides the setting. Raises ToolError."""
    memory = spec.get("memory_mb", services.memory_mb)
    if isinstance(memory, bool) or not isinstance(memory, int | float) or not 16 <= memory <= 1 << 20:
        raise ToolError(
            "client_error", f"spec.memory_mb must be a number from 16 to 1048576, not {memory!r}."
        )
    return Limits(
        memory_mb=int(memory),
        file_mb=services.file_mb,
        output=services.output_limit if output is None else output,
        result=services.result_limit,
    )


def ask(runner: Runner, request: Request, deadline_s: float, token: object = None) -> RunnerReply:
    """Runs the call; `token` is what it can be interrupted by. Raises ToolError where there is no process to run it in."""
    try:
        return runner.call(request, deadline_s, token)
    except NoSandbox:
        message = "User code is to run in a sandbox, and bubblewrap (bwrap) is not on PATH; install it."
        raise ToolError("internal", message) from None
    except (RunnerGone, OSError) as error:
        message = f"No process could be started for user code: {str(error) or 'the runner ended'}."
        raise ToolError("internal", message, retryable=True, type=type(error).__name__) from error


def printed(reply: RunnerReply) -> dict[str, Json]:
    """`stdout` and `stderr` for the outcome's meta, with `truncated` where some of it was dropped."""
    meta: dict[str, Json] = {}
    for name, kept in (("stdout", reply.stdout), ("stderr", reply.stderr)):
        if kept.size:
            meta[name] = kept.text
        if kept.truncated:
            meta["truncated"] = True
            meta[f"{name}_bytes"] = kept.size
    return meta


def failure(reply: RunnerReply, kind: str, what: str) -> Outcome:
    """The outcome of a reply that is not ok. `what` is how messages call the thing that ran."""
    return failed(_error(reply, kind, what), printed(reply))


def _error(reply: RunnerReply, kind: str, what: str) -> ErrorInfo:
    match reply.status:
        case "timeout":
            message = f"{what} was ended at its deadline: {reply.reason} (spec.timeout)."
            return ErrorInfo("timeout", message, type="DeadlineExceeded", retryable=True)
        case "limit":
            return ErrorInfo("limit", f"{what} was ended: {reply.reason}.", type="LimitExceeded")
        case "died":
            return ErrorInfo(kind, f"{what} gave no result: {reply.reason}.", type="NoResult")
    error = reply.error
    return ErrorInfo(
        str(error.get("kind", kind)),
        str(error.get("message", "")),
        type=str(error.get("type", "")),
        line=error.get("line"),
        traceback=error.get("traceback"),
    )
