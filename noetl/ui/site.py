"""What the pages are served with, and what every page has: a policy, marks of forms, a visitor."""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import IO, Any, Final
from urllib.parse import urlsplit

from flask import Response, current_app, g, render_template, request
from markupsafe import Markup

from noetl.errors import BadRequest, NoetlError
from noetl.ui.audience import NewsAudience
from noetl.ui.kept import KeptIndex
from noetl.ui.kept_parts import KeptParts
from noetl.ui.static_files import url_of
from noetl.usecases.access import ANONYMOUS, Principal
from noetl.usecases.runtime import Runtime

#: Where the application keeps its site.
KEY: Final = "noetl.site"
#: The header by which a page says how many rows it has of a table that only grows.
ROWS_KNOWN: Final = "Rows-Known"
#: The cookie whose value every form repeats, so that no other page can send one.
FORMS: Final = "noetl_forms"
#: The field of a form that repeats it.
FORM_FIELD: Final = "form_key"
#: Where Flower is seen, by those who may.
FLOWER: Final = "/flower"
#: What an error is called on its page, by its HTTP status.
_TITLES: Final = {400: "Bad request", 401: "Sign in first", 403: "Not allowed", 404: "Not found"}
_FORM_KEY_BYTES: Final = 24
#: Stands for what marks the forms of a browser; nobody can guess it, and so write it.
_MARK: Final = Markup("<!-- {} -->").format(secrets.token_hex(16))


@dataclass(frozen=True, slots=True)
class Visitor:
    """Who looks at a page. `needs_token`: nobody may who has not said who it is."""

    rt: Runtime
    principal: Principal
    needs_token: bool

    @property
    def is_known(self) -> bool:
        return self.principal.name != ANONYMOUS


@dataclass(frozen=True, slots=True)
class OpenArtifact:
    """An artifact: its bytes, to be closed, how many they are, and its content type."""

    file: IO[bytes]
    size: int
    content_type: str


@dataclass(frozen=True, slots=True)
class Site:
    """What the program that serves the pages lends them.

    `find_visitor` says who makes the current request. `recognize` is whose a token is, and raises
    Unauthenticated for one that is not good. `open_stream` answers with frames of server-sent
    events about something, and `status_of` is the HTTP status of an error, None for a defect.
    `flower` is where this server finds Flower (`http://127.0.0.1:5555`), and
    `flower_auth` the `name:password` that it asks for, empty for none.
    `say_lost` answers a program that asked for an address that there is not.
    `open_artifact` opens the artifact of an execution that has that key, and raises NotFound,
    BadRequest and Unavailable. `admit_start` lets one start pass, and raises TooManyRequests where
    too much waits already. `parts`, `audience` and `kept` are those of this application.
    """

    rt: Runtime
    find_visitor: Callable[[], Visitor]
    recognize: Callable[[str], Principal]
    open_stream: Callable[[Iterator[str], str], Response]
    status_of: Callable[[NoetlError], int | None]
    flower: str
    open_artifact: Callable[[str, str], OpenArtifact]
    admit_start: Callable[[], None]
    say_lost: Callable[[], Response]
    flower_auth: str = field(default="", repr=False)
    parts: KeptParts = field(default_factory=KeptParts)
    audience: NewsAudience = field(default_factory=NewsAudience)
    kept: KeptIndex = field(default_factory=KeptIndex)


def here() -> Site:
    """The site that serves the current request."""
    found: Site = current_app.extensions[KEY]
    return found


# --- pages ----------------------------------------------------------------------------------------


def show(template: str, status: int = 200, **names: Any) -> Response:
    """A page, or a part of one, made of the template."""
    return answer(render(template, **names), status)


def answer(text: str, status: int = 200) -> Response:
    """A page, or a part of one, that was made of a template for whoever may see it."""
    # The same address answers with the page, or with the part that a script asks for.
    whole = text.replace(_MARK, _mark_form()) if _MARK in text else text
    return Response(whole, status, mimetype="text/html", headers={"Vary": "HX-Request"})


