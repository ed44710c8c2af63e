"""Loops over claimed rows as others write them: each means what the canonical form says."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from noetl.dsl import Code, Compiled, compile_playbook
from noetl.dsl.read.canonical_text import canonical_text
from noetl.net.codec import same_net
from noetl.tools.kit.registry import kinds

Compile = Callable[[str], Compiled]
HEADER = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: sample}\n"
LOOP = """workload: {n: 2}
workflow:
- step: a
  loop: {cursor: {kind: postgres, auth: db, claim: "CLAIM"}, iterator: crate, spec: {SPEC}}
  tool: {kind: noop, set: {iter.x: 1}}
"""
CLAIM = "DELETE FROM crates RETURNING id"


def compiled(spec: str, claim: str = CLAIM) -> Compiled:
    text = HEADER + LOOP.replace("CLAIM", claim).replace("SPEC", spec)
    return compile_playbook(text, file="sample.yaml", kinds=kinds())


#: `spec` of a loop as authors write it, and in the canonical form.
SPECS = {
    "a mode of its own": ("mode: cursor, max_in_flight: 4", "mode: parallel, max_in_flight: 4"),
    "without a width": ("mode: cursor", "mode: parallel"),
    "one at a time": ("mode: cursor, max_in_flight: 1", "mode: sequential, max_in_flight: 1"),
    "one at a time, as text": ('mode: cursor, max_in_flight: "1"', 'mode: sequential, max_in_flight: "1"'),
    "one at a time, as a template that nothing changes": (
        'mode: cursor, max_in_flight: "{{ 3 - 2 }}"',
        'mode: sequential, max_in_flight: "{{ 3 - 2 }}"',
    ),
    "one at a time, into reducers": (
        "mode: cursor, max_in_flight: 1, reduce: {ctx.x: append}",
        "mode: parallel, max_in_flight: 1, reduce: {ctx.x: append}",
    ),
    "as many as a template says, into reducers": (
        'mode: cursor, max_in_flight: "{{ n }}", reduce: {ctx.x: append}',
        'mode: parallel, max_in_flight: "{{ n }}", reduce: {ctx.x: append}',
    ),
    "keys of frames without effect": (
        "mode: cursor, frame: {max_seconds: 30, max_bytes: 65536, lease_seconds: '{{ n }}', "
        "heartbeat_seconds: 3.5, max_rows: 5}",
        "mode: parallel, frame: {max_rows: 5}",
    ),
    "a frame of nothing else": ("frame: {max_seconds: 30}", "mode: sequential"),
    "rows at once, times frames": (
        "mode: cursor, max_in_flight: 4, frame: {row_concurrency: 3, process: row}",
        "mode: parallel, max_in_flight: 12, frame: {process: row}",
    ),
    "rows at once in a parallel loop": (
        "mode: parallel, max_in_flight: 2, frame: {row_concurrency: '2'}",
        "mode: parallel, max_in_flight: 4",
    ),
    "one row of one frame": (
        "mode: parallel, max_in_flight: 1, frame: {row_concurrency: 1}",
        "mode: sequential, max_in_flight: 1",
    ),
    "rows at once as templates": (
        "mode: cursor, max_in_flight: '{{ n + 1 }}', frame: {row_concurrency: '{{ n }}'}",
        "mode: cursor, max_in_flight: '{{ (n + 1) | int * (n) | int }}'",
    ),
    "rows of a template of frames": (
        "mode: cursor, max_in_flight: '{{ n }}', frame: {row_concurrency: 2}",
        "mode: cursor, max_in_flight: '{{ (n) | int * (2) | int }}'",
    ),
}


@pytest.mark.parametrize("name", SPECS)
def test_a_loop_over_claims_means_the_same_in_the_spelling_of_others(name: str) -> None:
    written, canonical = SPECS[name]
    found, wanted = compiled(written), compiled(canonical)
    assert (found.problems, wanted.problems) == ((), ())
    assert found.net is not None
    assert wanted.net is not None
    assert same_net(found.net, wanted.net)
    again = compile_playbook(canonical_text(found.source), file="sample.yaml", kinds=kinds())
    assert (again.problems, again.respelled) == ((), 0)
    assert found.respelled > 0


def test_a_mode_that_a_run_decides_is_canonical() -> None:
    found = compiled('mode: cursor, max_in_flight: "{{ n }}"')
    assert (found.problems, found.respelled, found.source.origins) == ((), 0, ())
    assert found.net is not None
    loop = found.net.steps["a"].loop
    assert loop is not None
    assert loop.mode == "cursor"


@pytest.mark.parametrize(
    ("spec", "word"),
    [
        ("mode: cursor, max_in_flight: 0", "max_in_flight is 0"),
        ("mode: cursor, frame: {row_concurrency: 0}", "row_concurrency is 0"),
        ("mode: cursor, frame: {row_concurrency: many}", "row_concurrency is 'many'"),
        ("mode: cursor, max_in_flight: 'a {{ n }}', frame: {row_concurrency: 2}", "not one expression"),
        ("frame: {process: table}", "'table', not one of row, frame"),
    ],
)
def test_what_cannot_be_meant_is_reported(spec: str, word: str) -> None:
    (problem,) = compiled(spec).problems
    assert (problem.code, word in problem.message) == (Code.VALUE, True), problem


@pytest.mark.parametrize("spec", ["mode: cursor", "mode: parallel, frame: {row_concurrency: 2}"])
def test_without_a_cursor_these_mean_nothing(spec: str) -> None:
    text = (
        f"{HEADER}workflow: [{{step: a, loop: {{in: [1], iterator: n, spec: {{{spec}}}}}, tool: "
        f"{{kind: noop}}}}]"
    )
    problems = compile_playbook(text, file="sample.yaml", kinds=kinds()).problems
    assert [problem.code for problem in problems] == ([Code.VALUE] if spec == "mode: cursor" else [])


@pytest.mark.parametrize(
    "claim", ["LIMIT {{ __frame_max_rows }}", "LIMIT {{ __frame_max_rows | default(1) }}"]
)
def test_a_rendered_claim_reads_how_many_rows_a_frame_has(claim: str) -> None:
    sql = f"DELETE FROM crates WHERE id IN (SELECT id FROM crates {claim}) RETURNING id"
    rows = {"mode: cursor": 100, "frame: {max_rows: 7}": 7, "frame: {max_rows: '{{ n }}'}": "{{ (n) | int }}"}
    for spec, number in rows.items():
        found = compiled(spec, sql)
        assert found.problems == ()
        assert found.net is not None
        loop = found.net.steps["a"].loop
        assert loop is not None
        assert loop.cursor is not None
        assert loop.cursor.args == {"__frame_max_rows": number}


@pytest.mark.parametrize(
    ("value", "codes"),
    [("iter.index", []), ("loop_index", []), ("iter.n", [Code.SQL_INTERPOLATION])],
)
def test_what_the_engine_counts_may_stand_in_sql(value: str, codes: list[Code]) -> None:
    text = (
        f"{HEADER}workflow: [{{step: a, loop: {{in: [1], iterator: n}}, "
        f"tool: {{kind: sqlite, command: 'INSERT INTO t VALUES ({{{{ {value} }}}})'}}}}]"
    )
    problems = compile_playbook(text, file="sample.yaml", kinds=kinds()).problems
    assert [problem.code for problem in problems] == codes


@pytest.mark.parametrize("mode", ["", "mode: sequential, "])
def test_reducers_of_a_sequential_loop_are_reported_to_have_no_effect(mode: str) -> None:
    (problem,) = compiled(mode + "reduce: {ctx.x: append}").problems
    assert (problem.code, problem.hint) == (Code.IGNORED, "remove it, or write mode: parallel")
