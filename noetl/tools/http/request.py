"""What the tool `http` sends: its configuration, and the request, limits and secrets made of it."""

from __future__ import annotations

import base64
import math
from collections.abc import Mapping
from typing import Literal
from urllib.parse import quote, urlsplit

from pydantic import BaseModel, ConfigDict, Field

from noetl import __version__
from noetl.errors import ToolError
from noetl.facts import json
from noetl.facts.json import Json
from noetl.pipeline.model import Call
from noetl.tools.kit.base import Services
from noetl.tools.kit.declaration import Duration, ToolConfig
from noetl.tools.kit.http.answer import Form
from noetl.tools.kit.http.auth import login_of, open_credential
from noetl.tools.kit.http.messages import HttpRequest, RequestLimits, header_fields, pairs, text_of
from noetl.usecases.credential_types import find_fault, http_type

#: Seconds that a call may take where neither `timeout` nor `spec.timeout` says anything.
DEADLINE_S = 60.0
CONNECT_S = 10.0
_BODIES = ("json", "payload", "body", "data", "form")
_CHANGING = frozenset({"POST", "PUT", "PATCH", "DELETE"})


class Timeouts(BaseModel):
    """How long connecting, each wait for bytes, and the whole call may take."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    connect: Duration = Field(default=CONNECT_S, description="To connect.")
    read: Duration = Field(default=DEADLINE_S, description="For each wait for bytes.")
    total: Duration | None = Field(default=None, description="For the call as a whole.")


class Proxy(BaseModel):
    """A proxy, and the credential (user name and password) that it asks for."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    url: str = Field(description="Its address: `http://host:port`.")
    auth: str | dict[str, Json] | None = Field(default=None, description="A credential of type `basic`.")


class HttpConfig(ToolConfig):
    """One request. Give the address as `url` or `endpoint`, and at most one kind of body."""

    method: str = Field(default="GET", description="The request's method.", pattern=r"^[A-Za-z]{1,20}$")
    url: str | None = Field(default=None, description="Address, http or https, without user or password.")
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
        description="Parts of a multipart form: text, or `{filename, content or base64, content_type}`.",
    )
    timeout: Duration | Timeouts | None = Field(
        default=None, description="How long the whole call may take (60), or `{connect, read, total}`."
    )
    verify: bool | str = Field(default=True, description="Check certificates; or a file with authorities.")
    allow_redirects: bool = Field(default=True, description="Follow up to 5 redirects.")
    proxy: str | Proxy | None = Field(
        default=None,
        description="`http://host:port`, or `{url, auth}` with a credential of type `basic`; by default "
        "there is none.",
    )
    auth: str | dict[str, Json] | None = Field(
        default=None,
        description="Name of a credential, `{credential: name}`, or its `type` and fields.",
    )
    as_: Form | Literal["file"] | None = Field(
        default=None,
        alias="as",
        description="Read the body as this, whatever its content type says; `file` keeps it out of memory "
        "and log.",
    )


def limits_of(config: HttpConfig, call: Call, services: Services) -> RequestLimits:
    """The tighter of `timeout` and `spec.timeout` bounds the whole call."""
    match config.timeout:
        case Timeouts(connect=connect, read=read, total=whole):
            longest = call.deadline_s or max(DEADLINE_S, connect + read)
            total = min(whole or longest, call.deadline_s or math.inf)
            return RequestLimits(min(connect, total), min(read, total), total, services.result_limit)
        case None:
            total = call.deadline_s or DEADLINE_S
        case seconds:
            total = min(seconds, call.deadline_s or seconds)
    return RequestLimits(min(CONNECT_S, total), total, total, services.result_limit)


def order_of(config: HttpConfig, call: Call, services: Services) -> HttpRequest:
    """The request that `config` describes, without what `auth` adds. Raises ToolError(client_error
    | auth)."""
    url = (config.url or config.endpoint or "").strip()
    if not url:
        raise ToolError("client_error", "`url` is empty; give the address to call.")
    verify = config.verify
    if isinstance(verify, str):
        verify = str(services.files_of(call).existing(verify, "`verify`"))
    method = config.method.upper()
    headers = {"user-agent": f"NoETL/{__version__}", "accept": "*/*", "accept-encoding": "gzip, deflate"}
    if method in _CHANGING:
        headers["idempotency-key"] = call.idempotency_key
    headers |= header_fields(config.headers or {})
    body, content_type = _body(config, headers.get("content-type", ""))
    if content_type:
        headers.setdefault("content-type", content_type)
    files = [(name, _part(name, part)) for name, part in (config.files or {}).items()]
    if files:
        headers.pop("content-type", None)
    return HttpRequest(
        method,
        url,
        headers,
        pairs(config.params or {}),
        body,
        files,
        verify=verify,
        follow=config.allow_redirects,
        proxy=_proxy_of(config.proxy, services),
    )


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
        return pairs(value), ""
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
            else text_of(part["content"]).encode()
        )
    except (ValueError, TypeError) as error:
        raise ToolError("client_error", f"`base64` of file '{name}' is not base64.") from error
    return (
        str(part.get("filename") or name),
        content,
        str(part.get("content_type") or "application/octet-stream"),
    )


def _proxy_of(proxy: str | Proxy | None, services: Services) -> str | None:
    """The proxy's address, its user and password inside. Raises ToolError(client_error | auth)."""
    if proxy is None:
        return None
    url, auth = (proxy, None) if isinstance(proxy, str) else (proxy.url, proxy.auth)
    parts = _split(url)
    if auth is None:
        return f"http://{parts}"
    place, data = open_credential(auth, services)
    if http_type(data) != "basic" or find_fault("http", data) is not None:
        raise ToolError("auth", f"{place} cannot be used for the proxy; give `username` and `password`.")
    user, password = (quote(part, safe="") for part in login_of(data))
    return f"http://{user}:{password}@{parts}"


def _split(url: str) -> str:
    """`host:port` of a proxy's address."""
    try:
        parts = urlsplit(url.strip())
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port, parts = None, None, urlsplit("")
    if parts.scheme != "http" or not host or not port or parts.path.strip("/") or parts.query:
        raise ToolError("client_error", "`proxy` must be an address like `http://host:port`.")
    if "@" in parts.netloc:
        raise ToolError(
            "client_error",
            "`proxy` holds a user name or password; give `{url, auth}` with the name of a credential.",
        )
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
