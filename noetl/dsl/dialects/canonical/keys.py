"""Other spellings of keys: those that are older, with a warning, and those that are accepted
without a word.

What they mean is declared, not written here: by the parts of documents (`noetl.dsl.document`), and
by the kinds of tools (`noetl.net.kinds`).
"""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Final, TypeAlias

from noetl.dsl.dialects.canonical.shapes import Rewritten, replace_key
from noetl.dsl.dialects.parts import follow_calls, workbook_of
from noetl.dsl.document import Cursor, Document, DocumentPart, Tool, spellings_of
from noetl.dsl.document.base import Parts, declared_keys, field_keys, given_keys
from noetl.dsl.document.root import VERSION
from noetl.dsl.document.texts import is_template
from noetl.dsl.problems import Code, Path
from noetl.dsl.read.origins import origin, value_at
from noetl.dsl.read.report import ProblemReport
from noetl.facts.json import Json
from noetl.net.kinds import of_kind
from noetl.net.model import KindInfo, Spelling

_SCOPED: Final = ("ctx.", "vars.", "iter.", "step.")
#: Where the inputs of a task stand: what is said there is read by its templates, too.
_INPUTS: Final = ("input", "args")
#: What a call of the workbook calls is said there, whatever the key means to the kind.
_NAME_OF_CALLED: Final = ("task",)
_MISSING: Final = object()
#: The mapping of a tool.
_Task: TypeAlias = Mapping[str, Json]


def rewrite_older(parts: Parts, data: dict[str, Json], report: ProblemReport) -> Rewritten:
    """`data`, whose document has these `parts`, without keys that have another name by now; None
    where it has none."""
    found = [(part, key, path) for part, path in parts for key in _older_keys(part)]
    if not found:
        return None
    written = copy.deepcopy(data)
    origins: dict[Path, Path] = {}
    for part, key, path in found:
        _OLDER[key](value_at(written, path), key, path, origins)
        hint = f"write {declared_keys(type(part))[key].instead}; `noetl migrate` does"
        report.add(Code.DEPRECATED, (*path, key), f"`{key}` is an older spelling", hint, at_key=True)
    return written, origins


def _older_keys(part: DocumentPart) -> list[str]:
    if isinstance(part, Document):
        return [] if part.api_version in (None, VERSION) else ["apiVersion"]
    return [key for name, key in _older_fields(type(part)) if name in part.model_fields_set]


@cache
def _older_fields(model: type[DocumentPart]) -> list[tuple[str, str]]:
    keys = declared_keys(model)
    return [(name, key) for name, key in field_keys(model).items() if key in keys and keys[key].instead]


def _rename(
    part: dict[str, Any], old: str, new: str, value: Any, path: Path, origins: dict[Path, Path]
) -> None:
    if new not in part:
        origins[*path, new] = (*path, old)
    replace_key(part, old, new, value)


def _rewrite_inputs(part: dict[str, Any], key: str, path: Path, origins: dict[Path, Path]) -> None:
    known = part.get("args") or {}, part.get("input") or {}
    given = part[key] or {}
    added = {name: value for name, value in given.items() if not any(name in names for names in known)}
    _rename(part, key, "input", {**added, **known[1]}, path, origins)
    origins |= {(*path, "input", name): (*path, key, name) for name in added}


def _rewrite_set(part: dict[str, Any], key: str, path: Path, origins: dict[Path, Path]) -> None:
    targets = dict(part.get("set") or {})
    for name, value in (part[key] or {}).items():
        target = name if name.startswith(_SCOPED) else f"{key.removeprefix('set_')}.{name}"
        targets[target] = value
        origins[*path, "set", target] = (*path, key, name)
    _rename(part, key, "set", targets, path, origins)


def _rewrite_mode(part: dict[str, Any], key: str, path: Path, origins: dict[Path, Path]) -> None:
    spec = dict(part.get("spec") or {})
    if spec.get("mode") is None:
        spec["mode"] = part[key]
        origins[*path, "spec", "mode"] = (*path, key)
    _rename(part, key, "spec", spec, path, origins)


