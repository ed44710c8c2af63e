"""The API and its page for a WSGI server: `gunicorn noetl.wsgi:app`.

Everything is made at the first request, in the process that serves it: connections do not survive a
fork.
"""

from __future__ import annotations

import json
import logging
import sys
import threading
from collections.abc import Iterable
from functools import cache
from typing import TYPE_CHECKING

from noetl.collector import pause_collector

with pause_collector():
    from flask import Flask, request

    from noetl import bootstrap
    from noetl.api.app import create_app
    from noetl.api.context import application, services
    from noetl.api.guards import HEADER, id_of
    from noetl.api.identity import needs_token, recognize
    from noetl.api.issuers import open_issuer
    from noetl.api.limits import BodyDeadline, RequestLimit
    from noetl.api.problems import MEDIA_TYPE, no_route, status_of
    from noetl.api.streams import open_stream
    from noetl.config import Settings
    from noetl.errors import BadRequest, ConfigError, NoetlError, NotFound, ToolError, Unavailable
    from noetl.local_access import keep_first_token, open_warning
    from noetl.tools.artifact.places import execution_artifact, guess_type
    from noetl.ui import pages
    from noetl.ui.site import OpenArtifact, Site, Visitor
    from noetl.usecases.runtime import Runtime

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

log = logging.getLogger(__name__)

#: The exit code of a worker that makes gunicorn stop, where it would start another one for any
#: other.
_STOP = 4

#: Seconds after which a thread lets others have Python, a tenth of what is usual: a start asks the
#: database some ten times, and behind each answer waits for whoever renders a page at the moment.
SWITCH_S = 0.0005

_lock = threading.Lock()


def create(settings: Settings | None = None) -> Flask:
    """A new application, from the environment unless told otherwise. Raises ConfigError."""
    here = settings or Settings.from_env()
    rt = bootstrap.runtime(here, bootstrap.dispatcher_of(here))
    served = create_app(rt, here)
    pages.register(served, make_site(rt, here))
    bounded = RequestLimit(BodyDeadline(served.wsgi_app, here.body_timeout_s), here.server_threads)
    served.wsgi_app = FirstStart(bounded, rt, here)  # type: ignore[method-assign]
    return served


def make_site(rt: Runtime, settings: Settings) -> Site:
    """What the pages of an application are served with."""
    return Site(
        rt,
        find_visitor=find_visitor,
        recognize=lambda text: recognize(application(), text),
        open_stream=open_stream,
        status_of=status_of,
        open_artifact=lambda execution_id, key: open_artifact(settings.artifacts, execution_id, key),
        admit_start=lambda: rt.backlog.admit(rt.store, rt.clock(), settings.backlog),
        say_lost=no_route,
        flower=settings.flower,
        flower_auth=settings.flower_auth,
    )


def open_artifact(url: str, execution_id: str, key: str) -> OpenArtifact:
    """The artifact of that key of an execution, below `url`. Raises NotFound; BadRequest for a key
    that is none, Unavailable where the store does not answer."""
    try:
        place = execution_artifact(url, execution_id, key)
        size = place.size()
        if size is None:
            raise NotFound(f"Execution {execution_id} has no artifact {key[:200]!r} any more.")
        return OpenArtifact(place.open(), size, guess_type(key) or "application/octet-stream")
    except ToolError as error:
        kind = {"connection": Unavailable, "client_error": BadRequest}.get(error.kind, Unavailable)
        raise kind(error.message) from error


def find_visitor() -> Visitor:
    """Who makes the current request to a page."""
    here = services()
    return Visitor(here.rt, here.principal, needs_token(here.settings, request.environ))


class FirstStart:
    """An application whose database knows the first token from the first request on that it can be
    asked at. Raises ConfigError where the token cannot be kept."""

    def __init__(self, inner: WSGIApplication, rt: Runtime, settings: Settings) -> None:
        self._inner = inner
        self._rt = rt
        self._settings = settings
        self._is_kept = False
        self._turn = threading.Lock()

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        # One request at a time tries: the others would only wait for a database that is away.
        if not self._is_kept and self._turn.acquire(blocking=False):
            try:
                self._keep()
            finally:
                self._turn.release()
        return self._inner(environ, start_response)

    def _keep(self) -> None:
        try:
            keep_first_token(self._rt, self._settings)
            self._is_kept = True
        except Unavailable as error:
            log.info("The first token has to wait: %s", error)


def _check_settings() -> None:
    """Ends the process with one sentence where no application can ever be made, however often it is
    tried. Warns where everybody may use it."""
    try:
        settings = Settings.from_env()
    except ConfigError:
        return  # the answers to requests say why
    if message := open_warning(settings):
        bootstrap.open_log(settings)
        log.warning(message)
    try:
        if settings.broker_url:
            bootstrap.check_celery(settings)
        open_issuer(settings)
        settings.check_flower()
    except ConfigError as error:
        print(f"error: {error}", file=sys.stderr)
        raise SystemExit(_STOP) from None


_check_settings()


@cache
def _make_app() -> Flask:
    sys.setswitchinterval(SWITCH_S)
    settings = Settings.from_env()
    bootstrap.open_log(settings)
    return create(settings)


def app(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
    """The application of this process. As long as it cannot be made, the answers say why, and it
    is tried again."""
    try:
        with _lock:
            served = _make_app()
        return served(environ, start_response)
    except NoetlError as error:
        log.error("The API cannot begin: %s", error)  # noqa: TRY400 - the sentence says it all
        return _excuse(error, environ, start_response)


def _excuse(error: NoetlError, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
    body = {
        "type": "urn:noetl:problem:unavailable",
        "title": "Service Unavailable",
        "status": 503,
        "detail": error.message,
    }
    request_id = id_of(environ.get("HTTP_X_REQUEST_ID"), environ.get("HTTP_TRACEPARENT"))
    headers = [("Content-Type", MEDIA_TYPE), ("Retry-After", "1"), (HEADER, request_id)]
    start_response("503 Service Unavailable", headers)
    return [json.dumps(body).encode()]
