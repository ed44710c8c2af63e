"""Flower, behind the login of the pages.

Flower shows Celery's messages, and has no login that these pages could share. So it listens on
loopback, or asks all but this server for a password; and what is asked for below `/flower/` is
asked of it by this server, for those who may.
Its pages are of this origin then, and not ours: what they may do is bounded by a policy of their
own (decision 89).
"""

from __future__ import annotations

import hashlib
import os
import re
from base64 import b64encode
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from threading import BoundedSemaphore
from typing import TYPE_CHECKING, Final
from urllib.parse import quote, urlsplit

from flask import Response, request

from noetl.config import FLOWER_HOST
from noetl.errors import BadRequest, Forbidden, NotFound, Unavailable
from noetl.ui.site import FLOWER, here

if TYPE_CHECKING:
    import requests

#: Seconds for a connection, and between two pieces of an answer.
CONNECT_S: Final = 2.0
READ_S: Final = 15.0
#: Bytes of one answer, and of a piece of it.
MOST: Final = 64 * 1024 * 1024
PIECE: Final = 64 * 1024
#: Questions to a Flower that may hang, of one process: others keep their threads.
AT_ONCE: Final = 16

#: Where Flower's list of tasks is searched: it reads, though by POST.
SEARCH: Final = "tasks/datatable"
#: What sends messages to workers that no execution knows of.
_NEVER: Final = re.compile(r"api/task/(apply|async-apply|send-task)(/.*)?", re.DOTALL)
#: What steers workers, and what they work on.
_STEERS: Final = re.compile(
    r"api/worker/(shutdown|pool/(restart|grow|shrink|autoscale)|queue/(add|cancel)-consumer)/[^/]+"
    r"|api/task/(abort|revoke|timeout|rate-limit)/[^/]+"
)

#: Headers that Flower is told, and those that it says; cookies are not among them.
_TOLD: Final = ("Accept", "Accept-Language", "Content-Type", "If-None-Match", "X-Requested-With")
_SAID: Final = ("Content-Type", "Content-Length", "Cache-Control", "ETag", "Last-Modified")
#: Policies name hosts, and not all that are reached have a name that can stand there.
_NAMED: Final = re.compile(r"[A-Za-z0-9.-]+(:\d+)?")
#: The one script that stands in a page of Flower itself, of its versions 2.0 to 2.2.
_INLINE: Final = ("\n  var autorefresh = 1;\n", "\n  var autorefresh = 0;\n", "\nvar autorefresh = 1;\n")

_places: Final = BoundedSemaphore(AT_ONCE)


def show_flower(place: str = "") -> Response:
    """What Flower has at that place. Raises Unavailable."""
    return _pass_on("GET", place)


def search_flower() -> Response:
    """Tasks that Flower finds. Raises Unavailable."""
    return _pass_on("POST", SEARCH)


def steer_flower(place: str) -> Response:
    """What Flower does to workers, or to a task. Raises NotFound where it is nothing that Flower
    does, and Unavailable."""
    if not (_STEERS.fullmatch(place) or _NEVER.fullmatch(place)):
        raise NotFound(f"Flower does nothing at {place[:200]!r} that this server passes on.")
    return _pass_on("POST", place)


def _pass_on(method: str, place: str) -> Response:
    _check(place)
    if not _places.acquire(blocking=False):
        raise Unavailable(f"Flower was asked {AT_ONCE} things that it has not answered yet: try again.")
    try:
        answer = _ask(method, place)
    except BaseException:
        _places.release()
        raise
    response = Response(_read(answer), answer.status_code, headers=_say(answer))
    response.call_on_close(answer.close)
    response.call_on_close(_places.release)
    return response


def _check(place: str) -> None:
    """Raises Forbidden for what nobody may ask of Flower, and BadRequest for what is no place."""
    if _NEVER.fullmatch(place):
        raise Forbidden(
            "Nobody sends tasks by Flower: workers would run what no execution knows of; `noetl run` and "
            "POST /api/executions start one."
        )
    segments = place.removesuffix("/").split("/")
    is_odd = not place.isprintable() or any(one in (".", "..") for one in segments)
    if place and (is_odd or "" in segments):
        raise BadRequest(f"{place[:200]!r} is no place in Flower.")


def _ask(method: str, place: str) -> requests.Response:
    """Flower's answer, of which the body is not read yet. Raises Unavailable."""
    # Written anew, so that Flower finds in it what was looked at here.
    url = f"{here().flower}{FLOWER}/{quote(place, safe='/@:+,=~')}"
    if request.query_string:
        url += f"?{quote(request.query_string, safe='%&=+/?:@,;~!$()*-._')}"
    with _translate_errors():
        answer = _open_session().request(
            method,
            url,
            data=request.get_data() if method == "POST" else None,
            timeout=(CONNECT_S, READ_S),
            allow_redirects=False,
            stream=True,
        )
    if refused := _find_fault(answer, place):
        answer.close()
        raise Unavailable(refused)
    return answer


