"""References, their objects and previews: what every result store agrees on.

The reference of an object is `noetl://<store>/<place>/<sha256>.<form>`. The hash is that of its
content before compression; of a value that is its compact JSON in UTF-8. Keys keep their order,
because templates can see it; the same value in another order is another object. A reference without
place and form is of an older layout, and is JSON.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import re
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Final, Literal, TypeAlias

from noetl.errors import BadRequest, NotFound
from noetl.facts import json
from noetl.facts.json import Json, JsonMap
from noetl.facts.reference import OF_REFERENCES, RESULT_REF, Column, Retention

#: Characters of JSON, and names of keys, that a preview shows.
PREVIEW: Final = 512
PREVIEW_KEYS: Final = 32
#: Rows of a table that a preview shows at most.
PREVIEW_ROWS: Final = 5

#: How the bytes of an object are to be read.
Form: TypeAlias = Literal["json", "parquet", "ndjson", "csv", "text", "bytes"]

#: The content type of values.
JSON: Final = "application/json"
#: The content type of tables.
PARQUET: Final = "application/vnd.apache.parquet"

CONTENT_TYPES: Final[Mapping[str, Form]] = {
    JSON: "json",
    PARQUET: "parquet",
    "application/x-ndjson": "ndjson",
    "text/csv": "csv",
    "text/plain": "text",
}

_PLACE: Final = r"(?:executions/[0-9]{1,19}|running/[0-9]{1,19}|until/[0-9]{1,10}|permanent)"
_STORE: Final = r"[a-z0-9][a-z0-9_.-]{0,63}"
_REF: Final = re.compile(
    rf"noetl://({_STORE})/(?:({_PLACE})/)?([0-9a-f]{{64}})(?:\.(json|parquet|ndjson|csv|text|bytes))?"
)
PLACE: Final = re.compile(_PLACE)


@dataclass(frozen=True, slots=True)
class ObjectName:
    """Where an object is: the store, its place (empty: of the older layout), the hash of its
    content, its form."""

    store: str
    place: str
    sha256: str
    form: Form

    @property
    def compressed(self) -> bool:
        """Parquet is compressed already, and files of unknown sorts are handed out as they came."""
        return self.form not in ("parquet", "bytes")

    @property
    def path(self) -> str:
        """Below the base of a store."""
        end = ".gz" if self.compressed else ""
        if not self.place:
            return f"{self.sha256[:2]}/{self.sha256}.json.gz"
        return f"{self.place}/{self.sha256}.{self.form}{end}"

    @property
    def url(self) -> str:
        """`noetl://<store>/<place>/<sha256>.<form>`"""
        return f"noetl://{self.store}/{self.place}/{self.sha256}.{self.form}"


@dataclass(frozen=True, slots=True)
class StoredObject:
    """What a reference tells of an object. `size` is that of its content in bytes, of a value that
    of all its JSON; `rows` is the length of a table."""

    name: ObjectName
    size: int
    content_type: str
    rows: int | None = None

    @property
    def nested(self) -> JsonMap:
        """The short reference, for inside of another object."""
        meta = {"bytes": self.size, "content_type": self.content_type, **self._rows}
        return {"kind": RESULT_REF, "ref": self.name.url, "meta": meta}

    @property
    def _rows(self) -> JsonMap:
        return {} if self.rows is None else {"rows": self.rows}

    @property
    def meta(self) -> JsonMap:
        return {
            "bytes": self.size,
            "sha256": self.name.sha256,
            "content_type": self.content_type,
            "compression": "gzip" if self.name.compressed else None,
            **self._rows,
        }


_encode: Final = json.encoder(typed=True)


def encode(value: Json) -> bytes:
    """Compact JSON in UTF-8. Raises BadRequest where the value is not JSON."""
    try:
        text = _encode(value)
    except (TypeError, ValueError, RecursionError) as error:
        raise BadRequest(f"This result cannot be kept, as it is not JSON: {error}.") from error
    return text.encode("utf-8", "replace")  # lone surrogates, which are not text, become "?"


def pack(store: str, content: bytes, place: str) -> tuple[ObjectName, bytes]:
    """The name of an object of JSON, and its bytes as they are kept."""
    name = ObjectName(store, place, hashlib.sha256(content).hexdigest(), "json")
    return name, gzip.compress(content, compresslevel=4, mtime=0)


def damage(name: ObjectName, why: str) -> NotFound:
    return NotFound(f"The result {name.sha256} is damaged ({why}); run its step again.")


def unpack(name: ObjectName, packed: bytes) -> bytes:
    """The content of an object. Raises NotFound where it is not what its name says."""
    try:
        raw = gzip.decompress(packed) if name.compressed else packed
    except (OSError, EOFError, zlib.error) as error:
        raise damage(name, str(error)) from error
    if hashlib.sha256(raw).hexdigest() != name.sha256:
        raise damage(name, "its content has another hash")
    return raw


def value_of(form: Form, raw: bytes) -> Json:
    """What the content of an object that is no table stands for."""
    match form:
        case "json":
            return json.loads(raw)
        case "text" | "csv":
            return raw.decode("utf-8", "replace")
        case _:
            return base64.b64encode(raw).decode()


def reference(kept: StoredObject, keep: Retention, preview: JsonMap, location: str) -> JsonMap:
    """What stands for an object (see `noetl.facts.reference`). `location` is where its store lies:
    `disk`, `s3`, ..."""
    return {
        "kind": RESULT_REF,
        "ref": kept.name.url,
        "store": kept.name.store,
        "location": location,
        "scope": keep.scope,
        "expires_at": keep.until.isoformat() if keep.until else None,
        "meta": kept.meta,
        "preview": preview,
    }


def table_preview(length: int, columns: Sequence[Column], first: Sequence[JsonMap]) -> JsonMap:
    """`{type, length, columns, rows}` with the first rows, as many as a preview has characters
    for."""
    named = [{"name": one.name, "type": one.type} for one in columns]
    sizes = accumulate(len(json.dumps(row, ensure_ascii=False)) for row in first)
    fitting = [row for row, size in zip(first, sizes, strict=True) if size <= PREVIEW]
    return {"type": "array", "length": length, "columns": named, "rows": fitting}


def preview(value: Json, raw: bytes) -> JsonMap:
    """`{type, head}` with the first characters of the JSON; with `length`, and `keys` of a
    mapping."""
    head = raw[: 4 * PREVIEW].decode("utf-8", "ignore")[:PREVIEW]
    match value:
        case Mapping():
            keys = [str(key) for _, key in zip(range(PREVIEW_KEYS), value, strict=False)]
            # Templates must find those among them, without a fetch.
            keys += [key for key in OF_REFERENCES if key in value and key not in keys]
            return {"type": "object", "length": len(value), "keys": keys, "head": head}
        case list() | tuple():
            return {"type": "array", "length": len(value), "head": head}
        case str():
            return {"type": "string", "length": len(value), "head": head}
        case _:
            return {"type": "scalar", "head": head}


def name_of(store: str, found: Mapping[str, Any]) -> ObjectName:
    """Where the object is that a reference of `store` names. Raises BadRequest, or NotFound for
    another store's."""
    ref = found.get("ref")
    parts = _REF.fullmatch(ref) if isinstance(ref, str) else None
    if parts is None:
        raise BadRequest(
            f"{str(ref)[:200]!r} is no reference to a result: noetl://<store>/<place>/<sha256>.<form> is."
        )
    if parts[1] != store:
        raise NotFound(f"The result {ref} is in the store {parts[1]!r}; this one is {store!r}.")
    form: Form = parts[4] or "json"  # type: ignore[assignment]  # the pattern's own
    return ObjectName(store, parts[2] or "", parts[3], form)
