"""kind: press - shows what a press is given: what is rendered, what is not, and what is quoted."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field, field_validator

from noetl.facts.outcome import Outcome, succeeded
from noetl.pipeline.model import Call
from noetl.tools.base import Tool, ToolConfig


class PressConfig(ToolConfig):
    """Configuration of a press task."""

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)

    pattern: str | None = Field(default=None, description="Printed as it is written.")
    statement: str | None = Field(default=None, description="As it is written, where it has `params`.")
    params: dict[str, Any] | None = Field(default=None, description="Values of the statement.")
    command: str | list[str] | None = Field(default=None, description="A line for a shell.")
    code: str | None = Field(default=None, description="Python, as it is written.")
    script: str | None = Field(default=None, description="A file of python.")
    rows: Any = Field(default=None, description="Rows, or the reference to them.")
    shown_as: str | None = Field(default=None, alias="as", description="How it is shown.")
    odd: bool = Field(default=False, description="Yield something that is not JSON.")


class Written(BaseModel):
    """What can be told of a statement as it is written."""

    statement: Any = None

    @field_validator("statement")
    @classmethod
    def _says_something(cls, statement: Any) -> Any:
        if isinstance(statement, str) and "nothing" in statement:
            raise ValueError("a press cannot print nothing")
        return statement


class Press(Tool):
    """Prints what it is given.

    Nothing is rendered in a `pattern`, nor in a `statement` with `params`.
    """

    kind = "press"
    queue = "depot"
    effects = "internal"
    error_kind = "client_error"
    description = "Prints what it is given."
    result = "What it was given, by key."
    errors = "None."
    example = """
        - step: print
          tool: {kind: press, pattern: "{{ as it is }}"}
    """
    config_model = PressConfig
    written_model = Written
    required = (("pattern", "statement", "command", "code", "script", "rows", "odd"),)
    verbatim = ("pattern", "code")
    verbatim_with_params = ("statement",)
    quoted = ("command",)
    python_keys = ("code",)
    source_files = ("script",)
    by_reference = ("rows",)
    sections = ()

    def run(self, call: Call, config: PressConfig) -> Outcome:
        if config.odd:
            return succeeded({"odd": object()})
        given = config.model_dump(exclude_none=True, exclude={"odd"}, by_alias=True)
        if isinstance(config.rows, dict):
            given["rows"] = str(config.rows["kind"])
        context = call.context
        if config.code is not None and context is not None:
            given["names"] = sorted(set(context()) & {"workload", "ctx"})
        return succeeded(given)
