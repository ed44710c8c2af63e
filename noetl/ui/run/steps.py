"""The steps of an execution: the graph of its playbook, beside the time that each step took, and
both as of the version that the slider stands at."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from noetl.engine.state import result_of
from noetl.facts.json import JsonMap
from noetl.history.lines import ArcLine, Timeline
from noetl.net.diagram import label_arc, label_step
from noetl.net.model import ENTRY, Net
from noetl.ui.run import drawer, variables, waits
from noetl.ui.run.bars import TimeBar, TimeScale, draw_bars, status_at
from noetl.ui.run.graph import ROW, ArcFate, Graph, GraphNode, draw_graph
from noetl.ui.run.look import RunLook
from noetl.ui.run.progress import StepTime, TimelineMoment, find_kept, find_moment, find_time, say_count
from noetl.ui.values import ShownValue, read_page, show_value
from noetl.usecases import inspect
from noetl.usecases.timeline import timeline

#: Arcs whose guards stand in the row of the step that they lead to.
_ARCS: Final = 3
#: What the field `unrun` of the address says where steps that have not run are not shown.
HIDDEN: Final = "hidden"


@dataclass(frozen=True, slots=True)
class ShownArc:
    """An arc in the row of the step that it leads to; `source` where there are several."""

    id: str
    fate: ArcFate
    source: str
    label: str


@dataclass(frozen=True, slots=True)
class ShownStep:
    """A row. `labels` say what the step does; `count` how often it ran, or how far its loop is;
    `time` how long that took. `kept_from`: it was not run, and what it came to in that execution
    stands."""

    step: str
    status: str
    node: GraphNode
    labels: Sequence[str]
    about: str
    arcs: Sequence[ShownArc]
    more_arcs: int
    count: str
    time: StepTime | None
    kept_from: str
    bars: Sequence[TimeBar]
    report: JsonMap


def gather(look: RunLook) -> Mapping[str, Any]:
    """What `run/steps.html` shows."""
    rt, report = look.visitor.rt, look.report
    net, line = inspect.net_of(rt, look.execution_id), timeline(rt, look.execution_id)
    unrun = find_unrun(net, line)
    graph = draw_graph(net, unrun if look.asked.get("unrun") == HIDDEN else ())
    now_ms = 0.0 if look.is_over else (rt.clock() - line.begin).total_seconds() * 1_000
    steps = report.steps if look.at is None else inspect.state_view(rt, look.execution_id, look.at)["steps"]
    scale = TimeScale(max(now_ms, line.at_ms[-1] if line.at_ms else 0.0, 1.0))
    now = find_moment(line, look.version, now_ms if look.goes_on else None)
    return {
        "graph": graph,
        "row_height": ROW,
        "fates": {arc.arc: fate_at(arc, now.version) for arc in line.arcs},
        "step_rows": list(_find_rows(net, graph, line, scale, now, steps)),
        "unrun": unrun,
        "hidden": HIDDEN,
        "ticks": scale.ticks(),
        # What is true now is so until the edge.
        "cursor": 100 if look.at is None else scale.place(now.at_ms),
        "timeline": line,
        "scale": scale,
        "result": _show_result(look),
        **drawer.gather(look),
        **variables.gather(look),
        **waits.gather(look),
    }


def _show_result(look: RunLook) -> ShownValue | None:
    result = look.report.result if look.at is None else result_of(look.state)
    if result is None:
        return None
    page = read_page(look.asked.get("page"))
    return show_value(result, look.visitor.rt.load, page, lambda number: look.here(page=number or None))


def fate_at(arc: ArcLine, version: int) -> ArcFate:
    """What had become of an arc: it stays taken once it was."""
    if arc.taken and arc.taken[0] <= version:
        return "taken"
    return "missed" if arc.missed and arc.missed[0] <= version else "open"


def find_unrun(net: Net, line: Timeline) -> frozenset[str]:
    """The steps of which nothing has become, as it is now."""
    return frozenset(one.step for one in line.steps if not one.changes) & net.steps.keys()


def _find_rows(
    net: Net, graph: Graph, line: Timeline, scale: TimeScale, now: TimelineMoment, told: JsonMap
) -> Iterator[ShownStep]:
    lines = {one.step: one for one in line.steps}
    fates = {arc.arc: fate_at(arc, now.version) for arc in line.arcs}
    for node in graph.nodes:
        step, one = net.steps[node.step], lines[node.step]
        arcs = _find_arcs(net, node.step, fates)
        yield ShownStep(
            node.step,
            status_at(one, now.version),
            node,
            label_step(step)[1:],
            step.description or net.role_of(node.step),
            arcs[:_ARCS],
            len(arcs[_ARCS:]),
            say_count(one, now, step.loop),
            find_time(one, now),
            find_kept(one, now),
            draw_bars(one, scale),
            told.get(node.step, {}),
        )


def _find_arcs(net: Net, step: str, fates: Mapping[str, ArcFate]) -> list[ShownArc]:
    """The arcs that lead to it, of those that say on what it depends."""
    ways = [net.arcs[place] for place in net.incoming[step] if place != ENTRY]
    several = len({arc.source for arc in ways}) > 1
    return [
        ShownArc(arc.id, fates.get(arc.id, "open"), arc.source if several else "", label)
        for arc in ways
        if (label := label_arc(arc))
    ]
