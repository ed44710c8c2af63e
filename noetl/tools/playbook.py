"""kind: playbook - calls another playbook as an execution of its own, and waits for it without a worker."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from noetl.facts.children import ChildCall
from noetl.facts.json import deep_merge
from noetl.pipeline.model import Call
from noetl.tools.base import Tool, ToolConfig


class PlaybookConfig(ToolConfig):
    """Configuration of a playbook task."""

    path: str = Field(min_length=1, description="`metadata.path` of the playbook in the catalog.")
    version: int | None = Field(
        default=None, ge=1, description="Its version; the newest where there is none."
    )
    payload: dict[str, Any] = Field(
        default_factory=dict, description="Laid over the child's workload, and over the task's `input`."
    )
    return_step: str | None = Field(
        default=None, description="The step of the child whose result is wanted, instead of the child's."
    )
    detached: bool = Field(
        default=False, description="Does not wait: the result is `{execution_id, path, version}`."
    )


class CallPlaybook(Tool):
    kind = "playbook"
    #: It only asks for the child; every deployment serves this queue.
    queue = "python"
    effects = "none"
    description = "Calls another playbook and waits for it, without holding a worker."
    config_model = PlaybookConfig
    required = (("path",),)
    suspends = True
    hands_on = True

    def run(self, call: Call, config: PlaybookConfig) -> ChildCall:
        payload = deep_merge(dict(call.args), config.payload)
        return ChildCall(config.path, config.version, payload, config.return_step, config.detached)
