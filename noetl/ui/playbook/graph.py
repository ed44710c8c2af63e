"""The graph of a playbook, without any execution."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from noetl.net.diagram import label_arc, label_step
from noetl.net.model import ENTRY, Net
from noetl.ui.playbook.look import PlaybookLook
from noetl.ui.run.graph import ROW, GraphNode, draw_graph


@dataclass(frozen=True, slots=True)
class GraphStep:
    """The row of a step. `labels` say what it does, `ways` when it is come to."""

    step: str
    node: GraphNode
    labels: Sequence[str]
    about: str
    ways: Sequence[str]


def gather(look: PlaybookLook) -> Mapping[str, Any]:
    """What `playbook/graph.html` shows."""
    assert look.net is not None, "there is no such tab"
    graph = draw_graph(look.net)
    return {"graph": graph, "row_height": ROW, "graph_steps": list(_find_steps(look.net, graph.nodes))}


def _find_steps(net: Net, nodes: Sequence[GraphNode]) -> Iterator[GraphStep]:
    for node in nodes:
        step = net.steps[node.step]
        ways = [net.arcs[place] for place in net.incoming[node.step] if place != ENTRY]
        several = len({arc.source for arc in ways}) > 1
        said = [f"{arc.source}: {label}" if several else label for arc in ways if (label := label_arc(arc))]
        about = step.description or net.role_of(node.step)
        yield GraphStep(node.step, node, label_step(step)[1:], about, said)
