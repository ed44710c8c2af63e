"""kind: playbook - calls another playbook as a child execution, and waits for it without a
worker."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import Field

from noetl.facts.children import ChildCall
from noetl.facts.json import Json, deep_merge
from noetl.net.model import Spelling
from noetl.pipeline.model import Call
from noetl.tools.kit import effects
from noetl.tools.kit.base import Tool
from noetl.tools.kit.declaration import ToolConfig, ToolDeclaration


class PlaybookConfig(ToolConfig):
    """Configuration of a playbook task."""

    path: str = Field(min_length=1, description="`metadata.path` of the playbook in the catalog.")
    version: int | None = Field(
        default=None, ge=1, description="Its version in the catalog; the newest where none is given."
    )
    payload: dict[str, Any] = Field(
        default_factory=dict,
        description="Merged deeply over the task's inputs, and with them over the child's workload.",
    )
    return_step: str | None = Field(
        default=None, description="The step of the child whose result is wanted, instead of the child's."
    )
    detached: bool = Field(default=False, description="Do not wait for the child.")


class CallPlaybook(Tool):
    """Calls another playbook as a child execution, and waits for it; while the child runs, no
    worker is held. What a call means:
    [calling playbooks](../reference/calls.md)."""

    declaration = ToolDeclaration(
        kind="playbook",
        # It only asks for the child; every deployment serves this queue.
        queue="python",
        sections=(),
        # Those of the child's tasks, whatever they are.
        effects="external",
        description="Calls another playbook and waits for it, without holding a worker.",
        result="""
            The child's result; that of the step `return_step`, null where it did not run; of a detached child
            `{execution_id, path, version}`. `outcome.meta.execution_id` names the child.
        """,
        errors="""
            A child that ends other than `completed` is an error of kind `child` with the message and the type
            of the child's own error. A path, version or `return_step` that is not found, and a playbook that
            cannot be run, are errors of kind `client_error`; an eleventh execution in a chain of calls is one
            of kind `limit`, type `CallDepth`.
        """,
        example="""
            - step: nightly
              tool:
                kind: playbook
                path: sales/load_day
                input: {day: "{{ workload.day }}"}
                return_step: totals
              next: end
            - step: end
              tool: {kind: noop, input: {totals: "{{ nightly }}"}}
        """,
        config_model=PlaybookConfig,
        # Authors name the call by it; nothing reads that.
        spellings={"task": Spelling()},
        required=(("path",),),
        suspends=True,
        hands_on=True,
    )

    @classmethod
    def touches(cls, config: Mapping[str, Json]) -> tuple[str, ...]:
        return (effects.one_line(config.get("path")),)

    def run(self, call: Call, config: PlaybookConfig) -> ChildCall:
        payload = deep_merge(dict(call.args), config.payload)
        return ChildCall(config.path, config.version, payload, config.return_step, config.detached)
