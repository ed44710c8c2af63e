"""What the tool `http` makes of an answer: the data of its body, or the error that it stands
for."""

from __future__ import annotations

import base64
import json
import re
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from email.utils import parsedate_to_datetime
from math import isfinite
from typing import Any, Literal
from urllib.parse import urljoin

from noetl.errors import ToolError
from noetl.facts.json import Json, JsonMap, float_or_exact
from noetl.facts.values import NOT_FINITE
from noetl.tools.kit.call_secrets import current_mask
from noetl.tools.kit.http.messages import HttpResponse, bare, same_origin
from noetl.tools.kit.masking import MASK

#: How a body is read; None: as its content type says.
Form = Literal["json", "text", "bytes"]

_ERROR_BODY = 4096
#: The kind of error that a status stands for, and whether another attempt may help.
_MEANINGS = {
    401: ("auth", False),
    403: ("auth", False),
    407: ("auth", False),
    408: ("timeout", True),
    425: ("client_error", True),
    429: ("rate_limit", True),
    501: ("server_error", False),
    505: ("server_error", False),
}
#: Types of a document for each line: how many there are must not change what the data is.
_LINES = re.compile(r"ndjson|jsonl|json-?(?:lines|seq|stream)")
#: Content encodings that every worker reads.
_READ = frozenset({"", "identity", "gzip", "x-gzip", "deflate"})
_CHARSET = re.compile(r"charset\s*=\s*\"?([\w.:-]+)", re.ASCII | re.IGNORECASE)


def content(answer: HttpResponse, form: Form | None, notes: set[str]) -> dict[str, Json]:
    """`{data}`: JSON where it is JSON, else text; bytes that are not text as base64, with
    `encoding`.

    With `form` the body is read as that, whatever the content type says. An empty one is null.
    Raises ToolError(server_error | limit) where it must be JSON and is none."""
    content_type = answer.headers.get("content-type", "").lower()
    if not answer.body:
        return {"data": None}
    if form == "bytes":
        return _in_base64(answer.body)
    text = _decode(answer.body, content_type)
    if form == "text":
        return {"data": text if text is not None else answer.body.decode("utf-8", "replace")}
    is_lines = _LINES.search(content_type) is not None
    if form == "json" or ("json" in content_type.partition(";")[0] and not is_lines):
        return {"data": _declared_json(answer, text, form, notes)}
    if text is None:
        return _in_base64(answer.body)
    if text.lstrip()[:1] in ("{", "[") and "html" not in content_type and not is_lines:
        try:
            return {"data": read_json(text, notes)}
        except (ValueError, RecursionError):
            return {"data": text}
    return {"data": text}


def mask_secrets(answer: HttpResponse) -> HttpResponse:
    """`answer` without the secrets of the request, which servers echo: before anything of it is cut
    for a message."""
    black = current_mask()
    if not black:
        return answer
    headers = {name: black.text(value) for name, value in answer.headers.items()}
    body, url, reason = black.bytes(answer.body), black.text(answer.url), black.text(answer.reason)
    return replace(answer, headers=headers, body=body, url=url, reason=reason)


def links(answer: HttpResponse) -> dict[str, str]:
    """Address by `rel` of the Link header (RFC 8288), relative ones resolved. Only those of the
    server that answered: a request that follows them sends the credentials of this call. Without
    its secrets, which may stand in the addresses."""
    header = answer.headers.get("link")
    if not header:
        return {}
    from requests.utils import parse_header_links  # see `noetl.tools.http.tool`

    found: dict[str, str] = {}
    for link in parse_header_links(header):
        target = urljoin(answer.url, str(link.get("url", "")))
        for rel in str(link.get("rel", "")).lower().split():
            if same_origin(answer.url, target):
                found.setdefault(rel, _without_masks(current_mask().text(target)))
    return found


def _without_masks(url: str) -> str:
    """`url` without the parameters that a secret was taken out of: the next request adds them
    again."""
    head, sign, query = url.partition("?")
    kept = [pair for pair in query.split("&") if pair.partition("=")[2] != MASK]
    return f"{head}{sign}{'&'.join(kept)}" if kept else head


def _in_base64(body: bytes) -> dict[str, Json]:
    return {"data": base64.b64encode(body).decode("ascii"), "encoding": "base64"}


def _declared_json(answer: HttpResponse, text: str | None, form: Form | None, notes: set[str]) -> Json:
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
            f"{place} {'was asked for' if form else 'says that it sends'} JSON, but its body is "
            f"none: {_cause(answer, text, error)}.",
            type="InvalidJson",
            extras={
                "http": {"status": answer.status, "headers": dict(answer.headers), "body": _excerpt(answer)}
            },
        ) from error


def _cause(answer: HttpResponse, text: str | None, error: ValueError) -> str:
    encoding = answer.headers.get("content-encoding", "").strip().lower()
    if encoding not in _READ:
        return f"it came encoded as '{encoding}', which was not asked for"
    return "it is not UTF-8" if text is None else str(error)


def _decode(body: bytes, content_type: str) -> str | None:
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
    """Parses JSON. A number that no float holds is exact. What is none for JSON (NaN, 1e999)
    becomes null, and `notes` says so."""

    def finite(literal: str) -> float | int | Decimal | None:
        number = float_or_exact(literal)
        if isfinite(number):
            return number
        notes.add(NOT_FINITE)
        return None

    return json.loads(text, parse_float=finite, parse_constant=finite)


def refusal(method: str, answer: HttpResponse, seen: JsonMap) -> ToolError:
    """The error that a status from 400 on stands for."""
    other = ("server_error", True) if answer.status >= 500 else ("client_error", False)
    kind, retryable = _MEANINGS.get(answer.status, other)
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
        extras={"http": extras, "status": answer.status},
    )


def _excerpt(answer: HttpResponse) -> Json:
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
