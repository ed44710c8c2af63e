"""kind: noop - yields its input or its `result`, for steps that only route or assign."""

from __future__ import annotations

from pydantic import Field

from noetl.facts.json import Json
from noetl.facts.outcome import Outcome, succeeded
from noetl.pipeline.model import Call
from noetl.tools.kit.base import Tool, ToolConfig


class NoopConfig(ToolConfig):
    """What a noop yields instead of its input."""

    result: Json = Field(default=None, description="What it yields; its input unless given.")


class Noop(Tool):
    """Yields its inputs, those of the step included: for steps that only assign or route."""

    kind = "noop"
    #: It does next to nothing, and every deployment serves this queue.
    queue = "python"
    sections = ()
    effects = "none"
    hands_on = True
    description = "Does nothing and yields its input, or its `result`."
    result = "The inputs, as a mapping; or what `result` is, where it is given."
    example = """
        - step: greet
          tool: {kind: noop, input: {text: "Hello, {{ workload.name }}!"}}
          set: {ctx.greeting: "{{ result.text }}"}
    """
    config_model = NoopConfig

    def run(self, call: Call, config: NoopConfig) -> Outcome:
        return succeeded(config.result if "result" in config.model_fields_set else dict(call.args))
