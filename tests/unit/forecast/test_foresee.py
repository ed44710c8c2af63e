"""What a plan foresees, and what it leaves open."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from noetl.dsl import load_playbook
from noetl.facts.json import Json, JsonMap
from noetl.forecast import shape
from noetl.forecast.foresee import PlanInput, foresee
from noetl.forecast.model import ArcForecast, Forecast, StepForecast
from noetl.forecast.tasks import Kinds
from noetl.tools.code.quoting import CommandLine
from noetl.tools.kit.registry import kinds, touches

HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: test, path: tests/plan}\n"


def ahead(body: str, payload: JsonMap | None = None, **given: Any) -> Forecast:
    net = load_playbook(HEAD + body, file="test.yaml", kinds=kinds())
    return foresee(net, PlanInput(Kinds(kinds(), touches, CommandLine), payload or {}, **given))


def steps_of(forecast: Forecast) -> Mapping[str, StepForecast]:
    return {step.name: step for step in forecast.steps}


def config(forecast: Forecast, step: str, key: str, task: int = 0) -> tuple[Json, tuple[str, ...]]:
    found = steps_of(forecast)[step].tasks[task].config[key]
    return found.value, found.needs


def arcs(forecast: Forecast, step: str) -> list[tuple[str, bool | None]]:
    return [(arc.step, arc.taken) for arc in steps_of(forecast)[step].arcs]


def url(text: str, workload: str = "{}", **given: Any) -> tuple[Json, tuple[str, ...]]:
    """The url of the step `here`, which comes behind a step `before` that hands `day` over."""
    body = f"""
workload: {workload}
workflow:
  - step: before
    tool: {{kind: noop}}
    set: {{ctx.written: "1"}}
    next: {{arcs: [{{step: here, args: {{day: "{{{{ workload.day }}}}", late: "{{{{ before.x }}}}"}}}}]}}
  - step: here
    input: {{day: never, own: "{{{{ day }}}}"}}
    loop: {{in: [1, 2], iterator: item}}
    tool:
      - {{name: first, kind: noop, set: {{local: 1}}}}
      - {{name: second, kind: http, url: {text!r}}}
"""
    return config(ahead(body, **given), "here", "url", 1)


# --- order and routes ---


def test_steps_stand_behind_those_that_lead_to_them_and_branches_one_after_the_other() -> None:
    body = """
workflow:
  - {step: start, next: [b, a]}
  - {step: join, next: end}
  - {step: end, tool: {kind: noop}}
  - {step: a, next: join}
  - {step: b, next: c}
  - {step: c, next: join}
  - {step: lost, tool: {kind: noop}, next: end}
"""
    found = ahead(body)
    assert [step.name for step in found.steps] == ["start", "b", "c", "a", "join", "end"]
    assert found.unreached == ("lost",)
    assert steps_of(found)["join"].sources == ("a", "c")
    assert found.entry == "start"


@pytest.mark.full("a load")
def test_a_thousand_steps_in_a_row_are_foreseen() -> None:
    rows = [f"  - {{step: s{n}, tool: {{kind: noop}}, next: s{n + 1}}}" for n in range(999)]
    found = ahead("\n".join(["workflow:", *rows, "  - {step: s999, tool: {kind: noop}}"]))
    assert [step.name for step in found.steps] == [f"s{n}" for n in range(1000)]


def test_cycles_are_reported_and_the_final_step_comes_last() -> None:
    body = """
executor: {spec: {final_step: clean}}
workflow:
  - {step: start, next: poll}
  - {step: clean, tool: {kind: noop, input: {how: "{{ args.status }}"}}}
  - {step: poll, tool: {kind: noop}, next: {arcs: [{step: poll, when: "{{ poll.more }}"}, {step: end}]}}
  - {step: end, tool: {kind: noop}}
"""
    found = ahead(body)
    assert [step.name for step in found.steps] == ["start", "poll", "end", "clean"]
    assert found.cycles == (("poll",),)
    assert steps_of(found)["clean"].tasks[0].args["how"].needs == ("args.status",)


def test_nothing_follows_the_final_step() -> None:
    body = """
executor: {spec: {final_step: clean}}
workflow:
  - {step: start, tool: {kind: noop}}
  - {step: clean, tool: {kind: noop}, next: more}
  - {step: more, tool: {kind: noop}}