def share(make: Callable[[], str], *, personal: bool = False, within_s: float | None = None) -> str:
    """What `make` renders for the address that was asked for. Those whose page has heard of a
    change, and who may see the same, get the same part of it: it is made once. `personal`: it says
    something about who looks. `within_s`: it is never older than so many seconds, since it changes
    without news."""
    if not is_part():
        return make()
    principal = here().find_visitor().principal
    whose = principal.name if personal else ""
    key = (principal.grants, whose, request.host, request.full_path, request.headers.get(ROWS_KNOWN))
    return here().parts.get(key, request.headers.get("News-At", ""), make, within_s)


def render(template: str, **names: Any) -> str:
    """The text of a page, or of a part of one, in which the marks of forms are left open."""
    visitor = here().find_visitor()
    return render_template(
        template,
        visitor=visitor,
        # It shows the work of all playbooks.
        flower=f"{FLOWER}/" if visitor.principal.may("read") else None,
        nonce=_nonce(),
        form_mark=lambda: _MARK,
        static=url_of,
        anonymous=ANONYMOUS,
        is_part=is_part(),
        **names,
    )


def is_part() -> bool:
    """Whether a script of a page asks, which wants to replace a part of it."""
    return request.headers.get("HX-Request") == "true" and "HX-History-Restore-Request" not in request.headers


def show_lost(_: Exception) -> Response:
    """What is said of an address that there is not: to a browser as a page."""
    said = here().say_lost()
    if request.accept_mimetypes.best_match([said.content_type, "text/html"]) != "text/html":
        return said
    return finish(show("error.html", 404, message=said.get_json()["detail"], title=_TITLES[404]))


def show_error(error: NoetlError) -> Response:
    """An error as a page. Raises it where it is a defect."""
    status = here().status_of(error)
    if status is None:
        raise error
    return show("error.html", status, message=error.message, title=_TITLES.get(status, "Not possible"))


def finish(response: Response) -> Response:
    """The headers of every page, and the cookie of its forms. What is not ours has a policy
    already."""
    response.headers.setdefault(
        "Content-Security-Policy",
        f"default-src 'none'; script-src 'nonce-{_nonce()}'; worker-src 'self'; style-src 'self'; "
        "img-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'",
    )
    # With `no-referrer` browsers would not say that a form is of this origin.
    response.headers["Referrer-Policy"] = "same-origin"
    if g.get("new_form_key"):
        response.set_cookie(
            FORMS, g.new_form_key, httponly=True, samesite="Strict", secure=is_secure(), max_age=None
        )
    return response


def own_path(where: str) -> str:
    """`where`, if it is a path of this server; else the way to the first page."""
    parts = urlsplit(where)
    is_ours = not parts.scheme and not parts.netloc and where.startswith("/")
    return where if is_ours and not where.startswith(("//", "/\\")) and where.isprintable() else "/"


def is_secure() -> bool:
    """Whether the browser speaks TLS, with this server or a proxy before it."""
    return request.is_secure or request.headers.get("X-Forwarded-Proto", "") == "https"


def _nonce() -> str:
    """What marks the scripts that are this page's own."""
    if "nonce" not in g:
        g.nonce = secrets.token_urlsafe(16)
    nonce: str = g.nonce
    return nonce


# --- forms ----------------------------------------------------------------------------------------


def _form_key() -> str:
    key: str | None = request.cookies.get(FORMS) or g.get("new_form_key")
    if key is None:
        key = g.new_form_key = secrets.token_urlsafe(_FORM_KEY_BYTES)
    return key


def _mark_form() -> Markup:
    """The field that every form has which is sent by POST."""
    return Markup('<input type="hidden" name="{}" value="{}">').format(FORM_FIELD, _form_key())


def check_form() -> None:
    """Raises BadRequest for a form that no page of ours has shown to this browser. What Flower's
    pages send has come from this origin, which is looked at for every page."""
    if request.method != "POST" or request.path.startswith(f"{FLOWER}/"):
        return
    known, sent = request.cookies.get(FORMS, ""), request.form.get(FORM_FIELD, "")
    if not known or not hmac.compare_digest(known.encode(), sent.encode()):
        raise BadRequest(
            "The form is not one that this page has shown to your browser (are cookies off?): load the page "
            "again, and send it from there."
        )
