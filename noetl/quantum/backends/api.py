"""The HTTP API of a vendor: short requests over guarded connections, and what their answers mean.

The clients in `cirq_ionq` and `cirq_aqt` are not used: they have no deadlines and send a POST again
by themselves, which may be a second paid job
(`docs/decisions/0031-vendors-are-asked-by-ourselves.md`)."""

from __future__ import annotations

import hashlib
import json
import ssl
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeVar

import urllib3

from noetl import __version__
from noetl.errors import ToolError
from noetl.facts.json import Json, JsonMap
from noetl.quantum.backends.limiter import Bucket
from noetl.quantum.backends.ports import MaybeSubmitted, answer_error
from noetl.quantum.config.task import Backend
from noetl.tools.kit.base import Services
from noetl.tools.kit.call_secrets import hide
from noetl.tools.kit.http.answer import mask_secrets, refusal
from noetl.tools.kit.http.auth import open_credential
from noetl.tools.kit.http.messages import HttpRequest, HttpResponse, RequestLimits, bare, text_of
from noetl.tools.kit.http.transport import HttpClient
from noetl.usecases.credential_types import KEY, TOKEN, first

#: Seconds: to connect, between bytes, and for a request as a whole; bytes of an answer.
_LIMITS: Final = RequestLimits(connect=5.0, read=20.0, total=30.0, body=64 * 1024 * 1024)
#: Redirects that ask for the same request at another address: it was not taken here.
_ELSEWHERE: Final = frozenset({301, 307, 308})
#: What is wrong with a connection before it is one, in the words of OpenSSL.
_HANDSHAKE: Final = (
    "CERTIFICATE_VERIFY_FAILED",
    "WRONG_VERSION_NUMBER",
    "HANDSHAKE_FAILURE",
    "UNSUPPORTED_PROTOCOL",
    "PROTOCOL_VERSION",
)
#: Characters that messages repeat of what a vendor says.
_LONGEST_REASON: Final = 300
#: Below `services.scratch`: the buckets of all vendors.
BUCKETS: Final = "quantum-limits"

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class VendorApi:
    """A vendor's API at `base` as one account sees it."""

    name: str
    base: str
    client: HttpClient = field(repr=False)
    headers: Mapping[str, str] = field(repr=False)
    bucket: Bucket

    def get(self, path: str, params: Sequence[tuple[str, str]] = (), *, follows: bool = False) -> Json:
        """`follows`: without its answer that to the request before it is worth nothing (see
        `Bucket.take`)."""
        self.bucket.take(follows=follows)
        return self._content("GET", self._exchange("GET", path, params, None))

    def end(self, method: str, path: str) -> Json:
        """Ends something that was asked for just before."""
        self.bucket.take(follows=True)
        return self._content(method, self._exchange(method, path, (), None))

    def submit(self, path: str, body: JsonMap, made: Callable[[Json], _T]) -> _T:
        """What `made` reads from the answer to a POST that makes a job. Raises MaybeSubmitted where
        it may have made one without our hearing of it; another ToolError where it has not."""
        self.bucket.take()
        try:
            answer = self._exchange("POST", path, (), body)
        except ToolError as error:
            raise error if failed_before_sending(error) else _as_maybe_submitted(self.name, error) from error
        try:
            return made(self._content("POST", answer))
        except ToolError as error:
            # A proxy's 502 or an answer that is no JSON says nothing of what happened behind it.
            refused = 400 <= answer.status < 500 or answer.status in _ELSEWHERE
            raise error if refused else _as_maybe_submitted(self.name, error) from error

    def _exchange(
        self, method: str, path: str, params: Sequence[tuple[str, str]], body: JsonMap | None
    ) -> HttpResponse:
        headers = {"user-agent": f"NoETL/{__version__}", "accept": "application/json", **self.headers}
        sent = None if body is None else json.dumps(body, allow_nan=False).encode()
        if sent is not None:
            headers["content-type"] = "application/json"
        order = HttpRequest(method, f"{self.base}/{path}", headers, params, sent, follow=False)
        return self.client.exchange(order, _LIMITS)

    def _content(self, method: str, answer: HttpResponse) -> Json:
        """The JSON of an answer. Raises ToolError where it is a refusal, or not JSON."""
        answer = mask_secrets(answer)
        if answer.status >= 300:
            raise self._refusal(method, answer)
        if not answer.body:
            return None
        try:
            # Of counts, probabilities and calibrations nobody needs exact numbers.
            return json.loads(answer.body, parse_constant=lambda _: None)
        except (ValueError, RecursionError) as error:
            raise answer_error(self.name, f"{bare(answer.url)} answered something that is no JSON") from error

    def _refusal(self, method: str, answer: HttpResponse) -> ToolError:
        error = refusal(method, answer, {"status": answer.status, "headers": dict(answer.headers)})
        asked = error.extras.get("http", {}).get("retry_after")
        if asked is not None and answer.status in (429, 503):
            self.bucket.rest(min(float(asked), 3600.0))
        why = _reason(error.extras.get("http", {}).get("body"))
        if answer.status < 400:
            why = (
                f"it points to {bare(answer.headers.get('location', 'nowhere'))}; give that host as "
                "`backend.host`"
            )
        message = f"{self.name} refused: {error.message.rstrip('.')}{': ' + why if why else ''}."
        if answer.status == 401:
            message += " Look at the token of the credential that `backend.auth` names."
        # No API of jobs redirects: to follow it may send a job elsewhere.
        kind = error.kind if answer.status >= 400 else "server_error"
        return ToolError(kind, message, retryable=error.retryable, type=error.type, extras=error.extras)


