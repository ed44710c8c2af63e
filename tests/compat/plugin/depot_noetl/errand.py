"""kind: errand - runs elsewhere: a file stands for what it began there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import Field

from depot_noetl import journal
from noetl.errors import ToolError
from noetl.facts.outcome import Outcome, succeeded
from noetl.pipeline.model import Call, Later, Suspension
from noetl.tools.base import Tool, ToolConfig


class ErrandConfig(ToolConfig):
    """Configuration of an errand task."""

    folder: str = Field(description="Where errands are run.")
    rounds: int = Field(default=2, ge=0, description="How often to look before it has ended.")
    every: float = Field(default=0.02, gt=0, description="Seconds between looks.")


class Errand(Tool):
    """Begins an errand elsewhere, and looks again until it has ended. Its worker is free meanwhile."""

    kind = "errand"
    queue = "depot"
    effects = "external"
    description = "Runs an errand elsewhere."
    result = "`{rounds, name}`."
    errors = "`cancelled` where it was called off."
    example = """
        - step: errand
          tool: {kind: errand, folder: /tmp}
    """
    config_model = ErrandConfig
    required = (("folder",),)
    suspends = True
    abandons = True

    def run(self, call: Call, config: ErrandConfig) -> Outcome | Suspension:
        checkpoint: Any = call.checkpoint
        if call.abandoned:
            Path(checkpoint["file"]).unlink()
            journal.write("errand called off")
            raise ToolError("cancelled", "The errand was called off.")
        if checkpoint is None:
            file = Path(config.folder) / f"errand-{call.idempotency_key.replace('/', '-')}"
            file.touch()
            journal.write("errand begun")
            return Later(config.every, {"file": str(file), "round": 0})
        if checkpoint["round"] < config.rounds:
            return Later(seconds=config.every, checkpoint={**checkpoint, "round": checkpoint["round"] + 1})
        Path(checkpoint["file"]).unlink()
        return succeeded({"rounds": checkpoint["round"], "name": call.task})