"""
    found = ahead(body)
    assert [step.name for step in found.steps] == ["start", "clean"]
    assert arcs(found, "clean") == [("more", False)]


def test_a_guard_over_the_run_itself_is_decided_only_where_every_run_decides_it_alike() -> None:
    body = """
workload: {began: "{{ now() }}"}
workflow:
  - step: start
    tool: {kind: noop}
    next:
      - {step: a, when: "{{ began | length > 5 }}"}
      - {step: b, when: "{{ began > '2020' }}"}
      - {step: b, when: "{{ now() > began }}"}
      - {step: c, when: "{{ execution_id == 'x' }}"}
  - {step: a, tool: {kind: noop}}
  - {step: b, tool: {kind: noop}}
  - {step: c, tool: {kind: noop}}
"""
    assert arcs(ahead(body), "start") == [("a", True), ("b", None), ("b", None), ("c", False)]


ROUTED = """
workload: {mode: full}
workflow:
  - step: start
    tool: {kind: noop}
    next:
      spec: {mode: MODE}
      arcs:
        - {step: maybe, when: "{{ start.x }}"}
        - {step: full, when: "{{ mode == 'full' }}"}
        - {step: part, when: "{{ mode == 'part' }}"}
        - {step: failed, when: "{{ event.name == 'step.failed' }}"}
        - {step: other}
  - {step: maybe, tool: {kind: noop}}
  - {step: full, tool: {kind: noop}}
  - {step: part, tool: {kind: noop}, next: behind}
  - {step: behind, tool: {kind: noop}, next: start}
  - {step: failed, tool: {kind: noop}}
  - {step: other, tool: {kind: noop}}
