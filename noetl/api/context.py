"""What the routes of one application share, what serves one request, and how groups of routes are
made."""

from __future__ import annotations

from dataclasses import dataclass, replace
from http import HTTPStatus
from typing import Any, Final

from flask import current_app, g
from flask_openapi3.blueprint import APIBlueprint
from flask_openapi3.models.tag import Tag
from pydantic import BaseModel

from noetl.api.answers import Problem
from noetl.api.limits import WaitingPlaces
from noetl.api.oidc import Issuer
from noetl.api.problems import MEDIA_TYPE
from noetl.api.rates import TokenRates
from noetl.config import Settings
from noetl.facts.callers import Caller
from noetl.usecases.access import NOBODY, Principal
from noetl.usecases.runtime import Runtime

#: Where the application keeps its context.
KEY: Final = "noetl"


@dataclass(frozen=True, slots=True)
class ApiContext:
    """`places` are those of requests that wait, `rates` the limits of tokens, `issuer` who signs
    tokens besides. `principal` is who asks: until that is known, nobody who may anything."""

    rt: Runtime
    settings: Settings
    places: WaitingPlaces
    rates: TokenRates
    issuer: Issuer | None = None
    principal: Principal = NOBODY

    def serving(self, principal: Principal, request_id: str) -> ApiContext:
        """The same for one request: what is done in it names who asked."""
        rt = self.rt.acting_for(Caller(principal.name, request_id))
        return replace(self, rt=rt, principal=principal)


def application() -> ApiContext:
    """What all requests share, whoever asks."""
    found: ApiContext = current_app.extensions[KEY]
    return found


def services() -> ApiContext:
    """What the current request is served with."""
    found: ApiContext | None = g.get(KEY)
    return application() if found is None else found


def serve(principal: Principal) -> None:
    """From now on the current request is that principal's."""
    setattr(g, KEY, application().serving(principal, g.request_id))


def _problem(description: str) -> dict[Any, Any]:
    return {
        "description": description,
        "content": {MEDIA_TYPE: {"schema": {"$ref": f"#/components/schemas/{Problem.__name__}"}}},
    }


#: Errors that any route may answer with.
_ERRORS: Final[dict[str | int | HTTPStatus, type[BaseModel] | dict[Any, Any] | None]] = {
    "400": _problem("The request cannot be used."),
    "401": _problem("A token is needed, or the one that was sent is not good."),
    "403": _problem("Who asks may not do that."),
    "429": _problem("Too many requests, or too much waits already; `Retry-After` says when to come again."),
    "4XX": _problem("What was named does not exist, or is in another state."),
    "503": _problem("The database does not answer."),
}


def group(name: str, url_prefix: str, about: str) -> APIBlueprint:
    """Routes below `url_prefix`, under one heading of the OpenAPI document; any may answer with a
    problem."""
    return APIBlueprint(
        name,
        __name__,
        url_prefix=url_prefix,
        abp_tags=[Tag(name=name, description=about)],
        abp_responses=_ERRORS,
    )
