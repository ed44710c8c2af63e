"""The Flask application of the API."""

from __future__ import annotations

import functools
import threading
from typing import Any, Final

from flask import Flask, jsonify, request
from flask_openapi3.models.info import Info
from flask_openapi3.openapi import OpenAPI

from noetl import __version__
from noetl.api import (
    again,
    approvals,
    audit,
    cache,
    callbacks,
    catalog,
    compression,
    credentials,
    document,
    executions,
    guards,
    history,
    operations,
    problems,
    results,
    signals,
    slots,
    specimens,
    starts,
    streams,
    system,
    tallies,
    tokens,
    variables,
)
from noetl.api.aliases import ShortPaths
from noetl.api.answers import Problem
from noetl.api.context import KEY, ApiContext
from noetl.api.issuers import open_issuer
from noetl.api.limits import WaitingPlaces
from noetl.api.rates import TokenRates
from noetl.api.segments import KeptSegments
from noetl.api.wire import ExactJson, StrictRequest
from noetl.config import Settings
from noetl.usecases.runtime import Runtime

#: Bytes of a request's body.
MAX_BODY: Final = 1024 * 1024
DOCUMENT: Final = "/api/openapi.json"
#: Models are built, and the document is made, by one thread at a time.
_lock: Final = threading.Lock()

_GROUPS: Final = (
    *(
        system.api,
        catalog.api,
        executions.api,
        again.api,
        history.api,
        operations.api,
        starts.batch_api,
        specimens.api,
    ),
    *(streams.events_api, streams.logs_api, variables.api, credentials.api, results.api),
    *(signals.api, signals.correlated_api, callbacks.api, approvals.api, approvals.inbox_api),
    *(slots.api, slots.queues_api),
    *(cache.api, starts.workflows_api, tokens.api, audit.api, tallies.api),
)


def create_app(rt: Runtime, settings: Settings) -> Flask:
    """The API under `/api`, over one runtime. Raises ConfigError where the settings of an issuer of
    tokens cannot be used."""
    app = _open_app()
    app.request_class = StrictRequest
    app.wsgi_app = KeptSegments(ShortPaths(app.wsgi_app))  # type: ignore[method-assign]
    app.config["MAX_CONTENT_LENGTH"] = MAX_BODY
    app.before_request(_allow_large_bodies)
    app.json = ExactJson(app)
    app.extensions[KEY] = make_context(rt, settings)
    compression.register(app)
    problems.register(app)
    guards.register(app)
    with _lock:
        for one in _GROUPS:
            one.build_models()
    for one in _GROUPS:
        app.register_blueprint(one)
    app.register_blueprint(document.blueprint())
    app.add_url_rule(DOCUMENT, "document", lambda: jsonify(_find_document()))
    return app


def _open_app() -> OpenAPI:
    return OpenAPI(
        "noetl.api",
        info=Info(title="NoETL", version=__version__, description="Run playbooks, durably."),
        security_schemes=document.SCHEMES,
        validation_error_status=400,
        validation_error_model=Problem,
        validation_error_callback=problems.invalid,
        doc_ui=False,
        static_folder=None,
    )


def _find_document() -> dict[str, Any]:
    """The OpenAPI document, which is the same for all applications of this process."""
    with _lock:
        return _make_document()


@functools.cache
def _make_document() -> dict[str, Any]:
    described = _open_app()
    for one in _GROUPS:
        one.describe()
        described.register_api(one)
    return document.document(described)


def make_context(rt: Runtime, settings: Settings) -> ApiContext:
    """What the requests of an application share at its beginning. Raises ConfigError where the
    settings of an issuer of tokens cannot be used."""
    return ApiContext(
        rt, settings, WaitingPlaces(settings.server_streams), TokenRates(), open_issuer(settings)
    )


def _allow_large_bodies() -> None:
    if request.path == starts.BATCH:
        request.max_content_length = starts.MAX_BATCH_BODY
    if request.path == specimens.IMPORT:
        request.max_content_length = specimens.MAX_FILE