"""


def test_an_arc_behind_one_that_may_be_taken_depends_on_that() -> None:
    found = ahead(ROUTED.replace("MODE", "exclusive"))
    assert arcs(found, "start") == [
        ("maybe", None),
        ("full", None),
        ("part", False),
        ("failed", None),
        ("other", None),
    ]
    assert found.unreached == ("part", "behind")
    assert found.cycles == ()


def test_an_arc_behind_one_that_is_taken_for_certain_is_never_taken_but_after_a_failure() -> None:
    body = ROUTED.replace("MODE", "exclusive").replace(
        '{step: maybe, when: "{{ start.x }}"}', "{step: part, when: false}"
    )
    found = ahead(body)
    assert arcs(found, "start") == [
        ("part", False),
        ("full", True),
        ("part", False),
        ("failed", None),
        ("other", False),
    ]
    assert [step.name for step in found.steps] == ["start", "full", "failed"]


def test_every_arc_of_an_inclusive_router_is_asked_for_itself() -> None:
    found = ahead(ROUTED.replace("MODE", "inclusive"), {"mode": "part"})
    assert arcs(found, "start") == [
        ("maybe", None),
        ("full", False),
        ("part", True),
        ("failed", None),
        ("other", True),
    ]


# --- names ---


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{{ workload.base }}/x", "http://a/x"),
        ("{{ base }}/{{ day }}", "http://a/mon"),
        ("{{ args.day }}-{{ input.own }}", "mon-mon"),
        ("{{ own | upper }}", "MON"),
        ("{{ workload.nothing | default('none') }}", "none"),
        ("{{ execution_id }}/{{ job.uuid }}", "<execution_id>/<execution_id>"),
        ("{{ run }}", "run-<execution_id>-<now>"),
        ("{{ env.HOST }}", "h1"),
        ("{{ keychain.api.token }}", "<keychain.api.token>"),
        ("Bearer {{ keychain.api }}", "Bearer <keychain.api>"),
        ("{% for n in [1, 2] %}{{ n }}{{ base }}{% endfor %}", "1http://a2http://a"),
    ],
)
def test_a_template_whose_names_are_known_is_rendered(text: str, expected: str) -> None:
    workload = (
        '{base: "http://a", day: mon, run: "run-{{ execution_id }}-{{ now() }}"}\nkeychain: '
        "[{name: api, credential: c}]"
    )
    assert url(text, workload, env={"HOST": "h1"}) == (expected, ())


@pytest.mark.parametrize(
    ("text", "expected", "needs"),
    [
        ("{{ base }}/{{ before.id }}", "http://a/{{ before.id }}", ("before.id",)),
        (
            "{{ base }}/{{ iter.item }}/{{ item }}",
            "http://a/{{ iter.item }}/{{ item }}",
            ("item", "iter.item"),
        ),
        ("{{ first.x }}", "{{ first.x }}", ("first.x",)),
        ("{{ local }}", "{{ local }}", ("local",)),
        ("{{ ctx.a }}{{ written }}", "{{ ctx.a }}{{ written }}", ("ctx.a", "written")),
        ("{{ late }}", "{{ late }}", ("late",)),
        ("{{ args }}", "{{ args }}", ("args",)),
        ("{{ nobody }}", "{{ nobody }}", ("nobody",)),
        ("{{ _attempt }}{{ loop_index }}", "{{ _attempt }}{{ loop_index }}", ("_attempt", "loop_index")),
        (
            "{% if before.x %}{{ base }}{% endif %}",
            "{% if before.x %}{{ base }}{% endif %}",
            ("before.x",),
        ),
        ("{{ execution_id[:3] }}", "{{ execution_id[:3] }}", ("the run itself",)),
        ("{{ execution_id | int + 1 }}", "{{ execution_id | int + 1 }}", ("the run itself",)),
        ("{{ long }}", "{{ long }}", ("long",)),
    ],
)
def test_a_template_that_needs_the_run_stays_as_written_but_for_what_is_known(
    text: str, expected: str, needs: tuple[str, ...]
) -> None:
    # Values of the workload whose names the run answers for before it.
    shadowed = (
        "before: {id: 1, x: 1}, item: 1, first: {x: 1}, local: 1, written: 2, ctx: {a: 1}, iter: {item: 1}"
    )
    workload = f'{{base: "http://a", day: mon, {shadowed}, long: "{{{{ execution_id | length }}}}"}}'
    assert url(text, workload) == (expected, needs)


def test_what_the_caller_hands_over_is_never_rendered() -> None:
    found = url("{{ base }}", "{base: 1}", payload={"base": "{{ 1 + 1 }}"})
    assert found == ("{{ 1 + 1 }}", ())


def test_overrides_win_over_the_payload_and_both_over_the_playbook() -> None:
    found = ahead(
        "workload: {a: 1, b: {c: 1, d: 1}, e: '{{ b.c }}'}\nworkflow: [{step: start, tool: {kind: noop}}]",
        {"b": {"c": 2}, "f": 2},
        overrides={"f": 3},
    )
    assert {key: value.value for key, value in found.workload.items()} == {
        "a": 1,
        "b": {"c": 2, "d": 1},
        "e": 2,
        "f": 3,
    }


def test_args_that_come_over_several_arcs_are_known_by_name_alone() -> None:
    body = """
workflow:
  - step: start
    tool: {kind: noop}
    next: [{step: a}, {step: b}]
  - {step: a, next: {arcs: [{step: c, args: {x: 1}}]}}
  - {step: b, next: {arcs: [{step: c, args: {x: 2}}]}}
  - {step: c, input: {x: 0, y: 5}, tool: {kind: http, url: "{{ x }}/{{ y }}"}}
"""
    assert config(ahead(body), "c", "url") == ("{{ x }}/5", ("x",))


# --- loops ---


@pytest.mark.parametrize(
    ("collection", "count", "needs"),
    [
        ("[1, 2, 3]", 3, ()),
        ('"{{ workload.cities }}"', 2, ()),
        ('"{{ range(1, 5) | list }}"', 4, ()),
        ('"{{ workload.nothing }}"', 0, ()),
        ("a text", 1, ()),
        ('["{{ start.x }}", 2]', None, ("start.x",)),
        ('"{{ start.rows }}"', None, ("start.rows",)),
    ],
)
def test_a_loop_has_a_count_where_its_collection_is_known(
    collection: str, count: int | None, needs: tuple[str, ...]
) -> None:
    body = f"""
workload: {{cities: [oslo, rome], wide: 3}}
workflow:
  - {{step: start, tool: {{kind: noop}}, next: each}}
  - step: each
    loop: {{in: {collection}, iterator: one, spec: {{mode: parallel, max_in_flight: "{{{{ wide }}}}"}}}}
    tool: {{kind: noop}}
