"""One page: the executions of this installation, kept fresh by the API.

It is one file without outside assets, and says so to the browser: the policy allows its own script and
style by their hashes, and calls to its own origin.
"""

from __future__ import annotations

import base64
import hashlib
import re
from pathlib import Path
from string import Template

from flask import Blueprint, Response

_PAGE = Path(__file__).parent / "templates" / "index.html"


def blueprint(flower_port: int) -> Blueprint:
    """`GET /`. The page links to Flower on `flower_port` of the same host."""
    page = Template(_PAGE.read_text(encoding="utf-8")).substitute(flower_port=flower_port)
    headers = {"Content-Security-Policy": _policy(page)}
    pages = Blueprint("pages", __name__)

    @pages.get("/")
    def index() -> Response:
        return Response(page, mimetype="text/html", headers=headers)

    return pages


def _policy(page: str) -> str:
    script, style = (_hash(page, tag) for tag in ("script", "style"))
    return (
        f"default-src 'none'; script-src {script}; style-src {style}; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )


def _hash(page: str, tag: str) -> str:
    found = re.search(f"<{tag}>(.*?)</{tag}>", page, re.DOTALL)
    digest = hashlib.sha256(found.group(1).encode() if found else b"").digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"
