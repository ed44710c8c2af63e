"""Signing in with a token, which the browser then keeps in a cookie that no script reads."""

from __future__ import annotations

from typing import Final
from urllib.parse import quote

from flask import Response, redirect, request
from werkzeug.wrappers import Response as AnyResponse

from noetl.errors import Unauthenticated
from noetl.ui.site import here, is_part, is_secure, own_path, show
from noetl.usecases.access import session_cookie
from noetl.usecases.tokens import is_in_url

#: Seconds that a browser keeps the token, which may expire or be revoked before.
KEPT_S: Final = 30 * 24 * 3600
LOGIN: Final = "/login"


def ask() -> Response:
    """The form."""
    return show("login.html", next=_next(), message="")


def sign_in() -> AnyResponse:
    """Keeps the token that was sent, if it is good."""
    text = request.form.get("token", "").strip()
    try:
        here().recognize(text)
    except Unauthenticated as error:
        return show("login.html", 401, next=_next(), message=error.message)
    answer = redirect(_next(), 303)
    answer.set_cookie(
        session_cookie(request.host),
        text,
        max_age=KEPT_S,
        httponly=True,
        samesite="Lax",
        secure=is_secure(),
        path="/",
    )
    return answer


def sign_out() -> AnyResponse:
    answer = redirect(LOGIN, 303)
    answer.delete_cookie(
        session_cookie(request.host), httponly=True, samesite="Lax", secure=is_secure(), path="/"
    )
    return answer


def send_to_login(error: Unauthenticated) -> AnyResponse:
    """Who has not said who it is signs in first, and then sees what was asked for. Who has said it,
    and is not known, is told why."""
    if is_part():
        # A redirection would put the form where the part was. The page says why one signs in again.
        return Response(status=401, headers={"HX-Redirect": _current_page()})
    cookie = session_cookie(request.host)
    is_lost = any(is_in_url(*one) for one in request.args.items(multi=True))
    asked = request.full_path.rstrip("?") if request.method == "GET" else _sending_page()
    where = "/" if is_lost else asked
    if request.method == "GET" and not is_lost and cookie not in request.cookies:
        return redirect(f"{LOGIN}?next={quote(where, safe='')}", 303)
    answer = show("login.html", 401, next=where, message=error.message)
    answer.delete_cookie(cookie, httponly=True, samesite="Lax", secure=is_secure(), path="/")
    return answer


def _current_page() -> str:
    """The page that a script of ours asks from."""
    return own_path("/" + request.headers.get("HX-Current-URL", "").removeprefix(request.host_url))


def _sending_page() -> str:
    """The page whose form was sent."""
    return own_path("/" + (request.referrer or "").removeprefix(request.host_url))


def _next() -> str:
    return own_path(request.values.get("next", "/"))
