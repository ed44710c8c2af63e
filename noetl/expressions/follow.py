"""Chains of names: their text, and the values they lead to through results and references."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from noetl.expressions.members import Method, Undefined
from noetl.expressions.rendering import find, load_reference, make_undefined, reach
from noetl.expressions.scope import ResultView, body_of, is_response, of_task, value_of
from noetl.facts.json import Json, JsonMap
from noetl.facts.reference import OF_REFERENCES, Load, is_reference, open_references, plain

#: Names that are written behind a dot; others stand in brackets.
_WORD: Final = re.compile(r"[^\W\d][\w-]*")
_STEP: Final = re.compile(r"""\.([^\W\d][\w-]*)|\[(?P<index>-?[0-9]{1,9})\]|\['([^']+)'\]|\["([^"]+)"\]""")
_PATH: Final = re.compile(f"({_STEP.pattern})+")


@dataclass(frozen=True, slots=True)
class Chain:
    """`head.part.part`: a name, then attributes and constant items."""

    head: str
    parts: tuple[str | int, ...]

    @property
    def words(self) -> tuple[str, ...]:
        return (self.head, *map(str, self.parts))


def path_text(parts: tuple[str | int, ...]) -> str:
    """`data.rows[0].id`, and `['odd name']` for anything but a word: one text for each path."""
    return "".join(_step_text(part) for part in parts).removeprefix(".")


def _step_text(part: str | int) -> str:
    if isinstance(part, int):
        return f"[{part}]"
    return f".{part}" if _WORD.fullmatch(part) else f"['{part}']"


def path_of(text: str) -> tuple[str | int, ...] | None:
    """The parts of `data.rows[0].id`, with or without `$.` before it; None where it is no path."""
    rest = text.strip()
    if rest.startswith("$"):
        rest = rest[1:]
    elif not rest.startswith("["):
        rest = f".{rest}"
    if _PATH.fullmatch(rest) is None:
        return None
    return tuple(
        int(step["index"]) if step["index"] else next(filter(None, step.groups()))
        for step in _STEP.finditer(rest)
    )


def follow(names: Mapping[str, Any], chain: Chain, load: Load | None) -> Any:
    """The value at the end of a chain, a reference left as it is where it is the end."""
    value, parts, at = find(names, chain.head), chain.parts, 0
    while at < len(parts):
        kept = value.value if type(value) is ResultView else value
        if type(kept) is dict and "extracted" in kept and (end := _find_known_end(kept, parts, at, load)):
            value, at = kept["extracted"][path_text(parts[at:end])], end
        else:
            if (path := _alias(kept, parts[at])) is not None:
                parts, at = (*path, *parts[at + 1 :]), 0
            value, at = into(value, parts[at], load), at + 1
    return value.value if type(value) is ResultView else value


def _find_known_end(kept: JsonMap, parts: tuple[str | int, ...], at: int, load: Load | None) -> int | None:
    """Where the longest path from `at` on ends that the reference `kept` knows the value of."""
    if load is None or not is_reference(kept):
        return None
    ends = range(len(parts), at, -1)
    return next((end for end in ends if path_text(parts[at:end]) in kept["extracted"]), None)


def _alias(kept: Any, part: str | int) -> tuple[str | int, ...] | None:
    """The path that the reference `kept` has another name for, and whose value it does not know."""
    if type(kept) is not dict or "aliases" not in kept or not is_reference(kept):
        return None
    path = kept["aliases"].get(part)
    return None if path is None else path_of(path)


def into(value: Any, part: str | int, load: Load | None) -> Any:
    """One step of a chain, through references and results."""
    kept = value_of(value)
    if part in OF_REFERENCES and type(kept) is dict and is_reference(kept) and not _has_key(kept, part):
        return reach(kept, OF_REFERENCES[str(part)])
    inner = load_reference(kept, load)
    if type(value) is not ResultView:
        return _from_envelope(inner, load) if part == "body" else reach(inner, part)
    return _from_result(value, inner, part, load)


def _from_result(result: ResultView, inner: Any, part: str | int, load: Load | None) -> Any:
    """A part of what a step or task left behind, whose value is `inner`."""
    own = make_undefined(inner, part) if part == "body" and is_response(inner) else reach(inner, part)
    if not isinstance(own, Undefined):
        return own
    if part in result.also:
        return result.also[str(part)]
    if part == "data":
        return result.value
    body = load_reference(body_of(inner), load)
    if isinstance(body, Mapping) and part in body:
        return body[part]
    return reach(inner, part) if part == "body" else own


def _from_envelope(value: Any, load: Load | None) -> Any:
    """`body` of an outcome: that of its result, where that is the result of an http task."""
    if (
        isinstance(value, dict)
        and "body" not in value
        and "http" in value
        and type(value.get("data")) is ResultView
    ):
        return into(value["data"], "body", load)
    return reach(value, "body")


def _has_key(reference: JsonMap, key: str | int) -> bool:
    """Whether what `reference` stands for has the key itself, as far as its preview tells."""
    preview = reference.get("preview")
    return isinstance(preview, Mapping) and key in preview.get("keys", ())


def part_of(value: Json, path: str, load: Load) -> Json:
    """What `path` names in `value`, as it is there: references in it stay. Raises KeyError where it
    names nothing, and what `load` raises."""
    found = follow({"": value}, Chain("", path_of(path) or ()), load)
    if isinstance(found, Undefined | Method):
        raise KeyError(path)
    return found


def select_parts(value: Json, paths: Mapping[str, str], load: Load) -> dict[str, Json]:
    """Name → what `path` (`data.rows[0].id`) names in the result `value`, without references; names
    whose path names nothing are left out. Raises what `load` raises."""
    found = {
        name: follow({"": of_task(value)}, Chain("", path_of(path) or ()), load)
        for name, path in paths.items()
    }
    return {
        name: open_references(plain(part), load)
        for name, part in found.items()
        if not isinstance(part, Undefined | Method)
    }
