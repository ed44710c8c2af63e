"""What HTTP carries, apart from the library that sends it: requests with their limits, responses,
and values of a playbook as header fields, queries and forms."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from noetl.errors import ToolError
from noetl.facts import json
from noetl.facts.json import Json

_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
#: What the transport itself says about the message; set by hand they let one request end inside of
#: another.
_FRAMING = frozenset({"content-length", "transfer-encoding", "connection", "upgrade"})
#: Bytes of a body that is written to a file.
FILE_BYTES = 8 * 1024**3


@dataclass(frozen=True, slots=True)
class RequestLimits:
    """`connect`, `read` (one wait for bytes) and `total` in seconds; `body` in bytes, decompressed,
    and `file_body` of one that is written to a file."""

    connect: float
    read: float
    total: float
    body: int
    error_body: int = 64 * 1024
    file_body: int = FILE_BYTES
    redirects: int = 5


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """What to send. `body` is bytes, or pairs for a form; `files` are `(field, (name, content,
    type))`."""

    method: str
    url: str
    headers: Mapping[str, str] = field(default_factory=dict)
    params: Sequence[tuple[str, str]] = ()
    body: bytes | Sequence[tuple[str, str]] | None = None
    files: Sequence[tuple[str, tuple[str, bytes, str]]] = ()
    verify: bool | str = True
    follow: bool = True
    #: Address of an http proxy, with the user and the password that it asks for.
    proxy: str | None = field(default=None, repr=False)
    #: The file that the body of an answer is written to, unless it is that of an error.
    into: Path | None = None


@dataclass(frozen=True, slots=True)
class HttpResponse:
    """What came back: header names in lower case, `body` decompressed, `elapsed` in seconds. A body
    that was written to `file` is empty here."""

    status: int
    reason: str
    headers: Mapping[str, str]
    url: str
    elapsed: float
    body: bytes
    redirects: int = 0
    file: Path | None = None


def bare(url: str) -> str:
    """`url` without its query, which may hold secrets; fit for messages."""
    return url.partition("?")[0].partition("#")[0][:300]


def same_origin(old: str, new: str) -> bool:
    """Whether secrets meant for `old` may be shown to `new`: the same, or the same host by way of
    TLS."""
    a, b = urlsplit(old), urlsplit(new)
    ports = {"http": 80, "https": 443}
    here, there = ((one.scheme, one.port or ports.get(one.scheme)) for one in (a, b))
    return a.hostname == b.hostname and (here == there or (here, there) == (("http", 80), ("https", 443)))


def header_fields(given: Mapping[str, Json]) -> dict[str, str]:
    """Headers with names in lower case, nulls left out. Raises ToolError(client_error) without the
    value."""
    headers: dict[str, str] = {}
    for name, value in given.items():
        text = text_of(value).strip(" \t")
        if not _TOKEN.fullmatch(name) or name.lower() in _FRAMING:
            raise ToolError("client_error", f"Header {name[:80]!r} cannot be set; leave it out or rename it.")
        if any((ord(char) < 32 and char != "\t") or ord(char) == 127 for char in text):
            raise ToolError("client_error", f"Header '{name}' holds a line break or a control character.")
        if value is not None:
            # http.client writes latin-1: bytes of UTF-8 read as such go out as UTF-8.
            headers[name.lower()] = text if text.isascii() else text.encode().decode("latin-1")
    return headers


def text_of(value: Json) -> str:
    """A value as text: booleans as in JSON, nothing for null, mappings and lists as JSON."""
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


def pairs(values: Mapping[str, Json] | Sequence[tuple[str, Json]]) -> list[tuple[str, str]]:
    """Names and texts for a query or a form: lists repeat the name, nulls are left out."""
    items = values.items() if isinstance(values, Mapping) else values
    flat: list[tuple[str, str]] = []
    for name, value in items:
        every = value if isinstance(value, list) else [value]
        flat += [(str(name), text_of(item)) for item in every if item is not None]
    return flat
