"""What the routes of one application share: its runtime, and how groups of routes are made."""

from __future__ import annotations

from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final

from flask import current_app
from flask_openapi3.blueprint import APIBlueprint
from flask_openapi3.models.tag import Tag
from pydantic import BaseModel

from noetl.api.answers import Problem
from noetl.api.limits import WaitingPlaces
from noetl.api.problems import MEDIA_TYPE
from noetl.config import Settings
from noetl.usecases.runtime import Runtime

#: Where the application keeps its context.
KEY: Final = "noetl"


@dataclass(frozen=True, slots=True)
class ApiContext:
    """`places` are those of requests that wait."""

    rt: Runtime
    settings: Settings
    places: WaitingPlaces


def services() -> ApiContext:
    """Those of the application that serves the current request."""
    found: ApiContext = current_app.extensions[KEY]
    return found


def _problem(description: str) -> dict[Any, Any]:
    return {
        "description": description,
        "content": {MEDIA_TYPE: {"schema": {"$ref": f"#/components/schemas/{Problem.__name__}"}}},
    }


#: Errors that any route may answer with.
_ERRORS: Final[dict[str | int | HTTPStatus, type[BaseModel] | dict[Any, Any] | None]] = {
    "400": _problem("The request cannot be used."),
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