def _rewrite_version(part: dict[str, Any], key: str, _path: Path, _origins: dict[Path, Path]) -> None:
    part[key] = VERSION


_OLDER: Final[Mapping[str, Callable[[dict[str, Any], str, Path, dict[Path, Path]], None]]] = {
    "with": _rewrite_inputs,
    "set_ctx": _rewrite_set,
    "set_iter": _rewrite_set,
    "mode": _rewrite_mode,
    "apiVersion": _rewrite_version,
}


@dataclass(frozen=True, slots=True)
class _Found:
    """A spelling that stands in the mapping at `part`, at `key` from there on."""

    part: Path
    key: Path
    spelling: Spelling
    #: The mappings that say the same key where the task is one of the workbook, the called ones.
    called: tuple[_Task, ...] = ()

    @property
    def place(self) -> Path:
        return (*self.part, *self.key)

    @property
    def target(self) -> Path | None:
        """Where its value belongs; None where it has no effect. What stands under the `spec` of a
        tool stays there."""
        canonical = self.spelling.canonical
        stays = self.key[0] == "spec" and not canonical.startswith("spec/")
        return _follow((*self.part, "spec") if stays else self.part, canonical) if canonical else None

    @property
    def rivals(self) -> list[Path]:
        """Where else what wins may stand: a key of a tool beside `kind` and under `spec`."""
        canonical = self.spelling.canonical
        is_own = canonical and not canonical.startswith(("spec/", "../"))
        ways = (*self.spelling.unless, *((canonical, f"spec/{canonical}") if is_own else ()))
        return [path for way in ways if (path := _follow(self.part, way)) != self.target]

    @property
    def is_input(self) -> bool:
        """Whether it is one of the task's inputs that a key of the tool is made of."""
        return len(self.key) > 1 and self.key[0] in _INPUTS


def rewrite(
    kinds: Mapping[str, KindInfo], parts: Parts, data: dict[str, Json], report: ProblemReport
) -> Rewritten:
    """`data`, whose document has these `parts`, without other spellings; None where it has none."""
    book: dict[str, _Task] = {name: value_at(data, path) for name, path in workbook_of(data).items()}
    found: list[_Found] = []
    for part, path in parts:
        if spelled := spellings_of(type(part)):
            given = set(given_keys(part))
            found += [_Found(path, (key,), one) for key, one in spelled.items() if key in given]
        if isinstance(part, Tool | Cursor):
            found += _find_of_kind(kinds, path, value_at(data, path), book)
    if not found:
        return None
    rewriting = _Rewriting(data)
    # Inner ones first: what stands around them keeps its path.
    for one in sorted(found, key=lambda one: -len(one.part)):
        if rewriting.apply(one):
            report.respell(one.place)
            if one.spelling.warning:
                message = f"`{one.key[-1]}` has no effect: {one.spelling.warning}"
                report.add(Code.IGNORED, one.place, message, "leave it out", at_key=True)
    return (rewriting.data, rewriting.origins) if rewriting.changed else None


def _find_of_kind(
    kinds: Mapping[str, KindInfo], path: Path, tool: _Task, book: Mapping[str, _Task]
) -> Iterator[_Found]:
    """What `tool`, which stands at `path`, says beside `kind`, then what it says under `spec`."""
    called = follow_calls(tool, book)
    kind = (called[-1] if called else tool).get("kind")
    info = kinds.get(kind) if isinstance(kind, str) else None
    for written, spelling in of_kind(info).items() if info is not None else ():
        way: Path = tuple(written.split("/"))
        for key in (way, ("spec", *way)):
            is_own = called and key == _NAME_OF_CALLED
            same = "/".join(map(str, key)) == spelling.canonical
            if not is_own and not same and value_at(tool, key, _MISSING) is not _MISSING:
                yield _Found(path, key, spelling, called)


