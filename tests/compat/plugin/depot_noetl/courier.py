"""kind: courier - hands on what it is given, sealed as it is."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from noetl.facts.outcome import Outcome, succeeded
from noetl.pipeline.model import Call
from noetl.tools.base import Tool, ToolConfig


class CourierConfig(ToolConfig):
    """Configuration of a courier task."""

    parcel: Any = Field(description="What is handed on.")


class Courier(Tool):
    """Hands on a parcel without looking into it."""

    kind = "courier"
    queue = "depot"
    effects = "none"
    description = "Hands on a parcel."
    config_model = CourierConfig
    hands_on = True

    def run(self, call: Call, config: CourierConfig) -> Outcome:
        return succeeded(config.parcel)
