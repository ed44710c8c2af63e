"""Other forms of what takes several keys: loops over rows with `mode: cursor` or `row_concurrency`,
`script` with `source`, `libs` with `from` and `import`, `scope` of the keychain."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from typing import Any, Final

from noetl import expressions
from noetl.dsl.dialects.canonical.shapes import Rewritten, replace_key
from noetl.dsl.document import Loop, Tool
from noetl.dsl.document.base import Parts
from noetl.dsl.document.texts import is_template
from noetl.dsl.problems import Code, Path, quote_value
from noetl.dsl.read.origins import value_at
from noetl.dsl.read.report import ProblemReport
from noetl.errors import TemplateError
from noetl.facts.json import Json

#: `source.type` → what the canonical form calls such a place.
_PLACES: Final[Mapping[str, str]] = {"file": "file", "http": "url", "ref": "ref"}
#: Keys of a script that say where it is: where one stands, the `uri` of another form does not
#: count.
_CANONICAL: Final = frozenset({"file", "path", "ref", "url"})
_INLINE: Final = ("code", "text", "command")
_SQL: Final = frozenset({"postgres", "duckdb", "sqlite"})
_LIB_KEYS: Final = frozenset({"from", "import"})


def rewrite_frames(parts: Parts, data: dict[str, Json], report: ProblemReport) -> Rewritten:
    """`data`, whose document has these `parts`, with `max_in_flight` for what says in another way
    how many iterations run at once; None where nothing changes."""
    found = [(part, (*path, "spec")) for part, path in parts if isinstance(part, Loop) and _is_framed(part)]
    if not found:
        return None
    written = copy.deepcopy(data)
    for part, path in found:
        _rewrite_frame(value_at(written, path), path, report, of_rows=part.cursor is not None)
    # What is decided when it runs stays as it is.
    return (written, {}) if written != data else None


def _is_framed(loop: Loop) -> bool:
    if loop.spec is None:
        return False
    frame = loop.spec.frame
    counts = frame is not None and "row_concurrency" in frame.model_fields_set
    return counts or (loop.spec.mode == "cursor" and loop.cursor is not None)


def _rewrite_frame(spec: dict[str, Json], path: Path, report: ProblemReport, *, of_rows: bool) -> None:
    rows = _take_rows(spec, path, report)
    if not of_rows:
        return
    mode = spec.get("mode")
    if rows is not None and mode in ("cursor", "parallel") and spec.get("max_in_flight") is not None:
        spec["max_in_flight"] = _multiply(spec["max_in_flight"], rows, (*path, "max_in_flight"), report)
    if mode == "cursor" or (mode == "parallel" and rows is not None):
        spec["mode"] = _mode(spec)
    if mode == "cursor" != spec["mode"]:
        report.respell((*path, "mode"))


def _mode(spec: dict[str, Json]) -> str:
    """How a loop runs that is sequential where it has a width of 1. What is reduced is so whatever
    the width: a sequential loop has no reducers."""
    width = spec.get("max_in_flight")
    if spec.get("reduce"):
        return "parallel"
    if is_template(width) and _number(width) is None:
        return "cursor"
    return "sequential" if _number(width) == 1 else "parallel"


def _take_rows(spec: dict[str, Json], path: Path, report: ProblemReport) -> Json:
    """Takes `row_concurrency` out of the frame of `spec`; None where it says nothing, or nothing
    that can be meant."""
    frame = spec.get("frame")
    if not isinstance(frame, dict) or "row_concurrency" not in frame:
        return None
    place = (*path, "frame", "row_concurrency")
    report.respell(place)
    rows = frame.pop("row_concurrency")
    if not frame:
        del spec["frame"]
    if rows is None or is_template(rows) or _number(rows) is not None:
        return rows
    hint = "write a whole number from 1, or a template"
    report.add(Code.VALUE, place, f"row_concurrency is {quote_value(rows)}", hint)
    return None


def _multiply(width: Json, rows: Json, path: Path, report: ProblemReport) -> Json:
    """`width` times `rows`: a number where both are, else a template."""
    counts = _number(width), _number(rows)
    if counts[0] is not None and counts[1] is not None:
        return counts[0] * counts[1]
    if not is_template(width) and counts[0] is None:
        # The compiler reports it where it stands.
        return width
    factors = [expressions.inside(one) if isinstance(one, str) else str(one) for one in (width, rows)]
    if None in factors:
        message = "`max_in_flight` is multiplied with `row_concurrency`, and is not one expression"
        report.add(Code.VALUE, path, message, 'write each as one: "{{ a }}"')
        return width
    return "{{ " + " * ".join(f"({factor}) | int" for factor in factors) + " }}"


def _number(value: Json) -> int | None:
    """The whole number from 1 that `value` says, whatever a run is given; None where it says
    none."""
    try:
        if is_template(value) and not expressions.names_used(value):
            value = expressions.evaluate(value, {})
    except TemplateError:
        # The compiler reports it where it stands.
        return None
    if isinstance(value, str) and value.strip().isdecimal() and len(value) < 9:
        value = int(value)
    is_count = isinstance(value, int) and not isinstance(value, bool) and value >= 1
    return value if is_count else None


def rewrite(parts: Parts, data: dict[str, Json], report: ProblemReport) -> Rewritten:
    """`data`, whose document has these `parts`, without other forms of `script` and `libs`, and
    without `scope: global` in the keychain, which has no effect; None where it has none of
    these."""
    found = [
        (place, *form)
        for part, path in parts
        if isinstance(part, Tool)
        for place in (path, (*path, "spec"))
        for form in _forms(value_at(data, place), str(value_at(data, (*path, "kind"))))
    ]
    keychain: Any = data.get("keychain") or ()
    entries = keychain.items() if isinstance(keychain, dict) else enumerate(keychain)
    scopes: list[Path] = [("keychain", key, "scope") for key, _ in entries]
    scopes = [scope for scope in scopes if value_at(data, scope) == "global"]
    if not found and not scopes:
        return None
    written = copy.deepcopy(data)
    for place, key, value, new in found:
        around = value_at(written, place)
        # What stands under another key already wins.
        replace_key(around, key, new, value if new == key else around.get(new, value))
        report.respell((*place, key))
    for scope in scopes:
        report.respell(scope)
        del value_at(written, scope[:-1])["scope"]
    return written, {(*place, new): (*place, key) for place, key, _, new in found}


def _forms(around: Any, kind: str) -> Iterator[tuple[str, Any, str]]:
    """Keys of the mapping `around` with their canonical values and keys."""
    if isinstance(around, dict):
        yield from _libs(around)
        yield from _script(around, kind)


def _libs(around: Mapping[str, Any]) -> Iterator[tuple[str, Any, str]]:
    libs = around.get("libs")
    if isinstance(libs, dict) and any(map(_is_import, libs.values())):
        yield "libs", {alias: _join_import(one) for alias, one in libs.items()}, "libs"


def _is_import(value: Any) -> bool:
    # Anything but texts stays for the checks: what is rewritten must not be said that way again.
    named = isinstance(value, dict) and bool(value) and value.keys() <= _LIB_KEYS
    return named and all(isinstance(one, str) for one in value.values() if one)


def _join_import(value: Any) -> Any:
    """`math.pi` of `{from: math, import: pi}`; either may stand alone."""
    if not _is_import(value):
        return value
    return ".".join(one for one in (value.get("from"), value.get("import")) if one)


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
