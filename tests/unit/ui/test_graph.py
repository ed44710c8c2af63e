"""The graph beside the steps, as lines and places in pixels."""

from __future__ import annotations

import re

from noetl.net.model import Arc, Compensation, Net, Region, Transition
from noetl.ui.run.graph import MIDDLE, ROW, draw_graph


def _net(*regions: Region) -> Net:
    return Net(
        "n",
        "n",
        "a",
        (
            Transition("a", arcs=(Arc("1", "a", "b", when="{{ x > 1 }}"), Arc("2", "a", "c", times=3))),
            Transition("b", arcs=(Arc("3", "b", "c"),), compensate=Compensation("undo")),
            Transition("c", arcs=(Arc("4", "c", "a"),)),
            Transition("undo"),
        ),
        regions=regions,
    )


def _ends(path: str) -> tuple[float, float]:
    """Where the point of its arrow is."""
    x, y, *_ = re.findall(r"M([-\d.]+) ([-\d.]+)l3 3", path)[-1]
    return float(x) + 3, float(y) + 3


def test_each_step_has_a_row_of_the_same_height() -> None:
    graph = draw_graph(_net())
    assert [(one.step, one.y) for one in graph.nodes] == [
        (step, MIDDLE + ROW * row) for row, step in enumerate(["a", "b", "c", "undo"])
    ]
    assert graph.height == 4 * ROW


def test_lines_say_on_what_they_depend_and_how_many_tokens_they_lead() -> None:
    labels = {one.id: one.label for one in draw_graph(_net()).lines}
    assert labels == {"1": "x > 1", "2": "×3", "3": "", "4": "", "b/undo": "undone by"}


def test_arrows_end_above_the_step_that_they_mean() -> None:
    graph = draw_graph(_net())
    nodes = {one.step: one for one in graph.nodes}
    for line in graph.lines:
        x, y = _ends(line.path)
        assert (x, y) == (nodes[line.target].x, nodes[line.target].y - 9)


def test_everything_is_inside_of_the_picture() -> None:
    graph = draw_graph(_net())
    for line in graph.lines:
        for points in re.findall(r"[MC]([-\d. ]+)", line.path):
            numbers = [float(one) for one in points.split()]
            assert all(0 <= x <= graph.width for x in numbers[::2])
            # Curves stay within the points that bend them.
            assert all(-4 <= y <= graph.height for y in numbers[1::2])
    assert all(0 < one.x < graph.width for one in graph.nodes)


def test_many_lanes_stand_closer_together() -> None:
    steps = [f"s{number}" for number in range(100)]
    arcs = tuple(Arc(step, "a", step) for step in steps)
    net = Net("n", "n", "a", (Transition("a", arcs=arcs), *(Transition(step) for step in steps)))
    assert draw_graph(net).width < 300


def test_a_region_has_a_stripe_beside_its_rows_and_what_is_inside_of_it_another_one() -> None:
    outer, inner = Region("outer", ("a", "b", "undo")), Region("inner", ("b",))
    graph = draw_graph(_net(inner, outer))
    found = [(one.region, one.x, round(one.y / ROW), round(one.height / ROW)) for one in graph.stripes]
    assert found == [("outer", 0, 0, 2), ("outer", 0, 3, 1), ("inner", 6, 1, 1)]
    assert all(one.x > 10 for one in graph.nodes), "the graph stands beside them"