class _Rewriting:
    """A copy of a document's data while it is rewritten, and where its parts came from."""

    def __init__(self, data: dict[str, Json]) -> None:
        self.data = copy.deepcopy(data)
        self.origins: dict[Path, Path] = {}
        self.changed = False

    def apply(self, found: _Found) -> bool:
        """Puts the value of a spelling where it belongs; whether it means something."""
        spelling, target = found.spelling, found.target
        value = value_at(self.data, found.place, _MISSING)
        if value is _MISSING or (spelling.values and value not in spelling.values):
            return False
        if found.is_input and target is not None and self._is_said(found, target):
            return False
        self.changed = True
        if target is not None:
            self._put(found, target, value)
        if not (found.is_input and self._is_read(found)):
            self._take(found.place)
        return True

    def _is_said(self, found: _Found, target: Path) -> bool:
        """Whether the configuration itself has the key that an input would be: then it is an input
        like any other."""
        places = (target, *found.rivals)
        ways = [place[len(found.part) :] for place in places]
        called = (value_at(tool, way) for tool in found.called for way in ways)
        return any(
            value is not None for value in (*(value_at(self.data, place) for place in places), *called)
        )

    def _is_read(self, found: _Found) -> bool:
        """Whether something else in the tool names the input."""
        tool = copy.deepcopy(value_at(self.data, found.part))
        value_at(tool, found.key[:-1]).pop(found.key[-1])
        return re.search(rf"(?<![\w'\"]){re.escape(str(found.key[-1]))}\b", _join_templates(tool)) is not None

    def _put(self, found: _Found, target: Path, value: Json) -> None:
        spelling = found.spelling
        value = value if spelling.convert is None or value is None else spelling.convert(value)
        there = [one for place in (target, *found.rivals) if (one := value_at(self.data, place)) is not None]
        mappings = [one for one in there if isinstance(one, dict)]
        if isinstance(value, dict) and mappings:
            self._merge(found.place, target, value, mappings)
        elif not there:
            self._set(found.place, target, value)
            for key, said in spelling.adds:
                self._set(found.place, (*target[:-1], key), said)

    def _merge(self, old: Path, new: Path, value: dict[str, Json], mappings: list[dict[str, Json]]) -> None:
        """Adds the entries that none of `mappings` has."""
        added = {key: one for key, one in value.items() if not any(key in known for known in mappings)}
        there = value_at(self.data, new)
        if isinstance(there, dict):
            there |= added
            self.origins |= {(*new, key): origin(self.origins, (*old, key)) for key in added}
        elif added:
            self._set(old, new, added)

    def _set(self, old: Path, new: Path, value: Json) -> None:
        """Puts `value` at `new`: in the place of `old` where that stands in the same mapping."""
        around: Any = self.data
        for key in new[:-1]:
            if isinstance(around, dict) and around.get(key) is None:
                around[key] = {}
            around = around[key]
        if not isinstance(around, dict):
            return
        self.origins[new] = origin(self.origins, old)
        name, before = str(new[-1]), str(old[-1])
        if old[:-1] == new[:-1] and before in around:
            around.pop(name, None)
            replace_key(around, before, name, value)
        else:
            around[name] = value

    def _take(self, place: Path) -> None:
        """Removes what stands at `place`, and the mappings that have nothing left."""
        around = value_at(self.data, place[:-1])
        if isinstance(around, dict):
            around.pop(place[-1], None)
        while len(place) > 1 and isinstance(place[-2], str) and value_at(self.data, place[:-1]) == {}:
            place = place[:-1]
            value_at(self.data, place[:-1]).pop(place[-1])


def _follow(part: Path, way: str) -> Path:
    """The path that `way` leads to from the mapping at `part`."""
    path = part
    for key in way.split("/"):
        path = path[:-1] if key == ".." else (*path, key)
    return path


def _join_templates(value: Any) -> str:
    """All texts with templates in `value`, one behind the other."""
    if isinstance(value, dict | list):
        return " ".join(map(_join_templates, value.values() if isinstance(value, dict) else value))
    return value if is_template(value) else ""
