"""Nets as rows: what leads where can be followed, whatever the net."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from noetl.net.model import Arc, Compensation, Net, Transition
from noetl.net.rows import RowLayout, lay_out


def _net(arcs: list[tuple[str, str]], *more: str, undo: dict[str, str] | None = None, **names: str) -> Net:
    steps = list(dict.fromkeys(["a", *(step for arc in arcs for step in arc), *more]))
    undone = undo or {}
    transitions = tuple(
        Transition(
            step,
            arcs=tuple(
                Arc(f"{source}-{target}-{at}", source, target)
                for at, (source, target) in enumerate(arcs)
                if source == step
            ),
            compensate=Compensation(undone[step]) if step in undone else None,
        )
        for step in steps
    )
    return Net("n", "n", "a", transitions, **names)


def _shown(layout: RowLayout) -> list[str]:
    """Each row: its lane, and its step."""
    return [f"{row.lane} {row.step}" for row in layout.rows]


def test_a_chain_is_one_straight_line_from_top_to_bottom() -> None:
    layout = lay_out(_net([("a", "b"), ("b", "c")]))
    assert _shown(layout) == ["0 a", "0 b", "0 c"]
    assert [(wire.begin, wire.end, wire.lane) for wire in layout.wires] == [(0, 1, 0), (1, 2, 0)]


def test_branches_have_lanes_of_their_own_until_they_meet() -> None:
    layout = lay_out(_net([("a", "b"), ("a", "c"), ("b", "d"), ("c", "d")]))
    assert _shown(layout) == ["0 a", "0 b", "1 c", "0 d"]


def test_a_branch_stays_together() -> None:
    arcs = [("a", "b"), ("a", "c"), ("b", "b2"), ("b2", "end"), ("c", "c2"), ("c2", "end")]
    assert [row.step for row in lay_out(_net(arcs)).rows] == ["a", "b", "b2", "c", "c2", "end"]


def test_arcs_to_one_step_share_a_lane_so_that_many_handled_failures_stay_narrow() -> None:
    steps = [f"s{number}" for number in range(30)]
    chain = list(zip(["a", *steps], steps, strict=False))
    layout = lay_out(_net([*chain, *((step, "rescue") for step in steps)]))
    assert layout.lanes == 2
    assert {wire.lane for wire in layout.wires if layout.rows[wire.end].step == "rescue"} == {1}


def test_steps_that_are_hidden_have_no_row_and_no_lines() -> None:
    layout = lay_out(_net([("a", "b"), ("a", "c"), ("b", "d"), ("c", "d")]), {"c"})
    assert _shown(layout) == ["0 a", "0 b", "0 d"]
    assert [(wire.begin, wire.end) for wire in layout.wires] == [(0, 1), (1, 2)]


def test_what_leads_back_has_a_lane_beside_the_steps_between() -> None:
    layout = lay_out(_net([("a", "b"), ("b", "c"), ("c", "b"), ("c", "d")]))
    assert [row.step for row in layout.rows] == ["a", "b", "c", "d"]
    back = [wire for wire in layout.wires if wire.end <= wire.begin]
    assert [(one.begin, one.end, one.lane) for one in back] == [(2, 1, 1)]


def test_a_step_that_leads_to_itself_does_so_beside_itself() -> None:
    (wire, *_) = lay_out(_net([("a", "a"), ("a", "b")])).wires
    assert (wire.begin, wire.end, wire.lane) == (0, 0, 1)


def test_handlers_stand_behind_the_flow_and_the_final_step_last() -> None:
    net = _net([("a", "b"), ("undo", "tell")], "last", undo={"a": "undo"}, final_step="last")
    layout = lay_out(net)
    assert [row.step for row in layout.rows] == ["a", "b", "undo", "tell", "last"]
    assert [(one.kind, one.begin, one.end) for one in layout.wires if one.kind != "arc"] == [("undo", 0, 2)]


_STEPS = st.sampled_from("abcdefghij")


@given(st.lists(st.tuples(_STEPS, _STEPS), max_size=25, unique=True), st.sampled_from([None, "a", "c"]))
def test_no_line_leads_through_a_step_that_it_does_not_mean(
    arcs: list[tuple[str, str]], undone: str | None
) -> None:
    known = {step for arc in arcs for step in arc} | {"a"}
    undo = {undone: "undo"} if undone in known else {}
    layout = lay_out(_net(arcs, *undo.values(), undo={str(key): one for key, one in undo.items()}))
    assert sorted(row.step for row in layout.rows) == sorted(known | set(undo.values()))
    assert [row.row for row in layout.rows] == list(range(len(layout.rows)))
    for wire in layout.wires:
        low, high = sorted((wire.begin, wire.end))
        assert wire.lane < layout.lanes
        assert all(layout.rows[row].lane != wire.lane for row in range(low + 1, high))
        if wire.end > wire.begin:
            assert wire.lane == layout.rows[wire.end].lane, "it comes from above, and straight"
        else:
            assert wire.lane not in {layout.rows[wire.begin].lane, layout.rows[wire.end].lane}


@given(st.lists(st.tuples(_STEPS, _STEPS), max_size=25, unique=True))
def test_a_net_without_circles_leads_downwards_alone(arcs: list[tuple[str, str]]) -> None:
    forward = [(source, target) for source, target in arcs if source < target]
    assert all(wire.end > wire.begin for wire in lay_out(_net(forward)).wires)


@given(st.lists(st.tuples(_STEPS, _STEPS), max_size=25, unique=True))
def test_lines_in_one_lane_at_one_row_lead_to_one_step(arcs: list[tuple[str, str]]) -> None:
    layout = lay_out(_net(arcs))
    for row in range(len(layout.rows)):
        held: dict[int, tuple[int, bool]] = {}
        for wire in layout.wires:
            down = wire.end > wire.begin
            low, high = sorted((wire.begin, wire.end))
            if low < row < high:
                assert held.setdefault(wire.lane, (wire.end, down)) == (wire.end, down)
