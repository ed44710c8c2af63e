from __future__ import annotations

from noetl.net.diagram import dot, mermaid
from noetl.net.model import Arc, Join, Loop, Net, NextRequest, Pages, Repeat, Task, Transition

_NET = Net(
    'the "net"',
    "n",
    "start",
    (
        Transition(
            "start",
            tasks=(Task("a", "http"), Task("b", "python"), Task("c", "http")),
            arcs=(
                Arc("1", "start", 'odd "name" <b>', when="{{ output.status == 'ok' }}", boundary=True),
                Arc("2", "start", "end"),
            ),
            loop=Loop("{{ x }}", "item", "parallel", 4),
        ),
        Transition('odd "name" <b>', arcs=(Arc("3", 'odd "name" <b>', "end", when=True),)),
        Transition("end", join=Join("count", 2)),
    ),
)


def test_mermaid_shows_kinds_loops_joins_and_guards_escaped() -> None:
    assert mermaid(_NET).splitlines() == [
        "flowchart TD",
        '    s0(["start<br/>http, python<br/>↻ item #40;parallel ×4#41;"])',
        '    s1["odd #34;name#34; #60;b#62;"]',
        '    s2["end<br/>join: count 2"]',
        "    s0 -.->|\"output.status == 'ok'\"| s1",
        "    s0 --> s2",
        '    s1 -->|"true"| s2',
    ]


def test_dot_shows_the_same() -> None:
    assert dot(_NET).splitlines() == [
        'digraph "the \\"net\\"" {',
        "    node [shape=box, style=rounded];",
        '    s0 [label="start\\nhttp, python\\n↻ item (parallel ×4)", style="rounded,bold"];',
        '    s1 [label="odd \\"name\\" <b>"];',
        '    s2 [label="end\\njoin: count 2"];',
        "    s0 -> s1 [label=\"output.status == 'ok'\", style=dashed];",
        "    s0 -> s2;",
        '    s1 -> s2 [label="true"];',
        "}",
    ]


def test_long_guards_are_cut() -> None:
    arc = Arc("1", "a", "a", when="{{ " + "x" * 500 + " }}")
    assert max(map(len, mermaid(Net("n", "n", "a", (Transition("a", arcs=(arc,)),))).splitlines())) < 100


def test_tasks_that_repeat_say_how_often() -> None:
    pages = Task("rows", "http", repeat=Repeat(pages=Pages("link"), max=5))
    calls = Task("job", "http", repeat=Repeat((NextRequest(),), max="{{ n }}"))
    net = Net("n", "n", "start", (Transition("start", tasks=(pages, calls)),))
    shown = (
        "http<br/>↻ rows #40;up to 5 pages by link#41;<br/>↻ job #40;up to #123;#123; n #125;#125; calls#41;"
    )
    assert mermaid(net).splitlines()[1] == f'    s0(["start<br/>{shown}"])'
