"""The OpenAPI document: what the framework makes of the routes, with what it cannot know."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from flask_openapi3.models.schema import Schema
from flask_openapi3.openapi import OpenAPI
from pydantic import BaseModel

from noetl.api.answers import Chunk, Event, EventPage, LogPage
from noetl.api.bodies import CatalogBody
from noetl.api.examples import EXAMPLES
from noetl.facts.json import Json

#: Schemas of what is described by hand, and so named there.
_MODELS: Final[tuple[type[BaseModel], ...]] = (EventPage, Event, LogPage, Chunk, CatalogBody)


def document(app: OpenAPI) -> dict[str, Any]:
    """The document of the routes of `app`, which is made once."""
    if app.spec_json:
        return app.api_doc
    for model in _MODELS:
        app.components_schemas[model.__name__] = _component(model)
    made: dict[str, Any] = app.api_doc
    # The route takes YAML as well, and reads either by itself.
    sent = made["paths"]["/api/catalog"]["post"]["requestBody"]["content"]
    sent["application/json"]["schema"] = {"$ref": f"#/components/schemas/{CatalogBody.__name__}"}
    for route, operation in _operations(made):
        # The library joins the lines of docstrings for HTML; readers of the document expect
        # Markdown.
        text = operation.get("description", "").replace("<br/>", "\n").strip()
        operation["description"] = text or operation["summary"]
        _illustrate(route, operation)
    return made


def _operations(made: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for path, operations in made["paths"].items():
        for method, operation in operations.items():
            yield f"{method.upper()} {path}", operation


def _illustrate(route: str, operation: dict[str, Any]) -> None:
    """Puts the route's examples where they belong: beside the schema of what is sent, and of what
    is answered first."""
    example = EXAMPLES[route]
    _put(operation.get("requestBody", {}), example.sent)
    answers = operation["responses"]
    _put(answers[max(status for status in answers if status.startswith("2"))], example.answered)


def _put(described: dict[str, Any], examples: Mapping[str, Json]) -> None:
    for media_type, value in examples.items():
        described["content"][media_type]["example"] = value


def _component(model: type[BaseModel]) -> Schema:
    schema = model.model_json_schema(ref_template="#/components/schemas/{model}")
    schema.pop("$defs", None)
    return Schema(**schema)
