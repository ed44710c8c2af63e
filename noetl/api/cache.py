"""`/api/cache`: what calls of tasks with `cache` came to."""

from __future__ import annotations

from pydantic import Field

from noetl.api.context import services
from noetl.api.groups import group
from noetl.api.models import ApiModel
from noetl.api.permissions import may_read
from noetl.api.requests import Parameters
from noetl.facts.json import Json
from noetl.usecases import cache

api = group("cache", "/api/cache", "Results that stand in for equal calls")


class CachedResult(ApiModel):
    """What a call came to."""

    key: str = Field(description="tells the call from others")
    path: str = Field(description="of the playbook whose task made it")
    scope: str = Field(description="`playbook`: for calls of that one; `global`: of every one")
    kind: str
    execution_id: str
    run_id: str
    iteration: int | None
    task: str
    bytes: int = Field(description="of the result, or of the reference in the place of a large one")
    created_at: str
    expires_at: str


class CachedResultList(ApiModel):
    """The newest first."""

    cached: list[CachedResult]


class Cleared(ApiModel):
    removed: int = Field(description="how many results there were")


class CacheQuery(Parameters):
    path: str | None = Field(None, max_length=512, description="only those of this playbook")
    limit: int = Field(100, ge=1, le=1000, description="how many at most")


class ClearQuery(Parameters):
    path: str | None = Field(None, max_length=512, description="those of this playbook")
    key: str | None = Field(None, max_length=64, description="the one with this key")
    all: bool = Field(False, description="all of them")


@api.get("", responses={200: CachedResultList})
def cached(query: CacheQuery) -> dict[str, Json]:
    """List results that stand in for equal calls, newest first"""
    principal = services().principal
    is_visible = None if principal.may("read") else may_read(principal)
    rows = cache.cached(services().rt, query.path, query.limit, is_visible)
    return {"cached": [cache.describe(row) for row in rows]}


@api.delete("", responses={200: Cleared})
def clear(query: ClearQuery) -> dict[str, Json]:
    """Clear results away, so that calls are made again"""
    return {"removed": cache.clear(services().rt, query.path, query.key, everything=query.all)}