"""
    loop = steps_of(ahead(body))["each"].loop
    assert loop is not None
    assert (loop.count, loop.collection.needs) == (count, needs)
    assert (loop.iterator, loop.mode, loop.width.value) == ("one", "parallel", 3)


def test_the_claim_of_a_cursor_is_the_first_call_of_its_step() -> None:
    body = """
workload: {table: jobs}
workflow:
  - step: each
    loop:
      cursor: {kind: sqlite, database: jobs.db, claim: "UPDATE {{ table }} SET run = :run LIMIT :max_rows RETURNING *"}
      iterator: row
      spec: {mode: parallel, max_in_flight: 3}
    tool: {kind: http, url: "http://a/{{ row.id }}"}
"""
    forecast = ahead(body)
    step = steps_of(forecast)["each"]
    assert step.loop is not None
    assert (step.loop.cursor, step.loop.count, step.queue) == ("sqlite", None, "sqlite")
    assert [(task.name, task.kind) for task in step.tasks] == [("claim", "sqlite"), ("task_0", "http")]
    assert config(forecast, "each", "command")[0] == "UPDATE jobs SET run = :run LIMIT :max_rows RETURNING *"
    assert step.tasks[0].touches == ("SQL on SQLite file jobs.db: update",)


def test_a_parallel_loop_without_a_width_has_that_of_the_settings_and_a_sequential_one_is_one_wide() -> None:
    body = """
workflow:
  - {step: start, loop: {in: [1], iterator: a, mode: parallel}, tool: {kind: noop}, next: then}
  - {step: then, loop: {in: [1], iterator: a}, tool: {kind: noop}}
"""
    found = steps_of(ahead(body, max_in_flight=5))
    assert [step.loop.width.value for step in found.values() if step.loop] == [5, 1]


# --- what it needs ---


def test_credentials_keychain_variables_and_calls_are_reported_with_who_uses_them() -> None:
    body = """
keychain:
  api: {kind: secret, provider: vault, path: kv/api}
  unused: {kind: credential, credential: other}
  token: {kind: token, auth: idp}
  gate: {kind: bearer, token: "{{ keychain.api.x }}"}
workload: {dw: warehouse, child: a/b, host: "{{ env.HOST }}"}
workflow:
  - step: start
    tool:
      - {name: one, kind: http, url: "http://a", auth: token, headers: {x: "{{ keychain.api.x }}"}, proxy: {url: "http://p", auth: px}}
      - {name: two, kind: postgres, auth: "{{ dw }}", command: select 1}
      - {name: three, kind: http, url: "http://a", json: {auth: body}, auth: "{{ one.name }}"}
      - {name: four, kind: duckdb, command: select 1, attach: {a: lake, b: {type: postgres, auth: {credential: warehouse}}}}
    next: call
  - step: call
    tool:
      - {name: c, kind: playbook, path: "{{ child }}", version: 2, input: {x: "{{ env.TIER }}"}}
      - {name: d, kind: playbook, path: "{{ start.path }}"}
"""
    found = ahead(body, env={"HOST": "h"})
    assert [
        (one.name, one.kind, one.provider, one.source, one.used_by, one.needs) for one in found.secrets
    ] == [
        ("api", "secret", "vault", "kv/api", ("keychain", "start"), ()),
        ("unused", "credential", "store", "other", (), ()),
        ("token", "token", "store", "idp", ("start.one",), ()),
        ("gate", "credential", "execution", "keychain.gate", (), ()),
        ("px", "credential", "store", "", ("start.one",), ()),
        ("warehouse", "credential", "store", "", ("start.two", "start.four"), ()),
        ("{{ one.name }}", "credential", "store", "", ("start.three",), ("one.name",)),
        ("lake", "credential", "store", "", ("start.four",), ()),
    ]
    assert [(one.name, one.used_by, one.given) for one in found.variables] == [
        ("HOST", ("workload",), True),
        ("TIER", ("call",), False),
    ]
    assert [(one.path, one.version, one.used_by, one.needs) for one in found.playbooks] == [
        ("a/b", 2, ("call.c",), ()),
        ("{{ start.path }}", None, ("call.d",), ("start.path",)),
    ]
    assert found.queues == {"http": ("start",), "python": ("call",)}


def test_retries_and_jumps_are_reported() -> None:
    body = """
