"""`/api/tokens`: who may ask for what, and `/api/whoami`: who asks."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from flask import request
from pydantic import Field

from noetl.api.answers import WireModel, fields_of
from noetl.api.bodies import Body
from noetl.api.context import services
from noetl.api.groups import group
from noetl.api.identity import needs_token
from noetl.api.models import ApiModel
from noetl.api.system import api as system_api
from noetl.facts.json import Json
from noetl.usecases import tokens
from noetl.usecases.ports import TokenRow

api = group("tokens", "/api/tokens", "Who may ask for what")

_SCOPES: Final = (
    "what may be done: `read`, `run`, `operate`, `approve` or `admin`, alone or with a path, `run:etl/*`"
)
_GROUPS: Final = "groups of the principal"
_RATE: Final = "how many requests in which time, like `100/minute`"
_NAMES: Final = (
    *("token_id", "principal", "rate", "created_at", "created_by", "expires_at", "revoked_at", "used_at"),
)


class TokenBody(Body):
    """Whose token it is to be, and what it may."""

    principal: str = Field(max_length=128, description="who it is for: a person or a program")
    scopes: list[str] = Field(min_length=1, max_length=100, description=_SCOPES)
    groups: list[str] = Field(default_factory=list, max_length=100, description=_GROUPS)
    expires_s: int | None = Field(
        int(tokens.LIFETIME.total_seconds()),
        ge=1,
        le=2**31,
        description="seconds for which it is good; null: until it is revoked",
    )
    rate: str | None = Field(None, max_length=80, description=_RATE)


class TokenView(WireModel):
    token_id: str
    principal: str
    groups: list[str] = Field(description=_GROUPS)
    scopes: list[str] = Field(description=_SCOPES)
    rate: str | None = Field(description=_RATE)
    created_at: str
    created_by: str | None
    expires_at: str | None = Field(description="null: it is good until it is revoked")
    revoked_at: str | None
    used_at: str | None = Field(description="when it was used last, to the minute")


class NewTokenView(TokenView):
    token: str = Field(description="the token itself, which is shown this once")


class TokenList(WireModel):
    tokens: list[TokenView] = Field(description="the oldest first")


class TokenPath(ApiModel):
    token_id: str = Field(max_length=200, description="the token's id, or the whole of it")


class Whoami(WireModel):
    principal: str
    groups: list[str] = Field(description=_GROUPS)
    scopes: list[str] = Field(description=_SCOPES)
    token_id: str | None = Field(description="of the token that said so; null without one")
    open: bool = Field(description="whether a request like this one needs no token")


def _view(row: TokenRow) -> dict[str, Json]:
    return {**fields_of(row, _NAMES), "groups": list(row.groups), "scopes": list(row.grants)}


@api.post("", responses={201: NewTokenView}, operation_id="token_create")
def create(body: TokenBody) -> tuple[dict[str, Json], int]:
    """Make a token

    Its text is in this answer and nowhere else. Unless told otherwise it is good for 90 days.
    """
    made = tokens.create(
        services().rt,
        body.principal,
        body.scopes,
        groups=body.groups,
        lifetime=None if body.expires_s is None else timedelta(seconds=body.expires_s),
        rate=body.rate,
    )
    return {**_view(made.row), "token": made.text}, 201


@api.get("", responses={200: TokenList}, operation_id="token_list")
def list_tokens() -> dict[str, Json]:
    """List tokens, without their secrets"""
    return {"tokens": [_view(row) for row in tokens.tokens(services().rt)]}


@api.delete("/<token_id>", responses={200: TokenView}, operation_id="token_revoke")
def revoke(path: TokenPath) -> dict[str, Json]:
    """Revoke a token

    From now on it is no longer good. To revoke it twice is fine.
    """
    return _view(tokens.revoke(services().rt, path.token_id))


@system_api.get("/whoami", responses={200: Whoami})
def whoami() -> dict[str, Json]:
    """Tell who asks, and what it may do"""
    here = services()
    principal = here.principal
    return {
        "principal": principal.name,
        "groups": list(principal.groups),
        "scopes": [str(grant) for grant in principal.grants],
        "token_id": principal.token_id,
        "open": not needs_token(here.settings, request.environ),
    }
