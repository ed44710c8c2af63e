"""`assert` of tasks: what they expect and return, and calls that leave out what is expected."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from noetl.dsl.checks.templates import OF_FINAL_STEP
from noetl.dsl.compile.context import Context, Expecting
from noetl.dsl.compile.entries import Entry, inputs_of
from noetl.dsl.document import Assert, NamedTask, Tool
from noetl.dsl.document.validation import warn_unknown
from noetl.dsl.problems import Code, Path, shown
from noetl.expressions import path_of
from noetl.net.model import ENTRY, Demand, Net, Transition, ValueType


@dataclass(frozen=True, slots=True)
class Asserted:
    """What a task says of its inputs and of its result; those of the workbook before that of the call."""

    expects: tuple[Demand, ...] = ()
    returns: tuple[Demand, ...] = ()


def asserted(context: Context, entry: Entry) -> Asserted:
    """The demands of a task, with the problems of their names."""
    found = Asserted()
    for tool, path in entry.parts:
        name = _workbook_name(context, path)
        for part, at in _asserts(context, tool, path):
            warn_unknown(part, at, context.report)
            expects = _demands(context, part.expects, (*at, "expects"), name)
            returns = _demands(context, part.returns, (*at, "returns"), name)
            found = Asserted((*found.expects, *expects), (*found.returns, *returns))
    return found


def _asserts(context: Context, tool: Tool, path: Path) -> Iterator[tuple[Assert, Path]]:
    around = _workbook_item(context, path)
    if isinstance(around, NamedTask) and around.assert_ is not None:
        yield around.assert_, (*path[:-1], "assert")
    if tool.assert_ is not None:
        yield tool.assert_, (*path, "assert")


def _workbook_item(context: Context, path: Path) -> NamedTask | Tool | None:
    book = context.document.workbook
    if path[0] != "workbook" or book is None:
        return None
    key = path[1]
    return book.get(str(key)) if isinstance(book, Mapping) else book[int(key)]


def _workbook_name(context: Context, path: Path) -> str:
    item = _workbook_item(context, path)
    if item is None:
        return ""
    return path[1] if isinstance(path[1], str) else item.name or ""


def _demands(
    context: Context, given: list[str] | dict[str, ValueType] | None, path: Path, name: str
) -> tuple[Demand, ...]:
    typed: Iterable[tuple[str, ValueType, str | int]]
    if isinstance(given, dict):
        typed = [(key, kind, key) for key, kind in given.items()]
    else:
        typed = [(key, "any", index) for index, key in enumerate(given or ())]
    return tuple(Demand(key, kind, name) for key, kind, at in typed if _is_path(context, key, (*path, at)))


def _is_path(context: Context, text: str, path: Path) -> bool:
    if path_of(text) is not None:
        return True
    context.report.add(Code.VALUE, path, f"{shown(text)} is no name", "write names like id or user.id")
    return False


def expecting(entry: Entry, expects: tuple[Demand, ...], step: str) -> Expecting:
    """The task of `entry`, with the inputs that it says itself. Null in the workbook is for the caller to give."""
    given: dict[str, bool] = {}
    booked: set[str] = set()
    for tool, path in entry.parts:
        for names in inputs_of(tool).values():
            for name, value in names.items():
                given.pop(name, None)
                booked |= {name} if path[0] == "workbook" else set()
                if value is not None or path[0] != "workbook":
                    given[name] = value is not None
    return Expecting(entry.path, step, expects, given, frozenset(given) - booked)


def check_inputs(context: Context, net: Net) -> None:
    """Adds a problem for each input that a task expects, and that neither it nor its step nor an arc gives."""
    arcs = _given_by_arcs(net) if context.expecting else {}
    for one in context.expecting:
        around = arcs.get(one.step, set()) | _given_by_step(net, net.steps[one.step])
        for demand in one.expects:
            head = _head(demand)
            if not one.given.get(head, head in around):
                who = f"workbook task {shown(demand.of)}" if demand.of else "the task"
                message = f"{who} expects the input {shown(demand.path)}, and nothing gives it"
                spare = (one.own | around) - {_head(other) for other in one.expects}
                hint = context.report.suggest(head, sorted(spare), f"add input: {{{head}: ...}}")
                context.report.add(Code.MISSING, one.path, message, hint)


def inputs_around(net: Net, step: str) -> set[str]:
    """The names of the inputs that a step and the arcs to it give to its tasks."""
    arcs = (net.arcs[place] for place in net.incoming[step] if place != ENTRY)
    return _given_by_step(net, net.steps[step], of_nothing=True).union(*(arc.args for arc in arcs))


def _head(demand: Demand) -> str:
    return str((path_of(demand.path) or ("",))[0])


def _given_by_arcs(net: Net) -> Mapping[str, set[str]]:
    """Step → the names that any arc to it hands over."""
    given: dict[str, set[str]] = {}
    for arc in net.arcs.values():
        given.setdefault(arc.step, set()).update(arc.args)
    return given


def _given_by_step(net: Net, step: Transition, *, of_nothing: bool = False) -> set[str]:
    """`of_nothing`: those that are null as well."""
    handed = (step.args, *(task.given for task in step.tasks))
    given = {name for names in handed for name, value in names.items() if of_nothing or value is not None}
    return given | OF_FINAL_STEP if step.name == net.final_step else given
