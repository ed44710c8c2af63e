"""`/api/docs`: a page that shows the OpenAPI document with Swagger UI, without anything from
elsewhere.

Swagger UI comes with the package flask-openapi3-swagger; only its files are used, so that the page
can have the strict policy of the others.
"""

from __future__ import annotations

from importlib.resources import files
from typing import Final

from flask import Blueprint, Response

from noetl.errors import NotFound
from noetl.facts.nearest import did_you_mean

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
<link rel="stylesheet" href="{PAGE}/swagger-ui.css">
</head>
<body>
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