workflow:
  - step: start
    tool:
      - name: a
        kind: noop
        spec: {policy: {rules: [{when: "{{ error }}", then: {do: retry, attempts: 7}}, {else: {then: {do: continue}}}]}}
      - name: b
        kind: noop
        spec: {policy: {rules: [{when: "{{ a.again }}", then: {do: jump, to: a}}]}}
"""
    tasks = steps_of(ahead(body))["start"].tasks
    assert [(task.tries, task.jumps) for task in tasks] == [(7, ()), (None, ("a",))]


# --- what would go wrong ---


def test_a_guard_that_fails_says_so_and_is_open() -> None:
    found = ahead('workflow: [{step: start, tool: {kind: noop}, next: {step: start, when: "{{ 1 / 0 }}"}}]')
    arc: ArcForecast = steps_of(found)["start"].arcs[0]
    assert arc.taken is None
    assert arc.guard is not None
    assert "1 / 0" in arc.guard.error


def test_what_comes_out_undefined_is_warned_of() -> None:
    found = ahead('workload: {a: 1}\nworkflow: [{step: start, tool: {kind: http, url: "{{ workload.b }}"}}]')
    value = steps_of(found)["start"].tasks[0].config["url"]
    assert value.value is None
    assert value.warning == "The template `{{ workload.b }}` is undefined and became null."


def test_a_circle_in_the_workload_is_an_error_of_each_of_its_values() -> None:
    found = ahead(
        'workload: {a: "{{ b }}", b: "{{ a }}", c: 1}\nworkflow: [{step: start, tool: {kind: noop}}]'
    )
    assert ["circle" in value.error for value in found.workload.values()] == [True, True, False]


HOSTILE = [
    "{{ 'a' * 10**9 }}",
    "{{ 10**(10**9) }}",
    "{{ '%1000000000d' % 1 }}",
    "{{ '{:>1000000000}'.format(1) }}",
    "{{ 'a' | center(10**9) }}",
    "{{ range(10**9) | list }}",
    "{% for a in range(99999) %}{% for b in range(99999) %}{{ b }}{% endfor %}{% endfor %}",
    "{{ ''.__class__.__mro__ }}",
    "{{ '{0.__class__}'.format(x) }}",
    "{{ x | attr('__class__') }}",
    "{{ keychain['no' ~ 'thing'] }}",
]


@pytest.mark.parametrize("template", HOSTILE)
def test_a_hostile_template_is_a_sentence_in_the_plan(template: str) -> None:
    """Of the workload, of a task, and of an arc: the tables of bad inputs 14 to 17."""
    quoted = template.replace("'", "''")
    body = f"""
workload: {{x: 1, w: '{quoted}'}}
workflow:
  - step: start
    input: {{a: '{quoted}'}}
    tool: {{kind: http, url: 'http://a/{quoted}'}}
    next: {{arcs: [{{step: end, args: {{a: '{quoted}'}}}}]}}
  - {{step: end, tool: {{kind: noop}}}}
"""
    found = ahead(body)
    step = steps_of(found)["start"]
    values = [found.workload["w"], step.args["a"], step.tasks[0].config["url"], step.arcs[0].args["a"]]
    assert all(value.error and not value.known for value in values), values


# --- variables, the keychain, and tasks that are more than one call ---


def test_a_variable_is_known_until_something_may_have_assigned_it() -> None:
    seen = 'tool: {kind: http, url: "{{ ctx.a }}/{{ b }}/{{ c }}"}'
    body = f"""
workload: {{tier: blue, b: shadowed}}
ctx: {{a: "{{{{ tier }}}}", b: 2, c: "{{{{ execution_id }}}}"}}
workflow:
  - {{step: start, {seen}, set: {{ctx.b: 3}}, next: [left, right]}}
  - step: left
    tool: {{kind: http, url: "{{{{ ctx.a }}}}/{{{{ b }}}}/{{{{ c }}}}", set: {{ctx.c: 1}}}}
  - {{step: right, {seen}, next: last}}
  - {{step: last, {seen}}}