def api_of(
    name: str,
    base: str,
    scheme: str,
    config: Backend,
    services: Services,
    client: HttpClient,
    per_minute: float,
) -> VendorApi:
    """The API with the key of `config.auth`, which stands behind `scheme` in its header. Raises
    ToolError(auth)."""
    if config.auth is None:
        raise ToolError(
            "auth", f"The backend {name} needs `auth`: a credential with a token.", type="NoCredential"
        )
    place, data = open_credential(config.auth, services)
    key = text_of(first(data, KEY + TOKEN) or "").strip()
    if not key or not key.isascii() or not key.isprintable():
        raise ToolError(
            "auth", f"{place} cannot be used for {name}; give it a `token`.", type="UnusableCredential"
        )
    hide([key])
    account = hashlib.sha256(f"{base}\0{key}".encode()).hexdigest()
    asked = number(config.options, "requests_per_minute", per_minute)
    bucket = Bucket(services.scratch / BUCKETS, name, max(asked, 0.1), account)
    return VendorApi(name, base, client, {"authorization": f"{scheme} {key}"}, bucket)


def number(options: JsonMap, name: str, otherwise: float) -> float:
    """A number of `backend.options`. Raises ToolError(client_error) where it is none, or below
    zero."""
    value = options.get(name, otherwise)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e9:
        raise ToolError(
            "client_error", f"`backend.options.{name}` must be a number from 0 on.", type="BadOption"
        )
    return float(value)


def check_options(name: str, options: JsonMap, known: Sequence[str]) -> None:
    """Raises ToolError(client_error) for an option that the backend does not know."""
    for one in options:
        if one not in known:
            raise ToolError(
                "client_error",
                f"The backend {name} has no option '{one}'; there are {', '.join(sorted(known))}.",
                type="BadOption",
            )


def failed_before_sending(error: BaseException) -> bool:
    """Whether the request failed before any of it was sent."""
    never = (
        urllib3.exceptions.NewConnectionError,
        urllib3.exceptions.ConnectTimeoutError,
        urllib3.exceptions.NameResolutionError,
    )
    refused_here = isinstance(error, ToolError) and error.kind in ("client_error", "auth")
    return refused_here or any(isinstance(one, never) or _is_handshake(one) for one in _causes(error))


def _is_handshake(error: BaseException) -> bool:
    """Whether TLS was refused at its beginning; a connection may break with an error of TLS at any
    time after it, too."""
    said = str(error.reason) if isinstance(error, ssl.SSLError) else ""
    return any(word in said for word in _HANDSHAKE)


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    for _ in range(8):
        if error is None:
            return
        yield error
        reason = getattr(error, "reason", None) or next(
            (one for one in error.args if isinstance(one, BaseException)), None
        )
        error = reason if isinstance(reason, BaseException) else error.__cause__ or error.__context__


def _as_maybe_submitted(name: str, error: ToolError) -> MaybeSubmitted:
    return MaybeSubmitted(
        error.kind,
        f"{name} may have taken a job whose answer never came: {error.message}",
        retryable=True,
        type=error.type,
        extras=error.extras,
    )


def _reason(body: Json) -> str:
    """What the vendor says, on one line."""
    said = body
    if isinstance(body, Mapping):
        said = body.get("message") or body.get("detail") or body.get("error") or ""
    text = said if isinstance(said, str) else json.dumps(said, ensure_ascii=False)
    return " ".join(text.split())[:_LONGEST_REASON].rstrip(".")
