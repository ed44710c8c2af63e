"""Values as people see them: references to large results replaced by the results."""

from __future__ import annotations

import json
from collections.abc import Mapping

from noetl.errors import BadRequest, NotFound, Unavailable
from noetl.facts.json import Json, JsonMap
from noetl.facts.reference import MANIFEST, Lazy, holds_reference, is_reference, loaded
from noetl.usecases.runtime import Runtime

#: Bytes of large results that one report shows in the place of their references.
SHOWN_BYTES = 8 * 1024 * 1024


def resolve(rt: Runtime, value: Json) -> Json:
    """What a value stands for where it is a reference, with those inside of it replaced as
    `Resolver` does."""
    whole = loaded(value, rt.load)
    return Resolver(rt)(value if isinstance(whole, Lazy) else whole)


class Resolver:
    """Replaces references, at any depth, by what they stand for, up to `SHOWN_BYTES` together. Each
    result counts once.

    Beyond that, and where a result is gone, the reference and its preview speak for it.
    """

    def __init__(self, rt: Runtime) -> None:
        self._rt = rt
        self._left = SHOWN_BYTES
        self._known: dict[str, Json] = {}

    def __call__(self, value: Json) -> Json:
        return self._replace(value) if holds_reference(value) else value

    def _replace(self, value: Json) -> Json:
        if isinstance(value, Mapping):
            if is_reference(value):
                return self._load(value)
            return {key: self._replace(item) for key, item in value.items()}
        return [self._replace(item) for item in value] if isinstance(value, list) else value

    def _load(self, reference: JsonMap) -> Json:
        name = reference.get("ref")
        if name is None:
            return self._fetch(reference)
        if name not in self._known:
            self._known[name] = reference
            self._known[name] = self._fetch(reference)
        return self._known[name]

    def _fetch(self, reference: JsonMap) -> Json:
        if _size_of(reference) > self._left:
            return reference
        try:
            whole = loaded(reference, self._rt.load)
            if isinstance(whole, Lazy):
                return self._read_rows(reference, whole)
            self._left -= _size_of(reference)
            return self(whole)
        except (NotFound, Unavailable, BadRequest):
            # Gone, out of reach, or data of a tool that only looks like a reference.
            return reference

    def _read_rows(self, reference: JsonMap, rows: Lazy) -> Json:
        """The list where all of it fits, as far as its first pages tell: it is read until they tell
        that it will not."""
        before, size, found = self._left, 0, list[Json]()
        for page in rows.pages():
            # References among the items speak for themselves, or count as what they stand for.
            size += len(json.dumps([item for item in page if not is_reference(item)]))
            found += [self(item) for item in page]
            if size * len(rows) > self._left * len(found):
                self._left = before
                return reference
        self._left -= size
        return found


def _size_of(reference: JsonMap) -> int:
    """Bytes of what it stands for, as far as it says. A manifest tells of its parts while they are
    read."""
    meta = reference.get("meta")
    size = meta.get("bytes") if isinstance(meta, Mapping) else None
    if isinstance(size, int):
        return size
    return 0 if reference.get("kind") == MANIFEST else SHOWN_BYTES + 1
