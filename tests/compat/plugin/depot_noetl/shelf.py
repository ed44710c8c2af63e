"""kind: shelf - reads a file that lies beside the playbook."""

from __future__ import annotations

from pydantic import Field

from noetl.errors import ToolError
from noetl.facts.outcome import Outcome, succeeded
from noetl.pipeline.model import Call
from noetl.tools.base import Tool, ToolConfig


class ShelfConfig(ToolConfig):
    """Configuration of a shelf task."""

    file: str = Field(description="Its name, relative to the playbook.")


class Shelf(Tool):
    """Reads a text that lies beside the playbook, or below one of `NOETL_FILE_ROOTS`."""

    kind = "shelf"
    queue = "depot"
    effects = "none"
    description = "Reads a text that lies beside the playbook."
    config_model = ShelfConfig

    def run(self, call: Call, config: ShelfConfig) -> Outcome:
        folders = [self.services.base_dir, *self.services.file_roots]
        for folder in folders:
            if folder is not None and (folder / config.file).is_file():
                return succeeded((folder / config.file).read_text(encoding="utf-8"))
        raise ToolError("client_error", f"There is no file {config.file!r} beside the playbook.")
