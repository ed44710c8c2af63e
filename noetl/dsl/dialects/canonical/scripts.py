"""Other forms of `script` and `libs`, which are accepted without a word: each is rewritten to what
it means.

`script: {uri, source: {type}}` says beside the place what it is, and `libs: {name: {from, import}}`
takes an import apart.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from typing import Any, Final

from noetl.dsl.document import Tool
from noetl.dsl.document.parts import Parts
from noetl.dsl.problems import Path
from noetl.dsl.read.origins import Origins
from noetl.dsl.read.report import ProblemReport
from noetl.facts.json import Json

#: `source.type` → what the canonical form calls such a place.
_PLACES: Final[Mapping[str, str]] = {"file": "file", "http": "url", "ref": "ref"}
#: Keys of a script that say where it is: where one stands, the `uri` of another form does not
#: count.
_CANONICAL: Final = frozenset({"file", "path", "ref", "url"})
_INLINE: Final = ("code", "text", "command")
_SQL: Final = frozenset({"postgres", "duckdb", "sqlite"})
_LIB_KEYS: Final = frozenset({"from", "import"})


def rewrite(
    parts: Parts, data: dict[str, Json], report: ProblemReport
) -> tuple[dict[str, Json], Origins] | None:
    """`data`, whose document has these `parts`, without them; None where it has none."""
    found = [path for part, path in parts if isinstance(part, Tool)]
    written, origins = copy.deepcopy(data), dict[Path, Path]()
    changed = False
    for tool in found:
        for place in (tool, (*tool, "spec")):
            around = _at(written, place)
            if isinstance(around, dict):
                kind = str(_at(written, tool).get("kind"))
                spots = [*_libs(around), *_script(around, kind)]
                for key, value, new in spots:
                    _put(around, key, new, value)
                    origins[(*place, new)] = (*place, key)
                    report.respell((*place, key))
                    changed = True
    return (written, origins) if changed else None


def _at(data: Any, path: Path) -> Any:
    for key in path:
        data = data.get(key) if isinstance(data, dict) else data[key]
    return data


def _put(around: dict[str, Any], old: str, new: str, value: Any) -> None:
    """Puts `value` under `new` in the place of `old`; what stands under `new` already wins."""
    items = list(around.items())
    around.clear()
    for key, known in items:
        if key != old:
            around[key] = known
        elif key == new or all(name != new for name, _ in items):
            around[new] = value


def _libs(around: Mapping[str, Any]) -> Iterator[tuple[str, Any, str]]:
    libs = around.get("libs")
    if isinstance(libs, dict) and any(map(_is_import, libs.values())):
        yield "libs", {alias: _dotted(one) for alias, one in libs.items()}, "libs"


def _is_import(value: Any) -> bool:
    return isinstance(value, dict) and bool(value) and value.keys() <= _LIB_KEYS


def _dotted(value: Any) -> Any:
    """`math.pi` of `{from: math, import: pi}`; either may stand alone."""
    if not _is_import(value):
        return value
    named = [one for one in (value.get("from"), value.get("import")) if one]
    return ".".join(named) if all(isinstance(one, str) for one in named) else value


def _script(around: Mapping[str, Any], kind: str) -> Iterator[tuple[str, Any, str]]:
    script = around.get("script")
    source = script.get("source") if isinstance(script, dict) else None
    if not isinstance(script, dict) or not isinstance(source, dict):
        return
    rest = {key: value for key, value in script.items() if key not in ("uri", "source")}
    sort = str(source.get("type"))
    if rest.keys() & _CANONICAL:
        yield "script", rest, "script"
    elif sort in _PLACES and script.get("uri") is not None:
        yield "script", {_PLACES[sort]: script["uri"], **rest}, "script"
    elif sort == "inline":
        text = next((source[key] for key in _INLINE if source.get(key) is not None), None)
        if text is not None:
            yield "script", text, "command" if kind in _SQL else "code"
