"""Other spellings of keys, which are accepted without a word: each is rewritten to what it means.

What they mean is declared, not written here: by the parts of documents (`noetl.dsl.document`), and
by the kinds of tools (`noetl.net.kinds`).
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from noetl.dsl.document import Cursor, Part, Tool, spellings_of
from noetl.dsl.document.parts import Parts
from noetl.dsl.problems import Code, Path
from noetl.dsl.read.origins import Origins, origin
from noetl.dsl.read.report import ProblemReport
from noetl.facts.json import Json
from noetl.net.kinds import of_kind
from noetl.net.model import KindInfo, Spelling

#: Where the inputs of a task stand: what is said there is read by its templates, too.
_INPUTS: Final = ("input", "args")
#: What a call of the workbook calls is said there, whatever the key means to the kind.
_NAME_OF_CALLED: Final = ("task",)
_MISSING: Final = object()
#: The mapping of a tool.
_Task: TypeAlias = Mapping[str, Json]


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
        return _resolved((*self.part, "spec") if stays else self.part, canonical) if canonical else None

    @property
    def rivals(self) -> list[Path]:
        """Where else what wins may stand: a key of a tool beside `kind` and under `spec`."""
        canonical = self.spelling.canonical
        twice = (
            ()
            if not canonical or canonical.startswith(("spec/", "../"))
            else (canonical, f"spec/{canonical}")
        )
        found = [_resolved(self.part, way) for way in (*self.spelling.unless, *twice)]
        return [path for path in found if path != self.target]

    @property
    def is_input(self) -> bool:
        """Whether it is one of the task's inputs that a key of the tool is made of."""
        return len(self.key) > 1 and self.key[0] in _INPUTS


def rewrite(
    kinds: Mapping[str, KindInfo], parts: Parts, data: dict[str, Json], report: ProblemReport
) -> tuple[dict[str, Json], Origins] | None:
    """`data`, whose document has these `parts`, without them; None where it has none."""
    book = _workbook(data)
    found: list[_Found] = []
    for part, path in parts:
        found += _of_part(part, path)
        if isinstance(part, Tool | Cursor):
            found += _of_kind(kinds, path, _at(data, path), book)
    if not found:
        return None
    rewriting = _Rewriting(data)
    # Inner ones first: what stands around them keeps its path.
    for one in sorted(found, key=lambda one: -len(one.part)):
        if rewriting.apply(one):
            _tell(one, report)
    return (rewriting.data, rewriting.origins) if rewriting.changed else None


def _tell(one: _Found, report: ProblemReport) -> None:
    place = (*one.part, *one.key)
    report.respell(place)
    if one.spelling.warning:
        message = f"`{one.key[-1]}` has no effect: {one.spelling.warning}"
        report.add(Code.IGNORED, place, message, "leave it out", at_key=True)


def _of_part(part: Part, path: Path) -> Iterator[_Found]:
    spelled = spellings_of(type(part))
    written = _written_keys(part) if spelled else frozenset()
    for key, spelling in spelled.items():
        if key in written:
            yield _Found(path, (key,), spelling)


def _written_keys(part: Part) -> frozenset[str]:
    fields = type(part).model_fields
    return frozenset(fields[name].alias or name for name in part.model_fields_set & fields.keys())


def _of_kind(
    kinds: Mapping[str, KindInfo], path: Path, tool: _Task, book: Mapping[str, _Task]
) -> Iterator[_Found]:
    """What `tool`, which stands at `path`, says beside `kind`, then what it says under `spec`."""
    called = _called(tool, book)
    kind = (called[-1] if called else tool).get("kind")
    info = kinds.get(kind) if isinstance(kind, str) else None
    for written, spelling in of_kind(info).items() if info is not None else ():
        way: Path = tuple(written.split("/"))
        for key in (way, ("spec", *way)):
            own = called and key == _NAME_OF_CALLED
            if not own and key != _way(spelling.canonical) and _get(tool, key) is not _MISSING:
                yield _Found(path, key, spelling, called)


def _called(tool: _Task, book: Mapping[str, _Task]) -> tuple[_Task, ...]:
    """The tasks of the workbook that a call leads to, the last of another kind; none where there is
    no such task."""
    found: dict[str, _Task] = {}
    while tool.get("kind") == "workbook":
        name = str(tool.get("task") or tool.get("name"))
        if name not in book or name in found:
            return ()
        found[name] = tool = book[name]
    return tuple(found.values())


