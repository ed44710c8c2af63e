"""Two pages: the executions of this installation, kept fresh by the API, and what one of them met
and asks.

They have no outside assets, and say so to the browser: the policy allows the script and the style
of the page by their hashes, and calls and forms to its own origin.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from string import Template
from typing import Final, Self

from flask import Blueprint, Response, render_template, request, url_for

from noetl.engine.awaited import who_waits
from noetl.engine.waits import join_awaited
from noetl.errors import BadRequest, Conflict, Forbidden, NoetlError
from noetl.facts.json import JsonMap
from noetl.ui.approvals import Visitor, show_approvals, take_answer, typed_in
from noetl.usecases import inspect
from noetl.usecases.access import NOBODY
from noetl.usecases.address import resolve
from noetl.usecases.runtime import Runtime

#: What waits that one page shows.
MOST: Final = 50
_PAGE = Path(__file__).parent / "templates" / "index.html"
#: Errors that the page shows with what was typed, and their statuses.
_SHOWN: Final[Mapping[type[NoetlError], int]] = {Forbidden: 403, Conflict: 409, BadRequest: 400}


@dataclass(frozen=True, slots=True)
class ShownWait:
    """Something that waits, as the page shows it."""

    who: str
    what: str
    since: str | None
    until: str | None

    @classmethod
    def of(cls, wait: JsonMap) -> Self:
        return cls(who_waits(wait), join_awaited(wait), wait["since"], wait["until"])


def blueprint(
    rt: Runtime, flower_port: int, *, is_open: bool = False, visitor: Callable[[], Visitor] | None = None
) -> Blueprint:
    """`GET /`, which links to Flower on `flower_port` of the same host, and `GET` and `POST
    /executions/{id or key}`. Flower has no login, and so listens on loopback only: from elsewhere
    nothing leads to it, unless the server `is_open` to everybody. `visitor` says who looks; without
    it nobody is known, who may answer nothing."""
    template = Template(_PAGE.read_text(encoding="utf-8"))
    index_page = template.substitute(flower_port=flower_port, flower_open=str(is_open).lower())
    pages = Blueprint("pages", __name__, template_folder="templates")
    who = visitor or (lambda: Visitor(rt, NOBODY, True))

    @pages.get("/")
    def index() -> Response:
        return _answer(index_page, "none")

    # Nothing follows in the path, so that keys may have slashes.
    @pages.get("/executions/<path:address>")
    def execution(address: str) -> Response:
        return _show(who(), resolve(rt, address))

    @pages.post("/executions/<path:address>")
    def answer(address: str) -> Response:
        here, execution_id, sent = who(), resolve(rt, address), request.form.to_dict()
        try:
            take_answer(here, execution_id, sent)
        except (Forbidden, Conflict, BadRequest) as error:
            status = next(status for kind, status in _SHOWN.items() if isinstance(error, kind))
            return _show(here, execution_id, typed_in(sent), error.message, status)
        # The page again, without the form: reloading it sends nothing.
        return Response(status=303, headers={"Location": url_for("pages.execution", address=execution_id)})

    return pages


def _show(
    visitor: Visitor,
    execution_id: str,
    typed: Mapping[str, str] | None = None,
    refused: str = "",
    status: int = 200,
) -> Response:
    found = inspect.report(visitor.rt, execution_id, resolve=False)
    approvals, more = show_approvals(visitor, execution_id, typed)
    waits = [ShownWait.of(wait) for wait in found.waits[:MOST]]
    page = render_template(
        "execution.html",
        report=found.as_json(),
        imported_at=found.row.imported_at,
        waits=waits,
        more_waits=len(found.waits) - len(waits),
        approvals=approvals,
        more_approvals=more,
        visitor=visitor,
        refused=refused,
    )
    return _answer(page, "self", status)


def _answer(page: str, forms: str, status: int = 200) -> Response:
    headers = {
        "Content-Security-Policy": _policy(page, forms),
        # With `no-referrer` browsers would not say that a form is of this origin.
        "Referrer-Policy": "same-origin",
    }
    return Response(page, status, mimetype="text/html", headers=headers)


def _policy(page: str, forms: str) -> str:
    script, style = (_hash(page, tag) for tag in ("script", "style"))
    return (
        f"default-src 'none'; script-src {script}; style-src {style}; connect-src 'self'; "
        f"base-uri 'none'; form-action '{forms}'; frame-ancestors 'none'"
    )


def _hash(page: str, tag: str) -> str:
    """The hash of the page's own element, `'none'` where it has none."""
    found = re.search(f"<{tag}>(.*?)</{tag}>", page, re.DOTALL)
    if found is None:
        return "'none'"
    digest = hashlib.sha256(found.group(1).encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"
