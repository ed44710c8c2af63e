"""Other addresses of the same routes, for programs that were written for an API without `/api`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

#: What may be written in the place of `/api/workflows/`.
SHORT: Final = "/workflows/"
_API: Final = "/api"


class ShortPaths:
    """The application behind it knows each route by one address."""

    def __init__(self, app: WSGIApplication) -> None:
        self._app = app

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        path = environ.get("PATH_INFO", "")
        if path.startswith(SHORT):
            environ["PATH_INFO"] = _API + path
        return self._app(environ, start_response)
