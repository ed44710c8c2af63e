"""kind: noop - yields its input, for steps that only route or assign."""

from __future__ import annotations

from noetl.facts.outcome import Outcome, succeeded
from noetl.pipeline.model import Call
from noetl.tools.base import Tool, ToolConfig


class NoopConfig(ToolConfig):
    """A noop has no configuration."""


class Noop(Tool):
    kind = "noop"
    #: It does next to nothing, and every deployment serves this queue.
    queue = "python"
    effects = "none"
    hands_on = True
    description = "Does nothing and yields its input."
    config_model = NoopConfig

    def run(self, call: Call, config: NoopConfig) -> Outcome:  # noqa: ARG002 - there is nothing in it
        return succeeded(dict(call.args))
