"""kind: noop - yields its input, for steps that only route or assign."""

from __future__ import annotations

from noetl.facts.outcome import Outcome, succeeded
from noetl.pipeline.model import Call
from noetl.tools.base import Tool, ToolConfig


class NoopConfig(ToolConfig):
    """A noop has no configuration."""


class Noop(Tool):
    """Yields its inputs, those of the step included: for steps that only assign or route."""

    kind = "noop"
    #: It does next to nothing, and every deployment serves this queue.
    queue = "python"
    effects = "none"
    hands_on = True
    description = "Does nothing and yields its input."
    result = "The inputs, as a mapping."
    example = """
        - step: greet
          tool: {kind: noop, input: {text: "Hello, {{ workload.name }}!"}}
          set: {ctx.greeting: "{{ result.text }}"}
    """
    config_model = NoopConfig

    def run(self, call: Call, config: NoopConfig) -> Outcome:  # noqa: ARG002 - there is nothing in it
        return succeeded(dict(call.args))
