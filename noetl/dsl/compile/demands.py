"""`assert` of tasks: what they expect and return, and calls that leave out what is expected."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from noetl.dsl.compile.context import Context, InputDemand
from noetl.dsl.compile.entries import ToolEntry, tool_inputs
from noetl.dsl.document import NamedTask, Tool
from noetl.dsl.problems import Code, Path, quote_value
from noetl.expressions import path_of
from noetl.net.model import Demand, ValueType


@dataclass(frozen=True, slots=True)
class Demands:
    """What a task says of its inputs and of its result; those of the workbook before that of the
    call."""

    expects: tuple[Demand, ...] = ()
    returns: tuple[Demand, ...] = ()


def find_demands(context: Context, entry: ToolEntry) -> Demands:
    """The demands of a task, with the problems of their names."""
    found = Demands()
    for tool, path in entry.parts:
        item = _workbook_item(context, path)
        name = "" if item is None else path[1] if isinstance(path[1], str) else item.name or ""
        around = item.assert_ if isinstance(item, NamedTask) else None
        for part, at in (around, (*path[:-1], "assert")), (tool.assert_, (*path, "assert")):
            if part is not None:
                expects = _demands(context, part.expects, (*at, "expects"), name)
                returns = _demands(context, part.returns, (*at, "returns"), name)
                found = Demands((*found.expects, *expects), (*found.returns, *returns))
    return found


def _workbook_item(context: Context, path: Path) -> NamedTask | Tool | None:
    book = context.document.workbook
    if path[0] != "workbook" or book is None:
        return None
    key = path[1]
    return book.get(str(key)) if isinstance(book, Mapping) else book[int(key)]


def _demands(
    context: Context, given: list[str] | dict[str, ValueType] | None, path: Path, name: str
) -> tuple[Demand, ...]:
    typed: Iterable[tuple[str, ValueType, str | int]]
    if isinstance(given, dict):
        typed = [(key, kind, key) for key, kind in given.items()]
    else:
        typed = [(key, "any", index) for index, key in enumerate(given or ())]
    found = []
    for key, kind, at in typed:
        if path_of(key) is not None:
            found.append(Demand(key, kind, name))
        else:
            context.report.add(
                Code.VALUE, (*path, at), f"{quote_value(key)} is no name", "write names like id or user.id"
            )
    return tuple(found)


def expectation_of(entry: ToolEntry, expects: tuple[Demand, ...], step: str) -> InputDemand:
    """The task of `entry`, with the inputs that it says itself. Null in the workbook is for the
    caller to give."""
    given: dict[str, bool] = {}
    booked: set[str] = set()
    for tool, path in entry.parts:
        for names in tool_inputs(tool).values():
            for name, value in names.items():
                given.pop(name, None)
                booked |= {name} if path[0] == "workbook" else set()
                if value is not None or path[0] != "workbook":
                    given[name] = value is not None
    return InputDemand(entry.path, step, expects, given, frozenset(given) - booked)