"""
    found = ahead(body)
    assert {name: value.value for name, value in found.ctx.items()} == {
        "a": "blue",
        "b": 2,
        "c": "<execution_id>",
    }
    assert [config(found, step, "url")[0] for step in ("start", "left", "right", "last")] == [
        "blue/2/<execution_id>",
        "blue/{{ b }}/{{ c }}",
        "blue/{{ b }}/{{ c }}",
        "blue/{{ b }}/{{ c }}",
    ]


def test_a_variable_that_an_earlier_round_may_have_assigned_is_open() -> None:
    body = """
ctx: {n: 0}
workflow:
  - step: start
    input: {n: "{{ n }}"}
    tool: {kind: noop}
    set: {ctx.n: "{{ n + 1 }}"}
    next: {arcs: [{step: start, when: "{{ ctx.n < 3 }}"}, {step: end, when: "{{ n == 3 }}"}]}
  - {step: end, tool: {kind: noop}}
"""
    found = ahead(body)
    assert steps_of(found)["start"].args["n"].needs == ("n",)
    assert arcs(found, "start") == [("start", None), ("end", None)]


def test_a_variable_behind_a_join_for_any_may_have_been_assigned_by_the_first_that_came() -> None:
    body = """
ctx: {n: 0}
workflow:
  - {step: start, tool: {kind: noop}, next: [a, b]}
  - {step: a, tool: {kind: noop}, next: c}
  - {step: b, tool: {kind: noop}, next: c}
  - {step: c, spec: {join: JOIN}, tool: {kind: noop, input: {n: "{{ n }}"}}, next: d}
  - {step: d, tool: {kind: noop}, set: {ctx.n: 1}}
"""
    once, often = (
        steps_of(ahead(body.replace("JOIN", join)))["c"].tasks[0].args["n"] for join in ("all", "any")
    )
    assert (once.value, often.needs) == (0, ("n",))


def test_the_credential_of_a_keychain_entry_is_that_of_the_payload() -> None:
    body = """
keychain:
  db: {kind: credential, credential: "{{ tier }}_db"}
  late: {kind: credential, credential: "{{ execution_id | length }}"}
  none: {kind: credential, credential: "{{ workload.nothing }}"}
workload: {tier: blue}
workflow: [{step: start, tool: {kind: postgres, auth: db, command: select 1}}]
"""
    found = ahead(body, {"tier": "red"})
    assert [(one.name, one.source, one.needs) for one in found.secrets[:2]] == [
        ("db", "red_db", ()),
        ("late", "{{ execution_id | length }}", ("the run itself",)),
    ]
    assert found.secrets[2].error == "keychain.none: `credential` comes out as null; it has to be a name."


def test_a_task_that_is_called_again_is_one_task_with_its_first_call() -> None:
    body = """
workload: {base: "http://a", most: 5}
workflow:
  - step: start
    tool:
      - name: fetch
        kind: http
        url: "{{ base }}/rows"
        params: {page: 1, size: 9}
        input: {day: mon}
        repeat:
          next: {when: "{{ output.data.next }}", params: {page: "{{ output.data.next }}"}, args: {day: tue}}
          max: "{{ most }}"
          delay: 1s
          collect: {path: rows}
          each: {name: keep, kind: http, method: POST, url: "{{ base }}/{{ data.n }}", json: "{{ args.data }}"}
      - {name: all, kind: http, url: "{{ base }}/all", pagination: {type: page, items: rows, stop_when: "{{ output.data.done }}"}}
      - name: back
        kind: noop
        spec: {policy: {rules: [{when: "{{ fetch.again }}", then: {do: jump, to: fetch}}]}}
"""
    fetch, keep, every, back = steps_of(ahead(body))["start"].tasks
    assert (fetch.name, fetch.touches, fetch.needs) == ("fetch", ("GET http://a/rows",), ())
    assert fetch.config["params"].value == {"page": 1, "size": 9}
    assert {name: value.value for name, value in fetch.args.items()} == {"day": "mon"}
    assert fetch.repeat is not None
    assert (fetch.repeat.when, fetch.repeat.most.value) == (("{{ output.data.next }}",), 5)
    assert fetch.repeat.changes == ("params", "input")
    assert (keep.name, keep.behind, keep.needs, dict(keep.args)) == (
        "keep",
        "fetch",
        ("data.n", "args.data"),
        {},
    )
    assert every.repeat is not None
    assert (every.repeat.pages, every.repeat.until, every.repeat.most.value) == (
        "page",
        "{{ output.data.done }}",
        100,
    )
    assert every.config["params"].value == {"page": 1}
    assert back.jumps == ("fetch",)


def test_tasks_at_the_end_of_a_step_say_when_and_see_its_outcome_alone() -> None:
    body = """
