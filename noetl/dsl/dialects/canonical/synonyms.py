"""Other spellings of canonical keys: `with`, `set_ctx`, `set_iter`, `mode` beside `in`, older
`apiVersion`s."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any, Final

from noetl.dsl.document import Document, Part
from noetl.dsl.document.base import declared
from noetl.dsl.document.parts import Parts
from noetl.dsl.document.root import VERSION
from noetl.dsl.problems import Code, Path
from noetl.dsl.read.origins import Origins
from noetl.dsl.read.report import ProblemReport
from noetl.facts.json import Json

_SCOPED: Final = ("ctx.", "vars.", "iter.", "step.")


def rewrite(
    parts: Parts, data: dict[str, Json], report: ProblemReport
) -> tuple[dict[str, Json], Origins] | None:
    """`data`, whose document has these `parts`, without them; None where it has none."""
    found = [(part, key, path) for part, path in parts for key in _synonyms(part)]
    if not found:
        return None
    written = copy.deepcopy(data)
    origins: dict[Path, Path] = {}
    # Inner ones first: what stands around them keeps its path.
    for part, key, path in found:
        _REWRITES[key](_at(written, path), path, origins)
        message = f"`{key}` is an older spelling"
        hint = f"write {declared(type(part))[key].instead}; `noetl migrate` does"
        report.add(Code.DEPRECATED, (*path, key), message, hint, at_key=True)
    return written, origins


def _synonyms(part: Part) -> Iterator[str]:
    """The older spellings that stand in it."""
    if isinstance(part, Document):
        if part.api_version not in (None, VERSION):
            yield "apiVersion"
        return
    for field, key in _older(type(part)):
        if field in part.model_fields_set:
            yield key


@cache
def _older(model: type[Part]) -> tuple[tuple[str, str], ...]:
    """Those that it declares with what is written instead: field and key."""
    keys, fields = declared(model), model.model_fields.items()
    return tuple(
        (name, key) for name, one in fields if (key := one.alias or name) in keys and keys[key].instead
    )


def _at(data: Any, path: Path) -> dict[str, Any]:
    for part in path:
        data = data[part]
    found: dict[str, Any] = data
    return found


def _inputs(part: dict[str, Any], path: Path, origins: dict[Path, Path]) -> None:
    given = part["with"] or {}
    known = part.get("args") or {}, part.get("input") or {}
    added = {name: value for name, value in given.items() if not any(name in names for names in known)}
    _put(part, "with", "input", {**added, **known[1]}, path, origins)
    for name in added:
        origins[(*path, "input", name)] = (*path, "with", name)


def _assignments(key: str, scope: str) -> Callable[[dict[str, Any], Path, dict[Path, Path]], None]:
    def rewrite_set(part: dict[str, Any], path: Path, origins: dict[Path, Path]) -> None:
        names = part[key] or {}
        targets = dict(part.get("set") or {})
        for name, value in names.items():
            target = name if name.startswith(_SCOPED) else f"{scope}.{name}"
            targets[target] = value
            origins[(*path, "set", target)] = (*path, key, name)
        _put(part, key, "set", targets, path, origins)

    return rewrite_set


def _put(part: dict[str, Any], old: str, new: str, value: Any, path: Path, origins: dict[Path, Path]) -> None:
    """Takes `old` out. `new` stands where it stood, unless there is one already."""
    there = new in part
    if not there:
        origins[(*path, new)] = (*path, old)
    items = list(part.items())
    part.clear()
    for key, known in items:
        if key == new or (key == old and not there):
            part[new] = value
        elif key != old:
            part[key] = known


def _mode(part: dict[str, Any], path: Path, origins: dict[Path, Path]) -> None:
    spec = dict(part.get("spec") or {})
    if spec.get("mode") is None:
        spec["mode"] = part["mode"]
        origins[(*path, "spec", "mode")] = (*path, "mode")
    _put(part, "mode", "spec", spec, path, origins)


def _version(part: dict[str, Any], _path: Path, _origins: dict[Path, Path]) -> None:
    part["apiVersion"] = VERSION


_REWRITES: Final[Mapping[str, Callable[[dict[str, Any], Path, dict[Path, Path]], None]]] = {
    "with": _inputs,
    "set_ctx": _assignments("set_ctx", "ctx"),
    "set_iter": _assignments("set_iter", "iter"),
    "mode": _mode,
    "apiVersion": _version,
}