def _open_session() -> requests.Session:
    import requests  # it takes 50 ms, and most servers show no Flower

    session = requests.Session()
    # Proxies and passwords of the environment are for elsewhere; authorities are for all.
    session.trust_env = False
    session.verify = os.environ.get("REQUESTS_CA_BUNDLE") or True
    session.headers.clear()
    session.headers.update(_tell())
    if here().flower_auth:
        name, _, password = here().flower_auth.partition(":")
        session.auth = (name, password)
    return session


@contextmanager
def _translate_errors() -> Iterator[None]:
    """Raises Unavailable, with what to do, where Flower cannot be asked."""
    import requests  # see `_open_session`

    flower = here().flower
    try:
        yield
    except requests.exceptions.SSLError as error:
        raise Unavailable(
            f"No secure connection to Flower at {flower}: it speaks no TLS, or no authority that this "
            "server knows vouches for its certificate; name the file of your own in REQUESTS_CA_BUNDLE."
        ) from error
    except requests.Timeout as error:
        raise Unavailable(f"Flower does not answer at {flower}. {_say_start()}") from error
    except requests.RequestException as error:
        raise Unavailable(f"No Flower answers at {flower}. {_say_start()}") from error
    except OSError as error:
        # The file of the authorities, before anything is asked.
        raise Unavailable(f"Flower at {flower} cannot be asked: {error}.") from error


def _tell() -> Mapping[str, str]:
    told = {name: request.headers[name] for name in _TOLD if name in request.headers}
    # Bodies are handed on as they come.
    return {**told, "Accept-Encoding": "identity"}


def _find_fault(answer: requests.Response, place: str) -> str:
    """Why what answers there is no Flower that can be shown."""
    if answer.status_code == 401:
        return (
            f"The Flower at {here().flower} wants a password that this server does not know, which its API "
            "always does: set NOETL_FLOWER_AUTH=name:password for both, as `noetl up` does."
        )
    if answer.status_code == 404 and not place:
        return f"What answers at {here().flower} does not live below {FLOWER}/. {_say_start()}"
    location = answer.headers.get("Location")
    if location and _lead(location) == answer.url.removeprefix(here().flower):
        # Browsers would be led in circles: they only know of places below ours.
        return (
            f"What answers at {here().flower} leads to {location[:200]}: set NOETL_FLOWER_URL to where "
            "Flower itself answers."
        )
    if int(answer.headers.get("Content-Length") or 0) > MOST:
        return f"Flower answers with more than {MOST // 1024 // 1024} MiB: ask for less."
    return ""


def _say_start() -> str:
    """How the Flower that is missed would have been started."""
    at = urlsplit(here().flower)
    prefix = f"--url_prefix={FLOWER.strip('/')}"
    if at.hostname == FLOWER_HOST:
        return (
            f"Start it, as `noetl up` does: celery -A noetl flower --address={FLOWER_HOST} --port={at.port} "
            f"{prefix}"
        )
    return (
        "NOETL_FLOWER_URL says that it is there. Start it there, with the NOETL_FLOWER_AUTH of this server: "
        f"celery -A noetl flower {prefix}"
    )


def _say(answer: requests.Response) -> Mapping[str, str]:
    """The headers of the answer, and what its page may do."""
    said = {name: answer.headers[name] for name in _SAID if name in answer.headers}
    if location := answer.headers.get("Location"):
        said["Location"] = _lead(location)
    return {**said, "Content-Security-Policy": _make_policy(request.host)}


def _lead(location: str) -> str:
    """The place below ours that an answer leads to."""
    to = urlsplit(location)
    path = to.path if to.path.startswith(f"{FLOWER}/") else f"{FLOWER}/"
    return f"{path}?{to.query}" if to.query else path


def _make_policy(host: str) -> str:
    """Scripts and styles are Flower's own files, and speak to Flower alone: names of tasks,
    arguments and errors, which anybody may have written, become no script, and even one that did
    would reach none of our pages."""
    ours = f"{host}{FLOWER}/" if _NAMED.fullmatch(host) else "'self'"
    files = f"{host}{FLOWER}/static/" if _NAMED.fullmatch(host) else "'self'"
    inline = " ".join(f"'sha256-{_digest(text)}'" for text in _INLINE)
    return (
        f"sandbox allow-scripts allow-same-origin allow-forms; default-src 'none'; "
        f"script-src {files} {inline}; "
        f"style-src {files} 'unsafe-inline'; img-src {files} data:; font-src {files} data:; "
        f"connect-src {ours}; form-action 'none'; base-uri 'none'; frame-ancestors 'none'"
    )


def _digest(text: str) -> str:
    return b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _read(answer: requests.Response) -> Iterator[bytes]:
    left = MOST
    for piece in answer.iter_content(PIECE):
        left -= len(piece)
        if left < 0:
            raise Unavailable(f"Flower answers with more than {MOST // 1024 // 1024} MiB: ask for less.")
        yield piece
