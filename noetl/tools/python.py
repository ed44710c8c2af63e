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

    code: str = Field(description="Python source.")
    libs: dict[str, str] | list[str] | None = Field(
        default=None,
        description="Modules to import before the code runs: their names, or a mapping from alias to module.",
    )


class Python(Tool):
    """Runs code in a process of its own, with a deadline and a memory limit (`spec.memory_mb`).

    `code` is handed over as written unless `spec.render: true`. Each input is a global of it; all of them are `input_data`
    and `args` too. Code that names `context` gets a mapping of everything that a template would see.

    The child has a few variables of the worker's environment (`PATH`, `HOME`, locale, time zone, certificates) and none
    of NoETL's.
    """

    kind = "python"
    queue = "python"
    effects = "external"
    error_kind = "python"
    description = "Runs Python code in a process of its own, with a deadline and a memory limit."
    result = """
        The value of a top-level `return`; else the global `result`; else what `main` returns. `main` is called with those
        inputs that it names, or with all of them where it takes `**kwargs`; it may be `async`. A dict with `status: error`
        is data like any other. What is printed stands in `meta.stdout` and `meta.stderr`, the first 64 KiB of each.
    """
    errors = """
        An exception is an error of kind `python` with its type, message, traceback, and the line in the playbook;
        `outcome.py` holds its `{type, message, traceback}`. A result that is no JSON is one too, and names the value.
    """
    example = """
        - step: fib
          tool:
            kind: python
            input: {n: 10}
            code: |
              def fib(n):
                  return n if n < 2 else fib(n - 1) + fib(n - 2)

              result = {"value": fib(n)}
          next: end
        - step: end
          tool: {kind: noop, input: {value: "{{ fib.value }}"}}
    """
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