workload: {mode: full, outcome: mine}
workflow:
  - step: start
    tool:
      - {name: main, kind: noop, input: {o: "{{ outcome }}"}}
      - {name: always, kind: noop, input: {o: "{{ outcome }}"}, spec: {after: true}}
      - {name: never, kind: noop, spec: {after: "{{ mode != 'full' }}"}}
      - {name: maybe, kind: noop, spec: {after: "event.name == 'call.error'"}}
"""
    tasks = steps_of(ahead(body))["start"].tasks
    assert [None if task.after is None else task.after.runs for task in tasks] == [None, True, False, None]
    assert [task.is_called for task in tasks] == [True, True, False, True]
    assert [task.args["o"].needs for task in tasks[:2]] == [(), ("outcome",)]


def test_the_loop_of_a_task_has_its_own_count_and_item() -> None:
    body = """
workload: {n: 7}
workflow:
  - step: start
    loop: {in: [1, 2], iterator: outer}
    tool:
      - {name: each, kind: http, loop: {in: [a, b, "{{ n }}"], iterator: n}, url: "http://a/{{ n }}/{{ outer }}"}
      - {name: other, kind: http, url: "http://a/{{ n }}", assert: {expects: {x: integer}, returns: [y]}, input: {x: 1}}
"""
    each, other = steps_of(ahead(body))["start"].tasks
    assert each.loop is not None
    assert (each.loop.iterator, each.loop.count, each.loop.collection.value) == ("n", 3, ["a", "b", 7])
    assert each.config["url"].needs == ("n", "outer")
    assert other.config["url"].value == "http://a/7"
    assert [(one.path, one.type) for one in (*other.expects, *other.returns)] == [
        ("x", "integer"),
        ("y", "any"),
    ]


def test_arcs_say_what_they_set_and_with_which_they_are_taken() -> None:
    body = """
workload: {n: 7}
workflow:
  - step: start
    tool: {kind: noop}
    next:
      spec: {mode: first}
      arcs:
        - {when: "{{ n == 7 }}", set: {ctx.a: "{{ n }}", ctx.b: "{{ start }}"}}
        - [{step: a, when: "{{ n == 7 }}"}, {step: b}]
        - {when: "{{ n == 8 }}", set: {ctx.a: 1}}
        - {step: c, when: "{{ start.x }}"}
  - {step: a, tool: {kind: noop}}
  - {step: b, tool: {kind: noop}}
  - {step: c, tool: {kind: noop}}
"""
    found = ahead(body)
    assert arcs(found, "start") == [("", True), ("a", True), ("b", True), ("", False), ("c", False)]
    first, _, with_it, *_ = steps_of(found)["start"].arcs
    assert {name: value.value for name, value in first.sets.items()} == {"ctx.a": 7, "ctx.b": "{{ start }}"}
    assert (first.also, with_it.also) == (False, True)
    assert found.unreached == ("c",)


def test_the_key_is_foreseen_with_what_it_reads_of_the_environment() -> None:
    body = """
key: "{{ order.id }}-{{ env.SHOP }}"
workload: {order: {id: null}}
workflow: [{step: start, tool: {kind: noop}}]
"""
    found = ahead(body, {"order": {"id": 7}}, env={"SHOP": "oslo"})
    assert found.key is not None
    assert (found.key.value, shape.as_json(found)["key"]) == ("7-oslo", "7-oslo")
    assert [(one.name, one.used_by, one.given) for one in found.variables] == [("SHOP", ("key",), True)]
    gap = ahead(body, env={"SHOP": "oslo"})
    (error,) = shape.as_json(gap)["errors"]
    assert (gap.key.value if gap.key else 0, error["step"]) == (None, None)
    assert error["message"].startswith("it reads order.id, which is null")
    assert shape.as_json(ahead("workflow: [{step: start, tool: {kind: noop}}]"))["key"] is None
