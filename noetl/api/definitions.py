"""What the API answers about the catalog, credentials, this installation and templates (see
`answers`)."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from noetl.api.answers import JsonObject, WarningView, WireModel


class PlaybookSummary(WireModel):
    path: str
    version: int
    name: str
    description: str
    created_at: str


class PlaybookList(WireModel):
    playbooks: list[PlaybookSummary]


class PlaybookRegistered(PlaybookSummary):
    warnings: list[WarningView]


class PlaybookView(PlaybookRegistered):
    content: str
    content_sha256: str
    versions: list[int]


class CredentialSummary(WireModel):
    """`place` is the path, or the execution, that it is kept for."""

    name: str
    type: str
    scope: Literal["global", "path", "execution"]
    place: str
    created_at: str
    updated_at: str


class CredentialList(WireModel):
    credentials: list[CredentialSummary]


class HealthPart(WireModel):
    status: Literal["ok", "down", "none"]
    detail: str | None = None


class Health(WireModel):
    """`degraded`: requests are recorded, and run once the broker is back."""

    status: Literal["ok", "degraded", "down"]
    database: HealthPart
    broker: HealthPart


class RuntimeView(WireModel):
    version: str
    kinds: list[JsonObject] = Field(description="{kind, queue, effects, description}")
    queues: list[str]
    workers: list[JsonObject] = Field(description="{name, role, queues, started_at, seen_at}")
    dead_letters: list[JsonObject] = Field(
        description="messages that no worker could read: {source, reason, body, recorded_at}"
    )


class RenderedTemplate(WireModel):
    result: Any
    warnings: list[str]
