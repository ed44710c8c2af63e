"""Two pages: the executions of this installation, kept fresh by the API, and what one of them met.

They have no outside assets, and say so to the browser: the policy allows the script and the style
of the page by their hashes, and calls to its own origin.
"""

from __future__ import annotations

import base64
import hashlib
import re
from pathlib import Path
from string import Template

from flask import Blueprint, Response, render_template

from noetl.usecases import inspect
from noetl.usecases.address import resolve
from noetl.usecases.runtime import Runtime

_PAGE = Path(__file__).parent / "templates" / "index.html"


def blueprint(rt: Runtime, flower_port: int, *, is_open: bool = False) -> Blueprint:
    """`GET /`, which links to Flower on `flower_port` of the same host, and `GET
    /executions/{id or key}`. Flower has no login, and so listens on loopback only: from elsewhere
    nothing leads to it, unless the server `is_open` to everybody."""
    page = Template(_PAGE.read_text(encoding="utf-8"))
    index_page = page.substitute(flower_port=flower_port, flower_open=str(is_open).lower())
    pages = Blueprint("pages", __name__, template_folder="templates")

    @pages.get("/")
    def index() -> Response:
        return _answer(index_page)

    # Nothing follows in the path, so that keys may have slashes.
    @pages.get("/executions/<path:address>")
    def execution(address: str) -> Response:
        found = inspect.report(rt, resolve(rt, address), resolve=False)
        page = render_template("execution.html", report=found.as_json(), imported_at=found.row.imported_at)
        return _answer(page)

    return pages


def _answer(page: str) -> Response:
    return Response(page, mimetype="text/html", headers={"Content-Security-Policy": _policy(page)})


def _policy(page: str) -> str:
    script, style = (_hash(page, tag) for tag in ("script", "style"))
    return (
        f"default-src 'none'; script-src {script}; style-src {style}; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )


def _hash(page: str, tag: str) -> str:
    """The hash of the page's own element, `'none'` where it has none."""
    found = re.search(f"<{tag}>(.*?)</{tag}>", page, re.DOTALL)
    if found is None:
        return "'none'"
    digest = hashlib.sha256(found.group(1).encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"
