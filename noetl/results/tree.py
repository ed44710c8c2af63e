"""Large values as trees of objects, so that who looks at a part reads that part.

A member of a mapping, or an element of a list, whose JSON is above `NODE_BYTES` becomes another
object; a list above it becomes a manifest of pages, or one table where its rows come back from
it exactly as they are.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, Protocol

from noetl.facts.json import Json, JsonMap
from noetl.facts.reference import MANIFEST, Column
from noetl.results.objects import StoredObject, encode

#: Bytes of JSON above which a part of a value is another object; also about what one page holds.
NODE_BYTES: Final = 256 * 1024
#: Bytes of JSON above which rows are kept as a table. Below, the pages of JSON are read faster than
#: a table is opened.
TABLE_BYTES: Final = 1024 * 1024
#: What lies deeper stays in one object: each level costs a look at all that is below it.
MAX_DEPTH: Final = 16

_INT64: Final = 1 << 63
_TYPES: Final[Mapping[type, str]] = {int: "BIGINT", float: "DOUBLE", bool: "BOOLEAN", str: "VARCHAR"}


class NodeStore(Protocol):
    """Keeps one node."""

    def keep_json(self, raw: bytes, content: bytes) -> StoredObject:
        """`raw` is the JSON of the whole node, `content` that of what is left of it when its parts
        are kept."""

    def keep_rows(self, raw: bytes, columns: Sequence[Column], rows: int) -> StoredObject:
        """`raw` is a list of so many mappings with these columns."""


def keep_tree(nodes: NodeStore, value: Json, raw: bytes, depth: int = 0) -> StoredObject:
    """Keeps `value`, whose JSON is `raw`, with all its parts. Raises what `nodes` raises."""
    if isinstance(value, list | tuple) and len(raw) > TABLE_BYTES and (columns := columns_of(value)):
        return nodes.keep_rows(raw, columns, len(value))
    content = _split(nodes, value, raw, depth)
    return nodes.keep_json(raw, raw if content is value else encode(content))


def _split(nodes: NodeStore, value: Json, raw: bytes, depth: int) -> Json:
    """`value` with references in the place of its large parts; itself where it has none."""
    if len(raw) <= NODE_BYTES or depth >= MAX_DEPTH:
        return value
    if isinstance(value, Mapping):
        parted = {key: _part(nodes, item, depth) for key, item in value.items()}
        return value if all(parted[key] is item for key, item in value.items()) else parted
    if isinstance(value, list | tuple):
        parts = list(_pages(nodes, value, len(raw), depth))
        return {"kind": MANIFEST, "count": len(value), "parts": parts}
    return value


def _part(nodes: NodeStore, value: Json, depth: int) -> Json:
    if not isinstance(value, Mapping | list | tuple | str) or (
        6 * len(value) < NODE_BYTES and isinstance(value, str)
    ):
        return value
    raw = encode(value)
    return value if len(raw) <= NODE_BYTES else keep_tree(nodes, value, raw, depth + 1).nested


def _pages(nodes: NodeStore, items: Sequence[Json], size: int, depth: int) -> Iterator[JsonMap]:
    """Parts of a manifest: a page, or one element that is large by itself."""
    if len(items) == 1:
        yield {"count": 1, "items": [_part(nodes, items[0], depth)]}
        return
    count = -(-len(items) // -(-size // NODE_BYTES))
    for start in range(0, len(items), count):
        page = items[start : start + count]
        raw = encode(page)
        if len(raw) <= NODE_BYTES:
            yield {"count": len(page), "ref": nodes.keep_json(raw, raw).nested}
        else:
            # Items of unequal size: halves are looked at again.
            yield from _pages(nodes, page, max(len(raw), 2 * NODE_BYTES), depth)


def columns_of(rows: Sequence[Json]) -> list[Column]:
    """The columns of a table that holds exactly these rows; none where there is no such table:
    every row has the same keys in the same order, and every key values of one type, or null."""
    first = rows[0] if rows else None
    if type(first) is not dict or not first:
        return []
    names = list(first)
    # Tables tell names apart without regard to case.
    if len({name.lower() for name in names}) < len(names) or any(not one or "\0" in one for one in names):
        return []
    if not all(type(row) is dict and len(row) == len(names) and list(row) == names for row in rows):
        return []
    types = [_type(name, rows) for name in names]
    return [Column(name, kind) for name, kind in zip(names, types, strict=True)] if all(types) else []


def _type(name: str, rows: Sequence[JsonMap]) -> str:
    kinds = {type(row[name]) for row in rows} - {type(None)}
    if len(kinds) > 1:
        return ""
    kind = kinds.pop() if kinds else str
    if kind is int and not all(row[name] is None or -_INT64 <= row[name] < _INT64 for row in rows):
        return ""
    return _TYPES.get(kind, "")
