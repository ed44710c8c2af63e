"""`spec.result`: how the results of tasks are kept, and which parts of them are read without a
fetch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final, get_args

from noetl.dsl.compile.context import Context, Site
from noetl.dsl.document import is_result
from noetl.dsl.document.identifiers import readable
from noetl.dsl.document.specs import MOST_INLINE
from noetl.dsl.problems import Code, Path, shown
from noetl.expressions import path_of, path_text
from noetl.facts.durations import seconds
from noetl.facts.json import Json
from noetl.facts.reference import ResultScope
from noetl.net.model import OnLarge, ResultPolicy, Selected

#: Parts of one result that are kept with its reference.
MOST_SELECTED: Final = 32


def keeping(context: Context, site: Site, tools: Sequence[Path]) -> ResultPolicy:
    """What the specs around a task and its own say of its result, the inner over the outer."""
    how = ResultPolicy()
    around = [(path, _is_step(path[:-1])) for path in site.specs]
    for path, may_output in (*around, *(((*tool, "spec"), True) for tool in tools)):
        if may_output and is_result(context.raw((*path[:-1], "output"))):
            how = _over(context, how, (*path[:-1], "output"))
        how = _over(context, how, (*path, "result"))
    for path in tools:
        at: Path = (*path, "output_select")
        if isinstance(select := context.raw(path).get("output_select"), list):
            how = replace(how, select=_select(context, select, at), on_large="fail")
    return how


def _is_step(path: Path) -> bool:
    return len(path) == 2 and path[0] == "workflow"


def _over(context: Context, how: ResultPolicy, path: Path) -> ResultPolicy:
    if not (given := context.raw(path)):
        return how
    for key in ("inline", "inline_bytes"):
        if isinstance(given.get(key), int):
            how = replace(how, inline_bytes=_inline(context, given[key], (*path, key)))
    if given.get("scope") in get_args(ResultScope):
        how = replace(how, scope=given["scope"])
    if (ttl := given.get("ttl")) is not None:
        how = replace(how, ttl_s=_ttl(context, ttl, (*path, "ttl")))
    if (select := given.get("select")) is not None:
        how = replace(how, select=_select(context, select, (*path, "select")), on_large="fail")
    if given.get("on_large") in get_args(OnLarge):
        how = replace(how, on_large=given["on_large"])
    return how


def _inline(context: Context, value: int, path: Path) -> int | None:
    if not isinstance(value, bool) and 0 <= value <= MOST_INLINE:
        return value
    context.report.add(
        Code.VALUE,
        path,
        f"{path[-1]} is {shown(value)}",
        f"write a number of bytes from 0 to {MOST_INLINE:,}",
    )
    return None


def _ttl(context: Context, value: Json, path: Path) -> float | None:
    try:
        if (length := seconds(value)) > 0:
            return length
    except ValueError:
        pass
    context.report.add(
        Code.VALUE, path, f"ttl is {shown(value)}", "write seconds above zero, 500ms, 10s, 5m, 2h or 7d"
    )
    return None


def _select(context: Context, given: Json, path: Path) -> tuple[Selected, ...]:
    if not isinstance(given, list):
        return ()
    found: dict[str, Selected] = {}
    for part, at in _parts(context, given, path):
        if part.name in found:
            context.report.add(Code.DUPLICATE_NAME, at, f"{shown(part.name)} is selected twice", "keep one")
        found[part.name] = part
    if len(found) > MOST_SELECTED:
        context.report.add(
            Code.VALUE,
            path,
            f"{len(found)} parts are selected",
            f"at most {MOST_SELECTED} are kept with a reference",
        )
    return tuple(found.values())


def _parts(context: Context, given: list[Json], path: Path) -> Iterator[tuple[Selected, Path]]:
    for number, part in enumerate(given):
        at: Path = (*path, number)
        named = part if isinstance(part, dict) else {"path": part}
        text, alias = named.get("path"), named.get("as")
        if not isinstance(text, str):
            if named is part:
                context.report.missing(
                    at, "path", "it does not say what to select", "add path: data.rows[0].id"
                )
            continue
        if (steps := path_of(text)) is None:
            context.report.add(
                Code.VALUE,
                at,
                f"{shown(text)} is no path",
                "write names and places from the result on: data.rows[0].id",
            )
            continue
        if isinstance(alias, str) and not readable(context.report, alias, (*at, "as"), "a part"):
            continue
        canonical = path_text(steps)
        yield Selected(canonical, alias if isinstance(alias, str) else canonical), at
