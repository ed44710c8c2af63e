"""`/api/results`: large results, whole, in part, or as the bytes that were kept."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import Final

from flask import Response, jsonify, request

from noetl.api.answers import JsonObject
from noetl.api.context import services
from noetl.api.groups import group
from noetl.api.requests import ResultPath, ResultQuery
from noetl.facts.json import JsonMap
from noetl.facts.reference import Lazy
from noetl.usecases import results
from noetl.usecases.ports import Results

api = group("results", "/api/results", "Large results")

BLOCK = 256 * 1024
JSON = "application/json"
#: How the bytes of each form are called.
MEDIA_TYPES = {
    ".json": JSON,
    ".parquet": "application/vnd.apache.parquet",
    ".ndjson": "application/x-ndjson",
    ".csv": "text/csv",
    ".text": "text/plain",
    ".bytes": "application/octet-stream",
}

#: A large result: its value, some of its items, or the bytes that were kept.
_RESULT: Final[JsonObject] = {
    "description": "The value; of a list that is asked for in part {items, offset, length, next}; or the "
    "bytes",
    "content": {
        "application/json": {"schema": {}},
        "application/vnd.apache.parquet": {"schema": {"type": "string", "format": "binary"}},
        "application/x-ndjson": {"schema": {"type": "string", "format": "binary"}},
        "text/csv": {"schema": {"type": "string"}},
        "text/plain": {"schema": {"type": "string"}},
        "application/octet-stream": {"schema": {"type": "string", "format": "binary"}},
    },
}


@api.get("/<path:name>", responses={200: _RESULT})
def result(path: ResultPath, query: ResultQuery) -> Response:
    """Show a large result

    `noetl://results/...` lies at `/api/results/...`. As JSON: the whole value, or with `offset` and
    `limit` some items of a list or rows of a table: `{items, offset, length, next}`. With `raw=1`,
    or where `Accept` prefers its content type, the bytes that were kept, such as a Parquet file.
    The `ETag` is the hash of the content.
    """
    kept = services().rt.results
    reference = results.reference_of(f"noetl://results/{path.name}")
    file = PurePosixPath(path.name)
    media_type = MEDIA_TYPES.get(file.suffix, JSON)
    if {"offset", "limit"} & query.model_fields_set:
        found = results.page(kept.load, reference, query.offset or 0, query.limit)
        names = ("items", "offset", "length", "next")
        return jsonify({name: getattr(found, name) for name in names})
    raw = query.raw or request.accept_mimetypes.best_match([JSON, media_type], JSON) != JSON
    is_file = raw and media_type != JSON
    response = _bytes(kept, reference, media_type) if is_file else _json(kept, reference)
    response.set_etag(file.stem)
    if query.raw:
        response.headers["Content-Disposition"] = f'attachment; filename="{file.name}"'
    # Content never changes: who has it need not fetch it again.
    return response.make_conditional(request)  # type: ignore[return-value]


def _json(kept: Results, reference: JsonMap) -> Response:
    value = kept.load(reference)
    pieces = results.json_of(value, kept.load)
    # The first ones are read now, while an error can still be answered.
    first = list(itertools.islice(pieces, 2 if isinstance(value, Lazy) else 1))
    return Response(itertools.chain(first, pieces), mimetype=JSON)


def _bytes(kept: Results, reference: JsonMap, media_type: str) -> Response:
    with contextlib.ExitStack() as stack:
        path = stack.enter_context(kept.file(reference))
        file = stack.enter_context(path.open("rb"))
        length = path.stat().st_size
        release = stack.pop_all()

    def blocks() -> Iterator[bytes]:
        with release:
            while block := file.read(BLOCK):
                yield block

    response = Response(blocks(), mimetype=media_type, headers={"Content-Length": str(length)})
    # A generator that was never begun never reaches its end.
    response.call_on_close(release.close)
    return response
