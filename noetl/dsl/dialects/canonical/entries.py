"""Entries of the keychain as authors from elsewhere write them: `scope: global` has no effect."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

from noetl.dsl.dialects.canonical.shapes import at
from noetl.dsl.document.parts import Parts
from noetl.dsl.problems import Path
from noetl.dsl.read.origins import Origins
from noetl.dsl.read.report import ProblemReport
from noetl.facts.json import Json


def rewrite(
    _parts: Parts, data: dict[str, Json], report: ProblemReport
) -> tuple[dict[str, Json], Origins] | None:
    """`data` without what means nothing in its keychain; None where there is nothing of it."""
    found = [path for path, entry in _entries(data.get("keychain")) if entry.get("scope") == "global"]
    if not found:
        return None
    written = copy.deepcopy(data)
    for path in found:
        report.respell((*path, "scope"))
        del at(written, path)["scope"]
    return written, {}


def _entries(keychain: Any) -> Iterator[tuple[Path, dict[str, Any]]]:
    items = keychain.items() if isinstance(keychain, dict) else enumerate(keychain or ())
    for key, entry in items:
        if isinstance(entry, dict):
            yield ("keychain", key), entry