def _workbook(data: dict[str, Json]) -> dict[str, _Task]:
    book = data.get("workbook") or {}
    entries = book.items() if isinstance(book, dict) else [(one.get("name"), one) for one in book]
    return {
        str(name): entry["tool"] if "kind" not in entry and isinstance(entry.get("tool"), dict) else entry
        for name, entry in entries
    }


class _Rewriting:
    """A copy of a document's data while it is rewritten, and where its parts came from."""

    def __init__(self, data: dict[str, Json]) -> None:
        self.data = copy.deepcopy(data)
        self.origins: dict[Path, Path] = {}
        self.changed = False

    def apply(self, found: _Found) -> bool:
        """Puts the value of a spelling where it belongs; whether it means something."""
        spelling, value = found.spelling, _get(self.data, found.place)
        if value is _MISSING or (spelling.values and value not in spelling.values):
            return False
        target = found.target
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
        return any(_is_there(self.data, place) for place in places) or any(
            _is_there(tool, way) for tool in found.called for way in ways
        )

    def _is_read(self, found: _Found) -> bool:
        """Whether something else in the tool names the input."""
        tool = copy.deepcopy(_at(self.data, found.part))
        _at(tool, found.key[:-1]).pop(found.key[-1])
        return re.search(rf"(?<![\w'\"]){re.escape(str(found.key[-1]))}\b", _templates(tool)) is not None

    def _put(self, found: _Found, target: Path, value: Json) -> None:
        spelling, places = found.spelling, (target, *found.rivals)
        value = value if spelling.convert is None or value is None else spelling.convert(value)
        mappings = [one for place in places if isinstance(one := _get(self.data, place), dict)]
        if isinstance(value, dict) and mappings:
            self._merge(found.place, target, value, mappings)
        elif not any(_is_there(self.data, place) for place in places):
            self._set(found.place, target, value)
            for key, said in spelling.adds:
                self._set(found.place, (*target[:-1], key), said)

    def _merge(self, old: Path, new: Path, value: dict[str, Json], mappings: list[dict[str, Json]]) -> None:
        """Adds the entries that none of `mappings` has."""
        added = {key: one for key, one in value.items() if not any(key in known for known in mappings)}
        there = _get(self.data, new)
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
        if old[:-1] == new[:-1] and old[-1] in around:
            items = [
                (new[-1] if key == old[-1] else key, one) for key, one in around.items() if key != new[-1]
            ]
            around.clear()
            around.update(items)
        around[new[-1]] = value

    def _take(self, old: Path) -> None:
        """Removes what stands at `old`, and the mappings that have nothing left."""
        place = old
        around = _get(self.data, place[:-1])
        if isinstance(around, dict):
            around.pop(place[-1], None)
        while len(place) > 1 and isinstance(place[-2], str) and _get(self.data, place[:-1]) == {}:
            place = place[:-1]
            _at(self.data, place[:-1]).pop(place[-1])


def _way(text: str) -> Path:
    return tuple(text.split("/"))


def _resolved(part: Path, way: str) -> Path:
    """The path that `way` leads to from the mapping at `part`."""
    path = part
    for key in way.split("/"):
        path = path[:-1] if key == ".." else (*path, key)
    return path


def _at(data: Any, path: Path) -> Any:
    for key in path:
        data = data[key]
    return data


def _get(data: Any, path: Path) -> Any:
    """What stands there, or `_MISSING`."""
    for key in path:
        if not _is_key(data, key):
            return _MISSING
        data = data[key]
    return data


def _is_key(data: Any, key: str | int) -> bool:
    return key in data if isinstance(data, dict) else isinstance(data, list) and isinstance(key, int)


def _is_there(data: Any, path: Path) -> bool:
    """Whether something other than null stands there."""
    return _get(data, path) not in (_MISSING, None)


def _templates(value: Any) -> str:
    """All texts with templates in `value`, one behind the other."""
    match value:
        case dict():
            return " ".join(map(_templates, value.values()))
        case list():
            return " ".join(map(_templates, value))
        case str() if "{{" in value or "{%" in value:
            return value
        case _:
            return ""
