"""References, their objects and previews: what every result store agrees on.

An object is a value as compact JSON in UTF-8, compressed. Its name is the SHA-256 of that JSON. Keys keep
their order, because templates can see it; the same value in another order is another object.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import re
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from noetl.errors import BadRequest, NotFound
from noetl.facts.json import Json, JsonMap
from noetl.facts.reference import RESULT_REF

#: Characters of JSON, and names of keys, that a preview shows.
PREVIEW: Final = 512
PREVIEW_KEYS: Final = 32

_REF: Final = re.compile(r"noetl://([a-z0-9][a-z0-9_.-]{0,63})/([0-9a-f]{64})")


@dataclass(frozen=True, slots=True)
class Object:
    """A value on its way to a store: its name, its JSON, and what is kept."""

    sha256: str
    json: bytes
    packed: bytes


def pack(value: Json) -> Object:
    """Raises BadRequest where the value is not JSON."""
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    except (TypeError, ValueError, RecursionError) as error:
        raise BadRequest(f"This result cannot be kept, as it is not JSON: {error}.") from error
    raw = text.encode("utf-8", "replace")  # lone surrogates, which are no text, become "?"
    return Object(hashlib.sha256(raw).hexdigest(), raw, gzip.compress(raw, compresslevel=4, mtime=0))


def unpack(sha256: str, packed: bytes) -> tuple[Json, int]:
    """The value and the size of its JSON. Raises NotFound where the object is not what its name says."""
    try:
        raw = gzip.decompress(packed)
    except (OSError, EOFError, zlib.error) as error:
        raise NotFound(f"The result {sha256} is damaged ({error}); run its step again.") from error
    if hashlib.sha256(raw).hexdigest() != sha256:
        raise NotFound(f"The result {sha256} is damaged (its content has another hash); run its step again.")
    return json.loads(raw), len(raw)


def reference(store: str, value: Json, packed: Object) -> JsonMap:
    """What stands for the value: `{kind, ref, meta: {bytes, sha256, content_type, compression}, preview}`."""
    return {
        "kind": RESULT_REF,
        "ref": f"noetl://{store}/{packed.sha256}",
        "meta": {
            "bytes": len(packed.json),
            "sha256": packed.sha256,
            "content_type": "application/json",
            "compression": "gzip",
        },
        "preview": preview(value, packed.json),
    }


def preview(value: Json, raw: bytes) -> JsonMap:
    """`{type, head}` with the first characters of the JSON; with `length`, and `keys` of a mapping."""
    head = raw[: 4 * PREVIEW].decode("utf-8", "ignore")[:PREVIEW]
    match value:
        case Mapping():
            keys = [str(key) for _, key in zip(range(PREVIEW_KEYS), value, strict=False)]
            return {"type": "object", "length": len(value), "keys": keys, "head": head}
        case list() | tuple():
            return {"type": "array", "length": len(value), "head": head}
        case str():
            return {"type": "string", "length": len(value), "head": head}
        case _:
            return {"type": "scalar", "head": head}


def name_of(store: str, found: Mapping[str, Any]) -> str:
    """The SHA-256 that a reference of `store` names. Raises BadRequest, or NotFound for another store's."""
    ref = found.get("ref")
    parts = _REF.fullmatch(ref) if isinstance(ref, str) else None
    if parts is None:
        raise BadRequest(f"{str(ref)[:200]!r} is no reference to a result: noetl://<store>/<sha256> is.")
    if parts[1] != store:
        raise NotFound(f"The result {ref} is in the store {parts[1]!r}; this one is {store!r}.")
    return parts[2]
