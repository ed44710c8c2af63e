"""The tool `http`: one request, answered by `{status_code, headers, url, elapsed, data}`."""

from __future__ import annotations

import base64
import json
import math
import re
import threading
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import BaseModel, ConfigDict, Field

from noetl import __version__
from noetl.errors import ToolError
from noetl.facts.json import Json, JsonMap
from noetl.facts.outcome import Outcome, succeeded
from noetl.pipeline.model import Call
from noetl.tools.base import Services, Tool, ToolConfig

if TYPE_CHECKING:
    from noetl.tools.transport import Answer, Client, Limits, Order

#: Seconds that a call may take where neither `timeout` nor `spec.timeout` says anything.
DEADLINE_S = 60.0
CONNECT_S = 10.0
_ERROR_BODY = 4096
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_CHARSET = re.compile(r"charset\s*=\s*\"?([\w.:-]+)", re.ASCII | re.IGNORECASE)
_BODIES = ("json", "payload", "body", "data", "form")
_CHANGING = frozenset({"POST", "PUT", "PATCH", "DELETE"})
_FRAMING = frozenset({"content-length", "transfer-encoding", "connection", "upgrade"})


class Timeouts(BaseModel):
    """Seconds for connecting, and for each wait for bytes."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    connect: float = Field(default=CONNECT_S, gt=0)
    read: float = Field(default=DEADLINE_S, gt=0)


class HttpConfig(ToolConfig):
    """One request. Give the address as `url` or `endpoint`, and at most one kind of body."""

    method: str = Field(default="GET", description="The request's method.", pattern=r"^[A-Za-z]{1,20}$")
    url: str | None = Field(default=None, description="Address, http or https.")
    endpoint: str | None = Field(default=None, description="The same as `url`.")
    params: dict[str, Json] | list[tuple[str, Json]] | None = Field(
        default=None, description="Query parameters; lists repeat the name, nulls are left out."
    )
    headers: dict[str, str | int | float | bool | None] | None = Field(
        default=None, description="Request headers; nulls are left out."
    )
    json_: Json = Field(default=None, alias="json", description="Body, sent as JSON.")
    payload: Json = Field(default=None, description="Body: JSON, or a form if the content type says so.")
    body: Json = Field(default=None, description="Body: text is sent as it is, anything else as `payload`.")
    data: Json = Field(
        default=None,
        description="Body: text as it is, a mapping as a form (JSON if the content type says so).",
    )
    form: dict[str, Json] | None = Field(default=None, description="Body, sent as a form.")
    files: dict[str, str | dict[str, Json]] | None = Field(
        default=None,
        description="Parts of a multipart form: text, or {filename, content | base64, content_type}.",
    )
    timeout: float | Timeouts | None = Field(
        default=None, description="Seconds for the whole call, or {connect, read} seconds."
    )
    verify: bool | str = Field(default=True, description="Check certificates; or a file with authorities.")
    allow_redirects: bool = Field(default=True, description="Follow up to 5 redirects.")
    auth: str | dict[str, Json] | None = Field(
        default=None,
        description="Name of a credential, {credential: name}, or {type: bearer|basic|api_key, ...}.",
    )


class Http(Tool):
    """Calls HTTP services. Connections are pooled for each worker process."""

    kind = "http"
    queue = "http"
    effects = "external"
    description = "Calls an HTTP service and yields {status_code, headers, url, elapsed, data}."
    config_model: ClassVar[type[ToolConfig]] = HttpConfig
    required = (("url", "endpoint"),)

    def __init__(self, services: Services) -> None:
        super().__init__(services)
        self._lock = threading.Lock()
        self._client: Client | None = None

    def run(self, call: Call, config: HttpConfig) -> Outcome:
        answer = self._connected().exchange(
            order_of(config, call, self.services), limits_of(config, call, self.services)
        )
        seen = {"status": answer.status, "headers": dict(answer.headers)}
        if answer.status >= 400:
            raise refusal(config.method.upper(), answer, seen)
        notes: set[str] = set()
        result: dict[str, Json] = {
            "status_code": answer.status,
            "headers": dict(answer.headers),
            "url": answer.url,
            "elapsed": answer.elapsed,
            "data": None,
        }
        result |= content(answer, notes)
        meta: dict[str, Json] = {"warnings": sorted(notes)} if notes else {}
        if answer.redirects:
            meta["redirects"] = answer.redirects
        return succeeded(result, meta, http=seen)

    def close(self) -> None:
        with self._lock:
            if self._client is not None:
                self._client.close()
                self._client = None

    def _connected(self) -> Client:
        # Imported here: `requests` takes 90 ms, and the compiler reads this module without calling it.
        from noetl.tools.transport import Client

        with self._lock:
            if self._client is None:
                self._client = Client(allow_private=self.services.allow_private_networks)
            return self._client


def limits_of(config: HttpConfig, call: Call, services: Services) -> Limits:
    """The tighter of `timeout` and `spec.timeout` bounds the whole call."""
    from noetl.tools.transport import Limits  # see `Http._connected`

    match config.timeout:
        case Timeouts(connect=connect, read=read):
            total = call.deadline_s or max(DEADLINE_S, connect + read)
            return Limits(min(connect, total), min(read, total), total, services.result_limit)
        case None:
            total = call.deadline_s or DEADLINE_S
        case seconds:
            if not 0 < seconds < math.inf:
                raise ToolError("client_error", f"`timeout` is {seconds:g}; give seconds above zero.")
            total = min(seconds, call.deadline_s or seconds)
    return Limits(min(CONNECT_S, total), total, total, services.result_limit)


def order_of(config: HttpConfig, call: Call, services: Services) -> Order:
    """The request that `config` describes. Raises ToolError(client_error | auth)."""
    from noetl.tools.transport import Order  # see `Http._connected`

    url = (config.url or config.endpoint or "").strip()
    if not url:
        raise ToolError("client_error", "`url` is empty; give the address to call.")
    method = config.method.upper()
    headers = {"user-agent": f"NoETL/{__version__}", "accept": "*/*", "accept-encoding": "gzip, deflate"}
    if method in _CHANGING:
        headers["idempotency-key"] = call.idempotency_key
    headers |= _headers(config.headers or {})
    params = _pairs(config.params or {})
    if config.auth is not None:
        more_headers, more_params = authentication(config.auth, services)
        headers |= more_headers
        params = [*params, *more_params]
    body, content_type = _body(config, headers.get("content-type", ""))
    if content_type:
        headers.setdefault("content-type", content_type)
    files = [(name, _part(name, part)) for name, part in (config.files or {}).items()]
    if files:
        headers.pop("content-type", None)
    return Order(
        method, url, headers, params, body, files, verify=config.verify, follow=config.allow_redirects
    )


def _headers(given: Mapping[str, Json]) -> dict[str, str]:
    headers: dict[str, str] = {}
    for name, value in given.items():
        text = _text(value).strip(" \t")
        if not _TOKEN.fullmatch(name) or name.lower() in _FRAMING:
            raise ToolError("client_error", f"Header {name[:80]!r} cannot be set; leave it out or rename it.")
        if any((ord(char) < 32 and char != "\t") or ord(char) == 127 for char in text):
            raise ToolError("client_error", f"Header '{name}' holds a line break or a control character.")
        if value is not None:
            # http.client writes latin-1: bytes of UTF-8 read as such go out as UTF-8.
            headers[name.lower()] = text if text.isascii() else text.encode().decode("latin-1")
    return headers


def _text(value: Json) -> str:
    match value:
        case str():
            return value
        case bool():
            return "true" if value else "false"
        case None:
            return ""
        case Mapping() | list():
            return json.dumps(value, ensure_ascii=False)
        case _:
            return str(value)


def _pairs(values: Mapping[str, Json] | Sequence[tuple[str, Json]]) -> list[tuple[str, str]]:
    """Names and texts for a query or a form: lists repeat the name, nulls are left out."""
    pairs = values.items() if isinstance(values, Mapping) else values
    flat: list[tuple[str, str]] = []
    for name, value in pairs:
        every = value if isinstance(value, list) else [value]
        flat += [(str(name), _text(item)) for item in every if item is not None]
    return flat


def _body(config: HttpConfig, content_type: str) -> tuple[bytes | list[tuple[str, str]] | None, str]:
    """The body and the content type that it brings."""
    fields = {"json": config.json_} | {name: getattr(config, name) for name in _BODIES[1:]}
    given = [name for name, value in fields.items() if value is not None]
    if len(given) > 1:
        raise ToolError("client_error", f"`{given[0]}` and `{given[1]}` are both bodies; give one of them.")
    if not given:
        return None, ""
    name, value = given[0], fields[given[0]]
    if isinstance(value, str) and name in ("body", "data"):
        return value.encode(), ""
    if isinstance(value, Mapping) and _is_form(name, content_type, bool(config.files)):
        return _pairs(value), ""
    if config.files:
        raise ToolError("client_error", f"`{name}` beside `files` must be a mapping of form fields.")
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False).encode(), "application/json"
    except (TypeError, ValueError) as error:
        raise ToolError("client_error", f"`{name}` cannot be written as JSON: {error}.") from error


def _is_form(name: str, content_type: str, with_files: bool) -> bool:
    if name == "form" or with_files:
        return True
    if name == "data":
        return "json" not in content_type
    return name != "json" and "form" in content_type


def _part(name: str, part: str | Mapping[str, Json]) -> tuple[str, bytes, str]:
    if isinstance(part, str):
        return name, part.encode(), "text/plain; charset=utf-8"
    unknown = set(part) - {"filename", "content", "base64", "content_type"}
    if unknown or ("content" in part) == ("base64" in part):
        raise ToolError(
            "client_error",
            f"File '{name}' needs `content` or `base64`, and may have `filename` and `content_type`.",
        )
    try:
        content = (
            base64.b64decode(part["base64"], validate=True)
            if "base64" in part
            else _text(part["content"]).encode()
        )
    except (ValueError, TypeError) as error:
        raise ToolError("client_error", f"`base64` of file '{name}' is not base64.") from error
    return (
        str(part.get("filename") or name),
        content,
        str(part.get("content_type") or "application/octet-stream"),
    )


def authentication(
    auth: str | Mapping[str, Json], services: Services
) -> tuple[dict[str, str], list[tuple[str, str]]]:
    """Headers and query parameters that `auth` stands for. Raises ToolError(auth)."""
    if isinstance(auth, str):
        return _authenticate(services.credential(auth), f"Credential '{auth}'")
    name = auth.get("credential")
    if name is not None:
        return _authenticate(
            {**services.credential(str(name)), **_without(auth, "credential")}, f"Credential '{name}'"
        )
    return _authenticate(auth, "`auth`")


def _without(mapping: Mapping[str, Json], key: str) -> dict[str, Json]:
    return {k: v for k, v in mapping.items() if k != key}


def _authenticate(data: Mapping[str, Json], place: str) -> tuple[dict[str, str], list[tuple[str, str]]]:
    kind = str(data.get("type") or "").lower().replace("-", "_")
    user = _first(data, "username", "user")
    token = _first(data, "token", "access_token", "bearer")
    key = _first(data, "api_key", "key", "value")
    if kind == "basic" or (kind not in ("bearer", "api_key") and user is not None):
        pair = f"{_secret(user, place, 'username')}:{_text(data.get('password'))}"
        return {"authorization": "Basic " + base64.b64encode(pair.encode()).decode()}, []
    if kind == "bearer" or (kind != "api_key" and token is not None):
        return {"authorization": f"Bearer {_secret(token, place, 'token')}"}, []
    if kind == "api_key" or key is not None:
        secret = _secret(key if key is not None else token, place, "key")
        if str(data.get("in") or "header") == "query":
            return {}, [(str(_first(data, "name", "param") or "api_key"), secret)]
        return _headers({str(_first(data, "header", "name") or "x-api-key"): secret}), []
    raise ToolError(
        "auth",
        f"{place} cannot be used for http; give `token`, `username` and `password`, or `key` and `header`.",
    )


def _first(data: Mapping[str, Json], *names: str) -> Json:
    return next((data[name] for name in names if data.get(name) not in (None, "")), None)


def _secret(value: Json, place: str, what: str) -> str:
    text = _text(value).strip()
    if not text or not text.isprintable():
        raise ToolError("auth", f"{place} has no usable `{what}`.")
    return text


# --- answers ---------------------------------------------------------------------------------


def content(answer: Answer, notes: set[str]) -> dict[str, Json]:
    """`{data}`: JSON where it is JSON, else text; bytes that are no text as base64, with `encoding`."""
    content_type = answer.headers.get("content-type", "").lower()
    if not answer.body:
        return {"data": None}
    text = _decoded(answer.body, content_type)
    if "json" in content_type.partition(";")[0]:
        return {"data": _declared_json(answer, text, notes)}
    if text is None:
        return {"data": base64.b64encode(answer.body).decode("ascii"), "encoding": "base64"}
    if text.lstrip()[:1] in ("{", "[") and "html" not in content_type:
        try:
            return {"data": read_json(text, notes)}
        except (ValueError, RecursionError):
            return {"data": text}
    return {"data": text}


def _declared_json(answer: Answer, text: str | None, notes: set[str]) -> Json:
    from noetl.tools.transport import bare  # see `Http._connected`

    place = bare(answer.url)
    try:
        return read_json(text if text is not None else "", notes)
    except RecursionError as error:
        raise ToolError(
            "limit", f"The JSON that {place} sent is nested too deeply.", type="TooDeep"
        ) from error
    except ValueError as error:
        raise ToolError(
            "server_error",
            f"{place} says that it sends JSON, but its body is none: {error}.",
            type="InvalidJson",
            extras={
                "http": {"status": answer.status, "headers": dict(answer.headers), "body": _excerpt(answer)}
            },
        ) from error


def _decoded(body: bytes, content_type: str) -> str | None:
    """Text in the charset that is named, else UTF-8; latin-1 for other text; None for bytes."""
    named = _CHARSET.search(content_type)
    for charset in ([named[1]] if named else []) + ["utf-8-sig"]:
        try:
            return body.decode(charset)
        except (LookupError, UnicodeError):
            continue
    is_text = content_type.startswith("text/") or "xml" in content_type
    return body.decode("latin-1") if is_text else None


def read_json(text: str, notes: set[str]) -> Json:
    """Parses JSON; numbers that JSON does not know (NaN, 1e999) become null, and `notes` says so."""

    def finite(literal: str) -> float | None:
        number = float(literal)
        if math.isfinite(number):
            return number
        notes.add("NaN and infinite numbers are null")
        return None

    return json.loads(text, parse_float=finite, parse_constant=finite)


def refusal(method: str, answer: Answer, seen: JsonMap) -> ToolError:
    """The error that a status from 400 on stands for."""
    from noetl.tools.transport import bare  # see `Http._connected`

    kind, retryable = _meaning(answer.status)
    extras: dict[str, Any] = dict(seen)
    after = retry_after(answer.headers.get("retry-after"), datetime.now(UTC))
    if after is not None:
        extras["retry_after"] = after
    extras["body"] = _excerpt(answer)
    reason = f" {answer.reason}" if answer.reason else ""
    return ToolError(
        kind,
        f"{method} {bare(answer.url)} answered {answer.status}{reason}.",
        retryable=retryable,
        type=f"Http{answer.status}",
        extras={"http": extras},
    )


def _meaning(status: int) -> tuple[str, bool]:
    match status:
        case 429:
            return "rate_limit", True
        case 401 | 403:
            return "auth", False
        case 408:
            return "timeout", True
        case 425:
            return "client_error", True
        case _ if status >= 500:
            return "server_error", status not in (501, 505)
        case _:
            return "client_error", False


def _excerpt(answer: Answer) -> Json:
    """At most 4 kB of the body: JSON where it is short and JSON, else text."""
    text = answer.body[:_ERROR_BODY].decode("utf-8", "replace")
    if len(answer.body) > _ERROR_BODY:
        return text
    try:
        return read_json(text, set())
    except (ValueError, RecursionError):
        return text


def retry_after(header: str | None, now: datetime) -> float | None:
    """Seconds to wait, from a number or a date; None where the header says nothing usable."""
    text = (header or "").strip()
    if text.isascii() and text.isdecimal():
        return float(text[:12])
    try:
        when = parsedate_to_datetime(text)
    except ValueError:
        return None
    return max((when.replace(tzinfo=when.tzinfo or UTC) - now).total_seconds(), 0.0)
