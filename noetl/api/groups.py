"""Groups of routes: what all of them have in common."""

from __future__ import annotations

from flask_openapi3.blueprint import APIBlueprint
from flask_openapi3.models.tag import Tag

from noetl.api.answers import ERRORS


def group(name: str, url_prefix: str, about: str) -> APIBlueprint:
    """Routes below `url_prefix`, under one heading of the OpenAPI document; any may answer with a
    problem."""
    tag = Tag(name=name, description=about)
    return APIBlueprint(name, __name__, url_prefix=url_prefix, abp_tags=[tag], abp_responses=ERRORS)
