"""What the tool `http` sends: its configuration, and the request, limits and secrets made of it."""

from __future__ import annotations

import base64
import json
import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import BaseModel, ConfigDict, Field

from noetl import __version__
from noetl.errors import ToolError
from noetl.facts.json import Json
from noetl.pipeline.model import Call
from noetl.tools.base import Services, ToolConfig

if TYPE_CHECKING:
    from noetl.tools.transport import Limits, Order

#: Seconds that a call may take where neither `timeout` nor `spec.timeout` says anything.
DEADLINE_S = 60.0
CONNECT_S = 10.0
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
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


def limits_of(config: HttpConfig, call: Call, services: Services) -> Limits:
    """The tighter of `timeout` and `spec.timeout` bounds the whole call."""
    # Imported here as in `http`: it brings `requests`, and the compiler needs only the configuration.
    from noetl.tools.transport import Limits

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
    from noetl.tools.transport import Order  # see `limits_of`

    url = (config.url or config.endpoint or "").strip()
    if not url:
        raise ToolError("client_error", "`url` is empty; give the address to call.")
    if isinstance(config.verify, str) and not Path(config.verify).exists():
        raise ToolError(
            "client_error", f"`verify` names '{config.verify[:200]}', which is no file on the worker."
        )
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
