"""The Flask application of the API."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from flask import Flask, Response, jsonify, request
from flask.json.provider import DefaultJSONProvider
from flask_openapi3.models.info import Info
from flask_openapi3.models.schema import Schema
from flask_openapi3.openapi import OpenAPI

from noetl import __version__
from noetl.api import (
    access,
    batch,
    catalog,
    credentials,
    docs,
    events,
    executions,
    guards,
    logs,
    problems,
    results,
    system,
    variables,
    workflows,
)
from noetl.api.admission import Places
from noetl.api.answers import Chunk, Event, EventPage, LogPage, Problem
from noetl.api.services import Services, install
from noetl.api.wire import StrictRequest
from noetl.config import Settings
from noetl.usecases.runtime import Runtime

#: Bytes of a request's body.
MAX_BODY: Final = 1024 * 1024
DOCUMENT: Final = "/api/openapi.json"

_PARTS: Final = (
    *(system, catalog, executions, batch, events, logs, variables, credentials, results),
    workflows,
)


class _Ordered(DefaultJSONProvider):
    """Steps and names stay in the order in which they came to be."""

    sort_keys = False


def create_app(rt: Runtime, settings: Settings) -> Flask:
    """The API under `/api`, over one runtime."""
    app = OpenAPI(
        "noetl.api",
        info=Info(title="NoETL", version=__version__, description="Run playbooks, durably."),
        security_schemes={},
        validation_error_status=400,
        validation_error_model=Problem,
        validation_error_callback=problems.invalid,
        doc_ui=False,
        static_folder=None,
    )
    app.request_class = StrictRequest
    app.config["MAX_CONTENT_LENGTH"] = MAX_BODY
    app.before_request(_allow_batches)
    app.json = _Ordered(app)
    install(app, Services(rt, settings, Places(settings.server_streams)))
    access.register(app)
    problems.register(app)
    guards.register(app)
    for part in _PARTS:
        app.register_api(part.api)
    app.register_blueprint(docs.blueprint())
    app.add_url_rule(DOCUMENT, "document", lambda: _document(app))
    return app


def _allow_batches() -> None:
    if request.path == batch.PREFIX:
        request.max_content_length = batch.MAX_BODY


def _document(app: OpenAPI) -> Response:
    if not app.spec_json:
        for model in (EventPage, Event, LogPage, Chunk):
            app.components_schemas[model.__name__] = _component(model)
        for operation in _operations(app.api_doc):
            # The library joins the lines of docstrings for HTML; readers of the document expect Markdown.
            text = operation.get("description", "").replace("<br/>", "\n").strip()
            operation["description"] = text or operation["summary"]
    return jsonify(app.api_doc)


def _operations(document: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for path in document["paths"].values():
        yield from path.values()


def _component(model: type[EventPage | Event | LogPage | Chunk]) -> Schema:
    """A schema of its own: the stream's answer is described by hand, and so names what it uses."""
    schema = model.model_json_schema(ref_template="#/components/schemas/{model}")
    schema.pop("$defs", None)
    return Schema(**schema)
