"""What callers may send as bodies of starts."""

from __future__ import annotations

import re
from typing import Annotated, Final

from pydantic import Field, model_validator

from noetl.api.answers import JsonObject
from noetl.api.bodies import Body, SignalBody
from noetl.api.requests import (
    BusinessKey,
    ConflictPolicy,
    IdempotencyKey,
    Labels,
    PlaybookPath,
    PlaybookVersion,
)
from noetl.usecases.signals import LONGEST as LONGEST_NAME

#: Executions that one request may start.
MAX_BATCH: Final = 1000
#: What every mapping in YAML has, and a path does not; one that has is given as `path`.
_MAPPING: Final = re.compile(r"\n|:\s|^\{")


class NamedSignalBody(SignalBody):
    """A signal to the execution that a start comes to."""

    name: str = Field(min_length=1, max_length=LONGEST_NAME)


class StartBody(Body):
    """`path` of a playbook in the catalog, or `playbook`: YAML text, which is registered first."""

    path: PlaybookPath | None = None
    playbook: str | None = Field(None, min_length=1, description="YAML text")
    version: PlaybookVersion | None = None
    payload: JsonObject = Field(default_factory=dict, description="merged deeply over the workload")
    overrides: JsonObject = Field(default_factory=dict, description="merged over the payload")
    directories: list[str] = Field(
        default_factory=list,
        max_length=8,
        description="where relative names of files start, on a server that runs for this machine's user "
        "alone",
    )
    key: BusinessKey = None
    on_conflict: ConflictPolicy = None
    labels: Labels = Field(default_factory=dict)
    signal: NamedSignalBody | None = Field(
        None,
        description="what the execution is told in the same transaction; with a business key that an open "
        "one has, that one (`on_conflict` is then `return`)",
    )

    @model_validator(mode="after")
    def _one_source(self) -> StartBody:
        if (self.path is None) == (self.playbook is None):
            raise ValueError("give either `path` or `playbook`")
        if self.playbook is not None and self.version is not None:
            raise ValueError("`version` belongs to `path`; the text of a `playbook` is its own version")
        if self.signal is not None and self.on_conflict not in (None, "return"):
            raise ValueError(
                "a start with a `signal` tells the execution that has the key: `on_conflict: return`"
            )
        return self


class BatchItem(Body):
    """One execution of a batch, of a playbook in the catalog."""

    path: PlaybookPath
    version: PlaybookVersion | None = None
    payload: JsonObject = Field(default_factory=dict, description="merged deeply over the workload")
    overrides: JsonObject = Field(default_factory=dict, description="merged over the payload")
    idempotency_key: IdempotencyKey | None = None
    key: BusinessKey = None
    on_conflict: ConflictPolicy = None
    labels: Labels = Field(default_factory=dict)


class BatchBody(Body):
    executions: list[BatchItem] = Field(min_length=1, max_length=MAX_BATCH)


PathOrText = Annotated[
    str | None, Field(min_length=1, description="a playbook: its path in the catalog, or its YAML text")
]


class WorkflowBody(Body):
    """`workflow`, `playbook` and `content` are words for the same: the path of a playbook in the
    catalog, or YAML text, which is registered first. `input` is another word for `payload`."""

    path: PlaybookPath | None = None
    workflow: PathOrText = None
    playbook: PathOrText = None
    content: PathOrText = None
    version: PlaybookVersion | None = None
    payload: JsonObject | None = None
    input: JsonObject | None = None
    key: BusinessKey = None
    on_conflict: ConflictPolicy = None
    labels: Labels = Field(default_factory=dict)

    @model_validator(mode="after")
    def _one_of_each(self) -> WorkflowBody:
        if len(self._sources()) != 1:
            raise ValueError("give one of `path`, `workflow`, `playbook` and `content`")
        if self.payload is not None and self.input is not None:
            raise ValueError("give either `payload` or `input`")
        return self

    def as_start(self) -> StartBody:
        """The same as the body of a start. Raises ValidationError."""
        (source,) = self._sources()
        is_text = self.path is None and _MAPPING.search(source.strip()) is not None
        return StartBody(
            path=None if is_text else source,
            playbook=source if is_text else None,
            version=self.version,
            payload=self.payload or self.input or {},
            key=self.key,
            on_conflict=self.on_conflict,
            labels=self.labels,
            signal=None,
        )

    def _sources(self) -> list[str]:
        named = (self.path, self.workflow, self.playbook, self.content)
        return [one for one in named if one is not None]
