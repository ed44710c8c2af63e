"""`loop.cursor`: what it compiles to, and what is wrong with it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from noetl.dsl import Code, Compiled
from noetl.engine.plan import Plan
from noetl.net.model import Net, Task, Transition

NetOf = Callable[[str], Net]
Body = Callable[[str], Compiled]

CLAIM = (
    "UPDATE jobs SET s = 1 WHERE id IN (SELECT id FROM jobs FOR UPDATE SKIP LOCKED LIMIT :max_rows) "
    "RETURNING *"
)


def looped(
    cursor: str, spec: str = "", loop: str = "", step: str = "", tool: str = "{kind: python, code: x}"
) -> str:
    more = f", spec: {{{spec}}}" if spec else ""
    return (
        f"workflow:\n- step: a\n  loop: {{iterator: row{more}{loop},\n    cursor: {{{cursor}}}}}\n"
        f"  tool: {tool}\n{step}"
    )


def claiming(claim: str = CLAIM, more: str = "") -> str:
    return f'kind: postgres, claim: "{claim}"{", " + more if more else ""}'


def step_of(net: Net) -> tuple[Transition, Task]:
    loop = net.steps["a"].loop
    assert loop is not None
    assert loop.cursor is not None
    return net.steps["a"], loop.cursor


def test_a_cursor_is_a_call_that_binds_what_its_claim_names(net_of: NetOf) -> None:
    _, cursor = step_of(net_of(looped(claiming(more="auth: jobs"))))
    assert (cursor.name, cursor.kind) == ("claim", "postgres")
    assert cursor.config == {"auth": "jobs", "command": CLAIM, "params": {"max_rows": 100}}
    assert cursor.lines["command"] == 7


@pytest.mark.parametrize(
    ("claim", "bound"),
    [
        (
            "UPDATE t SET a = :run, b = :worker, c = :execution_id RETURNING *",
            {"execution_id", "run", "worker"},
        ),
        ("UPDATE t SET a = ':run', b = x::run -- :worker\n RETURNING *", set()),
        ("UPDATE t SET a = '{{ \\\":run\\\" }}' RETURNING *", set()),
        ("UPDATE t SET a = 1 /* :max_rows */ RETURNING *", set()),
        ("UPDATE t SET a = :runs RETURNING *", set()),
    ],
)
def test_only_what_stands_in_the_sql_is_bound(net_of: NetOf, claim: str, bound: set[str]) -> None:
    _, cursor = step_of(net_of(looped(claiming(claim))))
    params: Any = cursor.config.get("params") or {}
    assert params.keys() == bound


def test_params_of_the_cursor_win_and_keep_the_claim_as_it_is_written(net_of: NetOf) -> None:
    claim = "UPDATE t SET a = :run, b = :b WHERE c = '{{ c }}' RETURNING *"
    _, cursor = step_of(net_of(looped(claiming(claim, "params: {run: mine, b: '{{ workload }}'}"))))
    assert cursor.config["params"] == {"run": "mine", "b": "{{ workload }}"}
    assert cursor.verbatim == ("command",)


@pytest.mark.parametrize(
    ("frame", "rows"), [("{}", 100), ("{max_rows: 7}", 7), ("{max_rows: '{{ 7 }}'}", "{{ 7 }}")]
)
def test_a_frame_says_how_many_rows_a_claim_is_for(net_of: NetOf, frame: str, rows: Any) -> None:
    step, cursor = step_of(net_of(looped(claiming(), f"frame: {frame}")))
    assert cursor.config["params"] == {"max_rows": rows}
    assert "frame" not in step.tasks[0].spec


def test_a_cursor_decides_which_queue_its_loop_is_for(net_of: NetOf) -> None:
    assert net_of(looped(claiming())).steps["a"].queue == "postgres"
    assert net_of(looped(claiming(), "queue: mine")).steps["a"].queue == "mine"


def test_the_timeout_around_a_cursor_is_its_own_unless_it_has_one(net_of: NetOf) -> None:
    _, around = step_of(net_of(looped(claiming(), "timeout: 5")))
    _, own = step_of(net_of(looped(claiming(more="spec: {timeout: 2}"), "timeout: 5")))
    assert (around.spec["timeout"], own.spec["timeout"]) == (5, 2)


def test_what_a_claim_names_comes_with_the_command(net_of: NetOf) -> None:
    cursor = claiming(
        "UPDATE {{ workload.table }} SET x = 1 RETURNING *",
        "auth: '{{ ctx.who }}', dsn: '{{ keychain.db.dsn }}'",
    )
    head = "workload: {table: jobs}\nkeychain: [{name: db, provider: env}]\n"
    text = looped(cursor, "frame: {max_rows: '{{ setup.n }}'}").replace("SET x = 1", "SET x = :max_rows")
    net = net_of(head + text + "- {step: setup, tool: {kind: noop}, next: a}\n")
    assert Plan(net).needs("a").chains >= {
        ("workload", "table"),
        ("ctx", "who"),
        ("keychain", "db", "dsn"),
        ("setup", "n"),
    }


@pytest.mark.parametrize(
    ("text", "code", "line", "says"),
    [
        (looped(claiming(), loop=", in: [1]"), Code.MISPLACED, 7, "both `in` and `cursor`"),
        (looped("kind: postgres"), Code.MISSING, 7, "how rows are claimed"),
        (looped("kind: postgres, claim: '  '"), Code.MISSING, 7, "how rows are claimed"),
        (looped(f'claim: "{CLAIM}"'), Code.MISSING, 7, "one of duckdb, postgres"),
        (looped(f'kind: postgre, claim: "{CLAIM}"'), Code.UNKNOWN_KIND, 7, "did you mean 'postgres'?"),
        (looped(f'kind: http, claim: "{CLAIM}"'), Code.UNKNOWN_KIND, 7, "one of duckdb, postgres"),
        (looped(claiming(more="command: SELECT 1")), Code.MISPLACED, 7, "under claim:"),
        (looped("claim: [1]"), Code.TYPE, 7, "text"),
        (looped("").replace("cursor: {}", "cursor: jobs"), Code.TYPE, 7, "a mapping"),
        (looped(claiming(more="spec: {polcy: {}}")), Code.UNKNOWN_KEY, 7, "timeout"),
        (looped(claiming(more="spec: {timeout: 0}")), Code.VALUE, 7, "timeout is 0"),
        (looped(claiming(), "frame: {max_rows: 0}"), Code.VALUE, 6, "max_rows is 0"),
        (looped(claiming(), "frame: {max_row: 1}"), Code.MISSPELT_KEY, 6, "max_rows"),
        (looped(claiming(), "frame: {max_rows: '{{ nobody }}'}"), Code.UNDEFINED, 6, "nobody"),
        (looped(claiming(more="auth: '{{ nobody }}'")), Code.UNDEFINED, 7, "nobody"),
        (looped(claiming(more="params: {x: '{{ nobody }}'}")), Code.UNDEFINED, 7, "nobody"),
        (looped(claiming("UPDATE {{ nobody }} SET a = 1 RETURNING *")), Code.UNDEFINED, 7, "nobody"),
        (
            looped(claiming("UPDATE t SET a = '{{ workload.x }}' RETURNING *")),
            Code.SQL_INTERPOLATION,
            7,
            ":name",
        ),
        (looped(claiming("UPDATE t SET a = {{ x RETURNING *")), Code.TEMPLATE, 7, ""),
        (looped(claiming("SELECT * FROM jobs WHERE s = 0 LIMIT 5")), Code.CLAIM, 7, "for ever"),
        (looped(claiming("SELECT * FROM jobs FOR UPDATE SKIP LOCKED")), Code.CLAIM, 7, "for ever"),
        (looped(claiming("UPDATE jobs SET s = 1 WHERE s = 0")), Code.CLAIM, 7, "RETURNING *"),
    ],
)
def test_what_is_wrong_with_a_cursor_is_reported(
    body: Body, text: str, code: Code, line: int, says: str
) -> None:
    found = [problem for problem in body(text).problems if problem.code is code]
    assert found, body(text).problems
    assert found[0].line == line
    assert says in f"{found[0].message} ({found[0].hint})"


@pytest.mark.parametrize(
    "claim",
    [
        CLAIM,
        "SELECT * FROM claim_jobs(:max_rows)",
        "DELETE FROM jobs WHERE id IN (SELECT id FROM jobs LIMIT 5) RETURNING *",
        "WITH c AS (SELECT id FROM jobs) UPDATE jobs SET s = 1 FROM c WHERE c.id = jobs.id RETURNING jobs.*",
        "UPDATE jobs SET s = 1; SELECT * FROM jobs WHERE s = 1",
        "{{ workload.claim }}",
    ],
)
def test_claims_that_mark_and_return_rows_are_no_problem(body: Body, claim: str) -> None:
    text = "workload: {claim: x}\n" + looped(claiming(claim))
    assert [problem for problem in body(text).problems if problem.code is Code.CLAIM] == []


def test_a_frame_without_a_cursor_has_no_effect(body: Body) -> None:
    text = (
        "workflow:\n- {step: a, loop: {in: [1], iterator: i, spec: {frame: {max_rows: 2}}}, tool: "
        "{kind: noop}}"
    )
    assert [(p.code, p.line) for p in body(text).problems] == [(Code.IGNORED, 5)]
