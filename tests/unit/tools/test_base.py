"""What a tool says of itself."""

from __future__ import annotations

import pytest
from pydantic import Field

from noetl.errors import ToolError
from noetl.facts.outcome import Outcome, succeeded
from noetl.pipeline.model import Call, Where
from noetl.tools.kit.base import Services, Tool, ToolConfig


class EchoConfig(ToolConfig):
    text: str = Field(description="What is said.")


class Echo(Tool):
    kind = "echo"
    queue = "voices"
    effects = "none"
    description = "Says it."
    config_model = EchoConfig
    required = (("text",),)
    verbatim = ("text",)
    defaults = {"timeout": 5}  # noqa: RUF012 - declared as ClassVar in Tool

    def run(self, call: Call, config: EchoConfig) -> Outcome:
        return succeeded(config.text)


def call(deadline_s: float | None) -> Call:
    return Call("echo", {}, {}, {}, Where("1", "r", "s"), "t", 1, "key", deadline_s)


def test_info_tells_the_compiler_what_the_class_declares() -> None:
    info = Echo.info()
    assert (info.kind, info.queue, info.effects, info.description) == ("echo", "voices", "none", "Says it.")
    assert (info.required, info.verbatim, info.python_keys) == ((("text",),), ("text",), ())
    assert info.defaults == {"timeout": 5}
    assert info.schema["properties"]["text"]["description"] == "What is said."
    assert info.schema["additionalProperties"] is False


def test_a_call_without_a_timeout_has_the_default_deadline() -> None:
    echo = Echo(Services(default_deadline_s=12))
    assert echo.deadline(call(None)) == 12
    assert echo.deadline(call(0.5)) == 0.5


def test_a_process_without_credential_store_refuses_every_name() -> None:
    with pytest.raises(ToolError, match="'pg_main' does not exist") as refused:
        Services().credential("pg_main")
    assert refused.value.kind == "auth"
