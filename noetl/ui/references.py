"""What references to results say of themselves, and where what they stand for is found."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Final
from urllib.parse import quote

from noetl.facts.json import Json, JsonMap
from noetl.facts.reference import MANIFEST
from noetl.ui.json_text import make_visible

#: References that the API answers for.
_OURS: Final = re.compile(r"noetl://results/((?:[a-z0-9]+/){0,2}[0-9a-f]{64}(?:\.[a-z]{1,16})?)")
#: Bytes of what is opened though it can only be read as a whole.
MOST_WHOLE: Final = 1024 * 1024
#: What pages of rows are read of, however large it is.
_BY_ROWS: Final = frozenset({".parquet", ".ndjson"})
#: Kept in pieces, of which only those are read that are looked into.
_IN_PIECES: Final = frozenset({"array", "object"})
_UNITS: Final = ("kB", "MB", "GB", "TB")
#: Content types of what browsers show as a picture.
PICTURES: Final = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp", "image/svg+xml"})
_KINDS: Final[Mapping[str, str]] = {
    "application/json": "JSON",
    "application/vnd.apache.parquet": "Parquet",
    "application/x-ndjson": "NDJSON",
    "text/csv": "CSV",
    "text/plain": "text",
    "image/png": "PNG",
    "image/jpeg": "JPEG",
    "image/svg+xml": "SVG",
}
_LONGEST: Final = 80
_NOUNS: Final[Mapping[str, str]] = {"array": "item", "object": "field", "string": "character"}


@dataclass(frozen=True, slots=True)
class ReferenceFacts:
    """What a reference says: `content_type` empty and `size` None where it does not. `name` is
    where the API has it, below `/api/results/`; empty: nowhere."""

    name: str
    content_type: str
    size: int | None
    length: int | None
    type: str
    expires_at: str

    @property
    def whole(self) -> str:
        """The address of all of it as JSON."""
        return f"/api/results/{quote(self.name)}" if self.name else ""

    @property
    def file(self) -> str:
        """The address of the bytes that were kept, where that is another thing than JSON."""
        return f"{self.whole}?raw=1" if self.suffix not in ("", ".json") else ""

    @property
    def suffix(self) -> str:
        return PurePosixPath(self.name).suffix

    @property
    def picture(self) -> str:
        """The address of the picture that it is; empty: it is none."""
        is_picture = self.content_type in PICTURES and self.suffix == ".bytes"
        return f"/pictures/{quote(self.name)}" if is_picture else ""

    @property
    def about(self) -> str:
        """What it is, in a few words: `30,000 rows, Parquet, 2.1 MB`."""
        size = "" if self.size is None else say_size(self.size)
        kind = "" if self._length and self.content_type == "application/json" else say_kind(self.content_type)
        return ", ".join(filter(None, (self._length, kind, size))) or "a result that is kept apart"

    @property
    def _length(self) -> str:
        if self.length is None:
            return ""
        noun = "row" if self.suffix in _BY_ROWS else _NOUNS.get(self.type, "item")
        return f"{self.length:,} {noun}{'s' if self.length != 1 else ''}"


def read_reference(reference: JsonMap) -> ReferenceFacts:
    """What a reference says of itself. A tool may have returned what only looks like one: whatever
    it has in its fields, nothing is raised."""
    found = _OURS.fullmatch(_text(reference.get("ref")))
    meta, preview = (_map(reference.get(name)) for name in ("meta", "preview"))
    is_manifest = reference.get("kind") == MANIFEST
    lengths = (reference.get("count") if is_manifest else None, meta.get("rows"), preview.get("length"))
    return ReferenceFacts(
        name=found[1] if found else "",
        content_type=make_visible(_text(meta.get("content_type")).partition(";")[0].strip().lower())[
            :_LONGEST
        ],
        size=_count(meta.get("bytes")),
        length=next((each for each in map(_count, lengths) if each is not None), None),
        type="array" if is_manifest else _text(preview.get("type")),
        expires_at=_text(reference.get("expires_at"))[:_LONGEST],
    )


def may_open(reference: JsonMap, facts: ReferenceFacts) -> bool:
    """Whether a part of it can be read at the price of that part; else it has to be small."""
    if reference.get("kind") == MANIFEST or facts.suffix in _BY_ROWS:
        return True
    if facts.suffix in ("", ".json"):
        # Inside of others references have no preview.
        return facts.type in _IN_PIECES or (facts.size or 0) <= MOST_WHOLE
    return facts.suffix != ".bytes" and facts.size is not None and facts.size <= MOST_WHOLE


def preview_of(reference: JsonMap) -> Json:
    """The first rows, or the beginning of the text of what a reference stands for; None where it
    does not say."""
    preview = _map(reference.get("preview"))
    if isinstance(rows := preview.get("rows"), list) and rows:
        return rows
    head = preview.get("head")
    return head if isinstance(head, str) and head else None


def say_size(size: int) -> str:
    """Bytes for people: `512 bytes`, `2.1 MB`."""
    if size < 1000:
        return f"{size} byte{'s' if size != 1 else ''}"
    power = min(len(_UNITS), (len(str(size)) - 1) // 3)
    return f"{size / 1000**power:.3g} {_UNITS[power - 1]}"


def say_kind(content_type: str) -> str:
    """A content type for people: `Parquet`, `JSON`, `CSV`; others as they are."""
    return _KINDS.get(content_type, content_type)


def _text(value: Json) -> str:
    return value if isinstance(value, str) else ""


def _map(value: Json) -> JsonMap:
    return value if isinstance(value, Mapping) else {}


def _count(value: Json) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**63 else None
