"""kind: python - runs code in a child process; its result is `result`, `main(...)` or `return`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Final, TypeAlias

from pydantic import Field, JsonValue, WithJsonSchema, model_validator

from noetl.facts.json import Json
from noetl.facts.outcome import Outcome, failed, succeeded
from noetl.pipeline.failures import CannotGoOn
from noetl.pipeline.model import Call
from noetl.tools.code import user_code
from noetl.tools.code.runner.requests import CODE, Frames, PythonRequest, RunnerReply
from noetl.tools.code.tables import ResultTables, inputs
from noetl.tools.kit import effects
from noetl.tools.kit.base import Services, Tool
from noetl.tools.kit.declaration import ToolConfig, ToolDeclaration
from noetl.tools.kit.large import retention_of
from noetl.tools.kit.scripts import Script, Scripts, ScriptText

#: As authors write it, for their editors: compiled playbooks have texts alone.
_TAKEN_APART: Final[dict[str, JsonValue]] = {
    "type": "object",
    "properties": {"from": {"type": "string"}, "import": {"type": "string"}},
    "additionalProperties": False,
}
Lib: TypeAlias = Annotated[str, WithJsonSchema({"anyOf": [{"type": "string"}, _TAKEN_APART]})]


class PythonConfig(ToolConfig):
    """Configuration of a python task: `code`, or a `script` from elsewhere."""

    code: str | None = Field(
        default=None,
        description="Python source.",
    )
    script: Script | str | None = Field(
        default=None,
        description="In the place of `code`: a file, a `noetl://` reference to a"
        " text, or `{file | ref | url, sha256}`. A script from a url runs only if its sha256 is "
        "given and right.",
    )
    libs: dict[str, Lib] | list[str] | None = Field(
        default=None,
        description="Modules to import before the code runs: names (`pandas as pd` too) or installed "
        "distributions"
        " (`python-dateutil`), or a mapping from alias to a module or something in one (`os.path.join`, or"
        " `{from: os.path, import: join}`).",
    )
    env: dict[str, user_code.EnvValue] = Field(
        default_factory=dict,
        description="Environment variables of the code, beside PATH, HOME, locale, time zone and "
        "certificates.",
    )
    frames: Frames | None = Field(
        default=None,
        description="Inputs that are tables (lists of mappings) come as frames of this library; those that "
        "are"
        " kept by reference are read from their file.",
    )

    @model_validator(mode="after")
    def _one_of(self) -> PythonConfig:
        if self.code is not None and self.script is not None:
            raise ValueError("only one of code and script may be given")
        return self


class Python(Tool):
    """Runs code in a separate process, with a deadline and a memory limit (`spec.memory_mb`).

    `code` is handed over as written unless `spec.render: true`. A template outside of string
    literals and comments, where python could have none, has the code rendered, with a warning;
    `spec.render: false` turns that off. Each input is a global of it; all of them are `input_data`
    and `args` too. Code that names `context` gets a mapping of everything that a template would
    see.

    The code starts in the playbook's directory; `$SCRATCH` and `$TMPDIR` are a directory of the
    call. The child has a few variables of the worker's environment (`PATH`, `HOME`, locale, time
    zone, certificates), those of `NOETL_PYTHON_ENV_ALLOW` and of `env`, and none of NoETL's.
    `spec.isolation: sandbox` runs it without network and without the files of the machine. Code
    that is cancelled ends at once, unless it handles SIGTERM: then it is killed 5 seconds later.

    **Scripts.** `script` is a file by [the rule for files](../operations.md#files), looked for in
    the playbook's directory, then in that of the command, then below `NOETL_FILE_ROOTS`; a
    reference to a result that is a text (`noetl://...`), or a mapping of one of `file` (`path`),
    `ref` (`{{ step }}` too) and `url` (`uri`), with `sha256`. `{uri: ..., source: {type: file |
    http | ref}}` is the same, and `source: {type: inline, code: ...}` is `code`. A `url` is fetched
    by the rules of http tasks, at most 1 MiB of it, and runs only if its hash is the given one; a
    worker fetches it once. `noetl validate` reads the files. A script knows its `__file__`; it sees
    its inputs, not `context`, and modules beside it are not imported.

    **Frames.** A frame of pandas, polars or Arrow (`Table`, `RecordBatch`), anywhere in a result,
    is a table: up to `NOETL_INLINE_BYTES` of JSON it is a list of mappings, above that a reference
    to a Parquet file, which never passes through the worker's memory. Values are those that SQL
    tools yield; a column of durations is whole numbers. An index of pandas is kept where it has a
    name. With `frames`, each input that is a list of mappings comes as a frame, whether small or
    kept by reference; an empty list as an empty frame. pyarrow is there; pandas comes
    with Cirq, and polars where you install it.

    **Numbers.** An exact number of a database (`numeric`, DECIMAL) with digits behind the point is
    a `Decimal`, one without is an `int`, and a `Decimal` in a result keeps its digits. `Decimal`
    and float do not mix: `price * Decimal("1.2")`, or `float(price) * 1.2`.

    **Circuits.** A circuit of Cirq, or another value that Cirq writes as JSON, anywhere in a
    result, is that JSON as a text; `ref` of a quantum task takes it: `result = cirq.Circuit(...)`
    here, `ref: "{{ step }}"` there."""

    declaration = ToolDeclaration(
        kind="python",
        queue="python",
        sections=("py",),
        effects="external",
        error_kind="python",
        description="Runs Python code in a separate process, with a deadline and a memory limit.",
        result="""
            The value of a top-level `return`; else the global `result`; else what `main` returns. `main` is
            called with those inputs that it names, or with all of them where it takes `**kwargs`; it may be
            `async`. A dict with `status: error` is data like any other. What is printed stands in
            `meta.stdout` and `meta.stderr`, the first 64 KiB of each.
        """,
        errors="""
            An exception is an error of kind `python` with its type, message, traceback, and the line in the
            playbook; `outcome.py` holds its `{type, message, traceback}`. Of a script the message names file
            and line, and `outcome.py` has `script` and `line`. A result that is no JSON is one too, and names
            the value; so is a process that ends without a result, `retryable` where it was killed from
            outside, as when the machine's memory runs out. A library of `libs` that is not installed fails
            the task, and says what to install.
        """,
        example="""
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
        """,
        config_model=PythonConfig,
        required=(("code", "script"),),
        verbatim=("code",),
        python_keys=("code",),
        names_result=True,
        source_files=("script",),
        by_reference=("*", "script"),
    )

    def __init__(self, services: Services) -> None:
        super().__init__(services)
        self._runners = user_code.Runners(services)
        self._scripts = Scripts(services)

    def run(self, call: Call, config: PythonConfig) -> Outcome:
        services, inline = self.services, call.result.inline_bytes
        files, source = services.files_of(call), ScriptText(config.code or "", CODE)
        if config.script is not None:
            source = self._scripts.source(config.script, files, self.deadline(call))
        # Scripts have their inputs alone: what a playbook's tasks need of the context is found
        # before any is read.
        context = user_code.context(call, source.text) if source.name == CODE else None
        tables = ResultTables(
            services.results,
            services.inline_bytes if inline is None else inline,
            retention_of(call, services),
        )
        try:
            with inputs(call.args, services, config.frames) as (values, input_files):
                request = PythonRequest(
                    code=source.text,
                    inputs=values,
                    context=context,
                    libs=config.libs or (),
                    owner=call.where.owner,
                    limits=user_code.limits(services, call.spec),
                    env=user_code.environment(config.env),
                    files=input_files,
                    frames=config.frames,
                    keep=tables,
                    name=source.name,
                    file=source.file,
                    cwd=None if files.start is None else str(files.start),
                )
                reply = user_code.ask_python(self._runners, services, call, request, self.deadline(call))
        except CannotGoOn as fault:
            return failed(fault.error)
        return _outcome(reply, source)

    @classmethod
    def touches(cls, config: Mapping[str, Json]) -> tuple[str, ...]:
        script = config.get("script")
        if isinstance(script, Mapping):
            script = effects.first(script, "file", "path", "url", "uri", "ref")
        return ("code",) if script is None else (f"code of {effects.address(script)}",)

    def interrupt(self, call: Call) -> None:
        self._runners.interrupt(call)

    def close(self) -> None:
        self._runners.close()
        self._scripts.close()


def _outcome(reply: RunnerReply, source: ScriptText) -> Outcome:
    if reply.status == "ok":
        return succeeded(reply.value, user_code.printed_text(reply))
    error = user_code.error(reply, "python", "The code")
    raised = {key: reply.error[key] for key in ("type", "message", "traceback") if key in reply.error}
    if source.name != CODE:
        # The script's line goes into the message: that of the error is one of the playbook.
        raised |= {"script": source.name, "line": reply.error.get("line")}
        place = source.name if error.line is None else f"{source.name}:{error.line}"
        error = replace(error, message=f"{place}: {error.message}", line=None)
    return failed(error, user_code.printed_text(reply), **({"py": raised} if reply.error else {}))
