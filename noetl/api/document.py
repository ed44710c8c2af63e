"""The OpenAPI document, and `/api/docs`, a page that shows it with Swagger UI.

The framework makes the document of the routes; what it cannot know is added here. Swagger UI comes
with the package flask-openapi3-swagger; only its files are used, so that the page can have the
strict policy of the others, and nothing from elsewhere.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from importlib.resources import files
from typing import Any, Final

from flask import Blueprint, Response
from flask_openapi3.models.schema import Schema
from flask_openapi3.openapi import OpenAPI
from pydantic import BaseModel

from noetl.api.answers import Chunk, Event, EventPage, LogPage
from noetl.api.audit import AuditEntryView, AuditPage
from noetl.api.bodies import CatalogBody
from noetl.api.examples.example import Example
from noetl.api.examples.routes import examples
from noetl.api.permissions import RULES, Rule
from noetl.api.start_bodies import StartBody, WorkflowBody
from noetl.errors import NotFound
from noetl.facts.json import Json
from noetl.facts.nearest import did_you_mean

#: A name in the rule of a route: `<path:name>`.
_IN_RULE: Final = re.compile(r"<(?:\w+:)?(\w+)>")
_BRACED: Final = r"{\1}"
#: How the document calls the tokens of this API.
BEARER: Final = "token"
SCHEMES: Final[dict[str, Any]] = {
    BEARER: {
        "type": "http",
        "scheme": "bearer",
        "description": "`noetl token create` makes one. On loopback none is needed unless settings say so.",
    }
}

#: Routes that take YAML as well, and read either by themselves.
_PLAYBOOKS: Final[Mapping[str, type[BaseModel]]] = {
    "/api/catalog": CatalogBody,
    "/api/executions": StartBody,
    "/api/workflows/run": WorkflowBody,
}
#: Schemas of what is described by hand, and so named there.
_MODELS: Final[tuple[type[BaseModel], ...]] = (
    *(EventPage, Event, LogPage, Chunk),
    *(AuditPage, AuditEntryView),
    *_PLAYBOOKS.values(),
)


def document(app: OpenAPI) -> dict[str, Any]:
    """The document of the routes of `app`. To be asked for once."""
    for model in _MODELS:
        schema = model.model_json_schema(ref_template="#/components/schemas/{model}")
        for name, part in {**schema.pop("$defs", {}), model.__name__: schema}.items():
            app.components_schemas[name] = Schema(**part)
    made: dict[str, Any] = app.api_doc
    endpoints, shown = _endpoints(app), examples()
    for path, model in _PLAYBOOKS.items():
        sent = made["paths"][path]["post"]["requestBody"]
        sent["required"] = True
        sent["content"]["application/json"]["schema"] = {"$ref": f"#/components/schemas/{model.__name__}"}
    for path, operations in made["paths"].items():
        for method, operation in operations.items():
            # The library joins the lines of docstrings for HTML; readers of the document expect
            # Markdown.
            text = operation.get("description", "").replace("<br/>", "\n").strip()
            operation["description"] = text or operation["summary"]
            route = f"{method.upper()} {path}"
            _illustrate(operation, shown[route])
            _say_scope(operation, RULES[endpoints[route]])
    return made


def _endpoints(app: OpenAPI) -> Mapping[str, str]:
    """The names of endpoints by their routes, as the document has those."""
    return {
        f"{method} {_IN_RULE.sub(_BRACED, rule.rule)}": rule.endpoint
        for rule in app.url_map.iter_rules()
        for method in rule.methods or ()
    }


def _say_scope(operation: dict[str, Any], rule: Rule) -> None:
    operation["security"] = [] if rule.decider == "nobody" else [{BEARER: []}]
    operation["x-noetl-scope"] = str(rule)


def _illustrate(operation: dict[str, Any], example: Example) -> None:
    _put(operation.get("requestBody", {}), example.sent)
    answers = operation["responses"]
    _put(answers[max(status for status in answers if status.startswith("2"))], example.answered)


def _put(described: dict[str, Any], examples: Mapping[str, Json]) -> None:
    for media_type, value in examples.items():
        described["content"][media_type]["example"] = value


# --- the page ---

PAGE: Final = "/api/docs"
_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
#: Seconds for which browsers keep the files of Swagger UI: they change with its version only.
_KEEP: Final = "max-age=86400"

_HTML: Final = f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>NoETL: the REST API</title>
<meta name="color-scheme" content="light dark">
<link rel="stylesheet" href="{PAGE}/swagger-ui.css">
<link rel="stylesheet" href="{PAGE}/docs.css">
</head>
<body>
<nav class="back"><a href="/">Back to NoETL</a></nav>
<div id="api"></div>
<noscript>This page needs JavaScript.
The document itself: <a href="/api/openapi.json">openapi.json</a>.</noscript>
<script src="{PAGE}/swagger-ui-bundle.js"></script>
<script src="{PAGE}/docs.js"></script>
</body>
</html>
"""

_SWAGGER: Final = files("flask_openapi3_swagger") / "templates" / "swagger"
_FILES: Final = {
    "swagger-ui.css": (_SWAGGER / "css" / "swagger-ui.css", "text/css"),
    "swagger-ui-bundle.js": (_SWAGGER / "js" / "swagger-ui-bundle.js", "text/javascript"),
    "docs.css": (files("noetl.api") / "static" / "docs.css", "text/css"),
    "docs.js": (files("noetl.api") / "static" / "docs.js", "text/javascript"),
}


def blueprint() -> Blueprint:
    """`GET /api/docs` and the files of its page."""
    pages = Blueprint("docs", __name__)
    pages.add_url_rule(PAGE, "page", _page)
    pages.add_url_rule(f"{PAGE}/<name>", "file", _file)
    return pages


def _page() -> Response:
    return Response(_HTML, mimetype="text/html", headers={"Content-Security-Policy": _POLICY})


def _file(name: str) -> Response:
    if name not in _FILES:
        raise NotFound(f"The page {PAGE} has no file {name[:80]!r}.{did_you_mean(name[:80], _FILES)}")
    file, mimetype = _FILES[name]
    return Response(file.read_bytes(), mimetype=mimetype, headers={"Cache-Control": _KEEP})
