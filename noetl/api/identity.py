"""Who asks: whether a request needs a token, which one it has, and whose that is.

Nobody needs a token on a server that listens on loopback and is asked from there: who can do that
runs programs on this machine. What came through a proxy came from elsewhere, whatever its address.
"""

from __future__ import annotations

import base64
import binascii
from typing import TYPE_CHECKING, Final

from flask import request

from noetl.api.called import CALLBACK, is_call
from noetl.api.context import ApiContext
from noetl.api.loopback import is_loopback
from noetl.errors import Unauthenticated, Unavailable
from noetl.usecases import tokens
from noetl.usecases.access import ANYBODY, NOBODY, Principal, session_cookie

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIEnvironment

    from noetl.config import Settings

#: The endpoint that whoever watches this server asks.
HEALTH: Final = "system.health"
#: The pages. Their forms are sent with the cookie of who has signed in: a password that the browser
#: remembers would be sent along with what other pages make it send.
PAGES: Final = "pages"
#: What people see who have not signed in yet.
_BEFORE_LOGIN: Final = frozenset({"pages.login", "pages.sign_in", "pages.sign_out", "pages.file"})
#: Headers of proxies.
_FORWARDING: Final = frozenset(
    {
        *("HTTP_FORWARDED", "HTTP_X_REAL_IP", "HTTP_X_CLIENT_IP", "HTTP_TRUE_CLIENT_IP"),
        *("HTTP_CF_CONNECTING_IP", "HTTP_VIA"),
    }
)
_FORWARDING_PREFIX: Final = "HTTP_X_FORWARDED_"
#: What changes nothing: browsers send passwords along with whatever page asks them to, and cookies
#: with what this machine's other pages ask for.
_READING: Final = frozenset({"GET", "HEAD"})
_WHERE: Final = "send it in the header `Authorization: Bearer …`"


def needs_token(settings: Settings, environ: WSGIEnvironment) -> bool:
    """Whether who asks has to say who it is."""
    if settings.open is not None:
        return not settings.open
    if not is_loopback(settings.host) or not is_loopback(environ.get("REMOTE_ADDR") or ""):
        return True
    return any(name in _FORWARDING or name.startswith(_FORWARDING_PREFIX) for name in environ)


def identify(here: ApiContext) -> Principal:
    """Who makes the current request. Raises Unauthenticated where it should have said so, or what
    it said is not so; Unavailable where that cannot be found out."""
    if is_call():
        # What a service sends along for others is not for us.
        return CALLBACK
    _refuse_in_url()
    if request.endpoint in _BEFORE_LOGIN:
        # With a cookie that is not good any more one could not even sign in again.
        return NOBODY
    text = _read_token()
    if text is not None:
        return recognize(here, text)
    if not needs_token(here.settings, request.environ):
        return ANYBODY
    if request.endpoint == HEALTH or request.method == "OPTIONS":
        return NOBODY
    if request.blueprint == PAGES:
        raise Unauthenticated("This server wants to know who you are: sign in with a token.")
    raise Unauthenticated(f"This server wants to know who asks: {_WHERE}; `noetl token create` makes one.")


def recognize(here: ApiContext, text: str) -> Principal:
    """Whose the token is. Raises Unauthenticated where it is not good, and Unavailable."""
    try:
        if here.issuer is not None and not text.startswith(tokens.PREFIX):
            return here.issuer.recognize(text)
        return tokens.recognize(here.rt, text)
    except Unavailable:
        if request.endpoint == HEALTH:
            # It says what is away, whoever asks.
            return NOBODY
        raise


def _refuse_in_url() -> None:
    """Raises Unauthenticated for a token in the URL, good or not."""
    for name, value in request.args.items(multi=True):
        if tokens.is_in_url(name, value):
            raise Unauthenticated(
                f"Tokens do not belong into URLs, which are written into logs: {_WHERE}, and revoke this one."
            )


def _read_token() -> str | None:
    """The token that the request has; None where it has none. Raises Unauthenticated where the
    header says something else."""
    header = request.headers.get("Authorization")
    reads = request.method in _READING
    cookie = request.cookies.get(session_cookie(request.host)) or None
    if request.blueprint == PAGES and not reads:
        return cookie
    if header is None:
        return cookie if reads else None
    scheme, _, given = header.strip().partition(" ")
    match scheme.lower():
        case "bearer":
            return given.strip()
        case "basic" if reads:
            return _read_password(given)
        case "basic":
            raise Unauthenticated(f"A password is taken for reading only; to change anything, {_WHERE}.")
        case _:
            raise Unauthenticated(f"`Authorization` has to be of the scheme Bearer: {_WHERE}.")


def _read_password(given: str) -> str:
    try:
        text = base64.b64decode(given.strip(), validate=True).decode()
    except (binascii.Error, UnicodeDecodeError) as error:
        raise Unauthenticated(f"The password of `Authorization` cannot be read; {_WHERE}.") from error
    return text.partition(":")[2]
