"""The Flask application of the API."""

from __future__ import annotations

from typing import Final

from flask import Flask, jsonify, request
from flask.json.provider import DefaultJSONProvider
from flask_openapi3.models.info import Info
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
from noetl.api.admission import WaitingPlaces
from noetl.api.answers import Problem
from noetl.api.document import document
from noetl.api.services import ApiContext, install
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
    install(app, ApiContext(rt, settings, WaitingPlaces(settings.server_streams)))
    access.register(app)
    problems.register(app)
    guards.register(app)
    for part in _PARTS:
        app.register_api(part.api)
    app.register_blueprint(docs.blueprint())
    app.add_url_rule(DOCUMENT, "document", lambda: jsonify(document(app)))
    return app


def _allow_batches() -> None:
    if request.path == batch.PREFIX:
        request.max_content_length = batch.MAX_BODY
