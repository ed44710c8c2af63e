"""`sink` of the classic dialect: a task that takes a result as its input `data`."""

from __future__ import annotations

from collections.abc import Iterator

from noetl.dsl.dialects.parts import Spot
from noetl.dsl.read.origins import Moved, Tree, plain
from noetl.expressions import names_used
from noetl.net.model import Template


class Labels:
    """The names that tasks of one step have."""

    def __init__(self, taken: Iterator[str]) -> None:
        self._taken = set(taken)

    def new(self, wanted: str) -> str:
        """`wanted`, or that with a number behind it where a task is called so already."""
        label, number = wanted, 1
        while label in self._taken:
            number += 1
            label = f"{wanted}_{number}"
        self._taken.add(label)
        return label


def sink_tasks(sink: Spot, labels: Labels, data: Template = None, after: Tree = None) -> list[Tree]:
    """The tasks of one `sink`, as items of a list of tools: `{label: {kind, ...}}`.

    `data` is what they take, unless they say so themselves (None: they are given it); `after` is
    when they run.
    """
    return [task for one in sink.items() for task in _tasks(one, labels, data, after)]


def _tasks(sink: Spot, labels: Labels, data: Template, after: Tree) -> list[Tree]:
    label = labels.new(_name(sink) or "sink")
    tool = _tool(sink)
    given = _laid_over(sink, "input")
    handed = {**_laid_over(sink, "args"), **given}
    if data is not None and "data" not in handed:
        tool["input"] = {"data": data, **given}
    if after is not None:
        tool["spec"] = {**_laid_over(sink, "spec"), "after": after}
    made: list[Tree] = [{label: Moved(tool, sink.path)}]
    if data is not None and any(chain[0] == "data" for chain in names_used(plain(handed))):
        made.insert(0, {labels.new(f"{label}.data"): Moved(_naming(data, after), sink.path)})
    return made


def _naming(data: Template, after: Tree) -> dict[str, Tree]:
    """A task that calls the data by its name: inputs do not see one another."""
    spec = {} if after is None else {"spec": {"after": after}}
    return {"kind": "noop", "result": data, "set": {"data": "{{ output }}"}, **spec}


def _tool(sink: Spot) -> dict[str, Tree]:
    """The keys of the tool; those beside `tool` are laid over it."""
    made: dict[str, Tree] = {}
    for part in _parts(sink):
        if isinstance(part.value, str):
            made["kind"] = part.moved
        else:
            made |= {key: spot.moved for key, spot in part.entries().items() if key != "tool"}
    return made


def _parts(sink: Spot) -> list[Spot]:
    """The sink and what stands below its `tool`, the innermost first."""
    inner = sink.get("tool") if isinstance(sink.value, dict) else None
    return [*(_parts(inner) if inner else []), sink]


def _laid_over(sink: Spot, key: str) -> dict[str, Tree]:
    made: dict[str, Tree] = {}
    for part in _parts(sink):
        given = part.get(key) if isinstance(part.value, dict) else None
        made |= {name: spot.moved for name, spot in given.entries().items()} if given else {}
    return made


def _name(sink: Spot) -> str | None:
    """What the sink is called; `name` of a call of the workbook is its callee's."""
    tool = _tool(sink)
    for key in ("label", "name"):
        if key in tool and (key, plain(tool.get("kind"))) != ("name", "workbook"):
            return str(plain(tool[key]))
    return None
