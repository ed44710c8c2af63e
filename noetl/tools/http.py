"""The tool `http`: one request, answered by `{status_code, headers, url, elapsed, data}`."""

from __future__ import annotations

import base64
import json
import math
import re
import threading
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any, ClassVar

from noetl.errors import ToolError
from noetl.facts.json import Json, JsonMap
from noetl.facts.outcome import Outcome, succeeded
from noetl.pipeline.model import Call
from noetl.tools.base import Services, Tool, ToolConfig
from noetl.tools.http_request import HttpConfig, limits_of, order_of

if TYPE_CHECKING:
    from noetl.tools.transport import Answer, Client

_ERROR_BODY = 4096
_CHARSET = re.compile(r"charset\s*=\s*\"?([\w.:-]+)", re.ASCII | re.IGNORECASE)


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
        extras={"http": extras, "status": answer.status},
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
