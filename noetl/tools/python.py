"""kind: python - runs code in a child process; its result is `result`, `main(...)` or `return`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from pydantic import Field

from noetl.facts.json import Json
from noetl.facts.outcome import Outcome, succeeded
from noetl.pipeline.model import Call
from noetl.tools import user_code
from noetl.tools.base import Services, Tool, ToolConfig
from noetl.tools.runner.requests import PythonRequest

_NAMES_CONTEXT = re.compile(r"\bcontext\b")


class PythonConfig(ToolConfig):
    """Configuration of a python task."""

    code: str = Field(
        description="Python source. The task's inputs are globals (all of them also `input_data` and `args`);"
        " the result is the value of `result`, of `main(...)`, or of a top-level `return`."
    )
    libs: dict[str, str] | list[str] | None = Field(
        default=None, description="Modules to import before the code runs: names, or alias: module."
    )


class Python(Tool):
    kind = "python"
    queue = "python"
    effects = "external"
    error_kind = "python"
    description = "Runs Python code in a process of its own, with a deadline and a memory limit."
    config_model = PythonConfig
    required = (("code",),)
    verbatim = ("code",)
    python_keys = ("code",)

    def __init__(self, services: Services) -> None:
        super().__init__(services)
        self._runner = user_code.open_runner(services)

    def run(self, call: Call, config: PythonConfig) -> Outcome:
        request = PythonRequest(
            code=config.code,
            inputs=call.args,
            context=_context(call, config.code),
            libs=config.libs or (),
            owner=call.where.owner,
            limits=user_code.limits(self.services, call.spec),
        )
        reply = user_code.ask(self._runner, request, self.deadline(call), token=call)
        if reply.status == "ok":
            return succeeded(reply.value, user_code.printed(reply))
        outcome = user_code.failure(reply, "python", "The code")
        raised = {key: reply.error[key] for key in ("type", "message", "traceback") if key in reply.error}
        return replace(outcome, extras={"py": raised}) if raised else outcome

    def interrupt(self, call: Call) -> None:
        self._runner.interrupt(call)

    def close(self) -> None:
        self._runner.close()


def _context(call: Call, code: str) -> Mapping[str, Json] | None:
    """The whole template context, only where the code names it: it may be large."""
    if not _NAMES_CONTEXT.search(code):
        return None
    return dict(call.args) if call.context is None else call.context()
