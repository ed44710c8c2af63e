"""Tasks that are called again after a success: what differs, what is kept, and what can happen in
between."""

from __future__ import annotations

from typing import Any

import pytest

from noetl.errors import ToolError
from noetl.facts import events as e
from noetl.facts.json import Json
from noetl.pipeline.model import Call
from noetl.testing import Simulation

HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: test, path: tests/test}\n"
ROWS = list(range(10))


def playbook(repeat: str, more: str = "", around: str = "", after: str = "") -> str:
    return (
        f"{HEAD}workload: {{u: http://x, size: 3}}\nworkflow:\n  - step: start\n{around}    tool:\n"
        f'      - name: fetch\n        kind: http\n        url: "{{{{ u }}}}/rows"\n'
        f'        params: {{q: {{a: "{{{{ size }}}}"}}, page: 1}}\n'
        f"        repeat: {repeat}\n{more}{after}"
    )


def answer(body: Json, **more: Json) -> Json:
    return {"status_code": 200, "headers": {}, "url": "u", "elapsed": 0.1, "data": body, **more}


def server(call: Call) -> Json:
    at = call.config["params"]["page"]
    more = at + 1 if at * 3 < len(ROWS) else None
    return answer({"rows": ROWS[(at - 1) * 3 : at * 3], "next": more, "seen": {f"p{at}": [at]}})


NEXT = 'next: {when: "{{ output.data.next is not none }}", params: {page: "{{ response.data.next }}"}}'


def run(text: str, tool: Any = server) -> tuple[Any, Simulation]:
    simulation = Simulation(text, {"http": tool})
    return simulation.run(), simulation


def asked(simulation: Simulation, *keys: str) -> list[Json]:
    calls = [call for call in simulation.tools.calls if call.kind == "http"]
    return [{key: call.config.get(key) for key in keys} if keys else call.config["params"] for call in calls]


def test_each_request_is_the_last_one_with_what_the_entry_says_merged_into_it() -> None:
    report, simulation = run(playbook(f"{{{NEXT}}}"))
    assert report.row.status == "completed", report.error
    assert report.result["data"]["rows"] == [9]
    assert asked(simulation) == [{"q": {"a": 3}, "page": page} for page in (1, 2, 3, 4)]


@pytest.mark.parametrize(
    ("collect", "data"),
    [
        ("{path: rows}", ROWS),
        ("{path: data.rows}", ROWS),
        ("{path: next}", [2, 3, 4]),
        ("{path: rows, strategy: replace}", [9]),
        ("{path: seen, strategy: merge}", {f"p{page}": [page] for page in (1, 2, 3, 4)}),
        ("{path: rows, strategy: merge}", ROWS),
    ],
)
def test_what_is_collected_is_the_data_of_the_result(collect: str, data: Json) -> None:
    report, _ = run(playbook(f"{{{NEXT}, collect: {collect}}}"))
    assert report.result == {**answer(None), "data": data, "pages": 4, "truncated": False}


def test_collected_into_ctx_the_data_stays_that_of_the_last_page() -> None:
    report, _ = run(playbook(f"{{{NEXT}, collect: {{path: rows, into: found}}}}"))
    assert report.ctx == {"found": ROWS}
    assert (report.result["data"]["rows"], report.result["pages"]) == ([9], 4)


def test_all_of_the_body_is_collected_where_no_path_is_given() -> None:
    report, _ = run(playbook(f"{{{NEXT}, collect: {{}}}}"))
    assert [page["next"] for page in report.result["data"]] == [2, 3, 4, None]


def test_a_path_that_names_nothing_fails_and_is_named() -> None:
    report, _ = run(playbook(f"{{{NEXT}, collect: {{path: items.all}}}}"))
    assert report.row.status == "failed"
    assert "items" in (report.error or {})["message"]


def test_max_counts_all_calls_and_the_result_says_that_it_was_cut() -> None:
    report, _ = run(playbook(f"{{{NEXT}, max: 2}}"))
    assert report.result == {
        **answer({"rows": [3, 4, 5], "next": 3, "seen": {"p2": [2]}}),
        "pages": 2,
        "truncated": True,
    }


def test_max_that_was_enough_cuts_nothing() -> None:
    report, _ = run(playbook(f"{{{NEXT}, max: '{{{{ size + 1 }}}}', collect: {{path: rows}}}}"))
    assert (report.result["pages"], report.result["truncated"]) == (4, False)


def test_the_first_entry_that_holds_is_the_next_call() -> None:
    entries = """{next: [
          {when: "{{ response.data.next == 2 }}", url: "{{ u }}/other", params: {page: 3, q: none}},
          {when: "{{ response.data.next }}", params: {page: "{{ response.data.next }}"}, headers: {X: "1"}}]}"""
    report, simulation = run(playbook(entries))
    assert report.row.status == "completed", report.error
    assert asked(simulation, "url", "headers") == [
        {"url": "http://x/rows", "headers": None},
        {"url": "http://x/other", "headers": None},
        {"url": "http://x/other", "headers": {"X": "1"}},
    ]
    assert asked(simulation)[-1] == {"q": "none", "page": 4}


def test_what_an_answer_says_is_never_rendered() -> None:
    def odd(call: Call) -> Json:
        mark = call.config["params"]["page"]
        return answer({"next": "{{ u }}" if mark == 1 else None})

    report, simulation = run(playbook(f"{{{NEXT}}}"), odd)
    assert report.row.status == "completed", report.error
    assert [params["page"] for params in asked(simulation)] == [1, "{{ u }}"]


def test_the_parts_that_change_are_rendered_once_whatever_their_names_come_to_be() -> None:
    text = playbook(f"{{{NEXT}}}").replace('a: "{{ size }}"', 'a: "{{ 5 // (1 - (ctx.n | default(0))) }}"')
    rules = "        spec: {policy: {rules: [{else: {then: {do: continue, set: {ctx.n: 1}}}}]}}\n"
    _, simulation = run(text + rules)
    assert [params["q"]["a"] for params in asked(simulation)] == [5, 5, 5, 5]


def test_inputs_of_any_tool_are_what_args_merge_into() -> None:
    text = f"""{HEAD}workflow:
  - step: start
    input: {{base: 5, opts: {{deep: 1}}}}
    tool:
      kind: python
      input: {{opts: {{deep: 1, kept: "{{{{ base }}}}"}}}}
      code: result = 1
      repeat:
        next: {{when: "{{{{ response.n < 3 }}}}", args: {{n: "{{{{ response.n }}}}", opts: {{deep: 2}}}}}}
        collect: {{path: n}}
"""
    simulation = Simulation(text, {"python": lambda call: {"n": call.args.get("n", 0) + 1}})
    report = simulation.run()
    assert report.row.status == "completed", report.error
    assert report.result == {"n": 3, "data": [1, 2, 3], "pages": 3, "truncated": False}
    calls = [dict(call.args) for call in simulation.tools.calls if call.kind == "python"]
    assert calls[0] == {"base": 5, "opts": {"deep": 1, "kept": 5}}
    assert calls[2] == {"base": 5, "opts": {"deep": 2, "kept": 5}, "n": 2}


def test_results_that_are_no_mappings_come_as_data() -> None:
    text = f"""{HEAD}workflow:
  - step: start
    tool:
      kind: python
      code: result = 1
      repeat: {{next: {{when: "{{{{ result < 3 }}}}", args: {{n: "{{{{ result }}}}"}}}}, collect: {{}}}}
"""
    report = Simulation(text, {"python": lambda call: call.args.get("n", 0) + 1}).run()
    assert report.result == {"data": [1, 2, 3], "pages": 3, "truncated": False}


EACH = """          each:
            - {name: save, kind: python, code: result = 1, input: {n: "{{ data.rows | length }}"}}
            - {kind: noop, input: {twice: "{{ save.n * 2 }}"}}
"""


def with_each(each: str = EACH, more: str = "") -> str:
    return playbook(f"\n          {NEXT}\n          collect: {{path: rows}}\n{each}", more)


def test_each_runs_behind_every_call_with_the_page_and_the_response() -> None:
    seen: list[Json] = []

    def save(call: Call) -> Json:
        seen.append(dict(call.args))
        return dict(call.args)

    simulation = Simulation(with_each(), {"http": server, "python": save})
    report = simulation.run()
    assert report.row.status == "completed", report.error
    assert report.result["data"] == ROWS
    assert [one["n"] for one in seen] == [3, 3, 3, 1]
    assert seen[0]["data"]["rows"] == [0, 1, 2]
    assert seen[0]["result"] == seen[0]["response"] == answer(seen[0]["data"])


def test_a_task_of_each_that_fails_fails_the_step() -> None:
    def save(_: Call) -> Json:
        raise ToolError("server_error", "Full.")

    report = Simulation(with_each(), {"http": server, "python": save}).run()
    assert (report.row.status, (report.error or {})["task"]) == ("failed", "save")


POLICY = "        spec: {policy: {rules: [{when: \"{{ outcome.status == 'error' }}\", then: %s}]}}\n"


def test_the_policy_is_that_of_one_call() -> None:
    seen: list[int] = []

    def flaky(call: Call) -> Json:
        seen.append(call.config["params"]["page"])
        if seen.count(seen[-1]) < 3 and seen[-1] in (1, 3):
            raise ToolError("server_error", "Busy.", retryable=True)
        return server(call)

    retry = POLICY % "{do: retry, attempts: 3, delay: 5}"
    report, _ = run(playbook(f"{{{NEXT}, collect: {{path: rows}}}}", retry), flaky)
    assert report.result["data"] == ROWS
    assert seen == [1, 1, 1, 2, 3, 3, 3, 4]


@pytest.mark.parametrize("failing", [1, 3])
def test_after_a_call_that_failed_and_went_on_there_is_no_other_one(failing: int) -> None:
    def broken(call: Call) -> Json:
        if call.config["params"]["page"] == failing:
            raise ToolError("server_error", "Broken.")
        return server(call)

    saved: list[Json] = []
    simulation = Simulation(
        with_each(more=POLICY % "{do: continue}"),
        {"http": broken, "python": lambda call: saved.append(1) or dict(call.args)},
    )
    report = simulation.run()
    assert report.row.status == "completed", report.error
    assert report.result["data"] == ROWS[: (failing - 1) * 3]
    assert (report.result["truncated"], len(saved)) == (True, failing - 1)


def test_a_delay_grows_as_backoff_says() -> None:
    simulation = Simulation(playbook(f"{{{NEXT}, delay: 10s, backoff: exponential}}"), {"http": server})
    execution_id = simulation.run().row.execution_id
    facts = [event.fact for event in simulation.events(execution_id)]
    waits = [fact.delay for fact in facts if isinstance(fact, e.TaskCallDone)]
    assert waits == [10, 20, 40, 0]


def test_a_jump_back_to_the_task_begins_with_its_first_request() -> None:
    more = """\
      - name: twice
        kind: noop
        set: {first: "{{ first | default(fetch.pages) }}"}
        spec: {policy: {rules: [{when: "{{ first is not defined }}", then: {do: jump, to: fetch}}]}}
      - {name: see, kind: noop, input: {n: "{{ fetch.data }}", first: "{{ first }}"}}
"""
    report, simulation = run(playbook(f"{{{NEXT}, collect: {{path: rows}}}}", after=more))
    assert report.result == {"n": ROWS, "first": 4}
    assert [params["page"] for params in asked(simulation)] == [1, 2, 3, 4, 1, 2, 3, 4]


def test_the_task_before_is_prev_of_the_first_call() -> None:
    text = playbook(f"{{{NEXT}}}").replace(
        "    tool:\n", "    tool:\n      - {name: one, kind: noop, input: {x: 8}}\n"
    )
    _, simulation = run(text.replace("kind: http\n", 'kind: http\n        headers: {P: "{{ _prev.x }}"}\n'))
    assert asked(simulation, "headers")[0] == {"headers": {"P": 8}}


def test_the_log_grows_by_the_same_with_every_call() -> None:
    def sized(count: int) -> int:
        repeat = f'{{next: {{params: {{page: "{{{{ result.data }}}}"}}}}, max: {count}, collect: {{}}}}'
        simulation = Simulation(
            playbook(repeat), {"http": lambda call: answer(call.config["params"]["page"] + 1)}
        )
        events = simulation.events(simulation.run().row.execution_id)
        return len(repr([event.fact for event in events if isinstance(event.fact, e.TaskCallDone)]))

    first, second, third = (sized(count) for count in (20, 40, 60))
    assert third - second < 1.1 * (second - first)


def test_iterations_repeat_by_themselves() -> None:
    around = "    loop: {in: [1, 2, 3], iterator: n, spec: {mode: parallel}}\n"
    report, _ = run(playbook(f"{{{NEXT}, collect: {{path: rows}}}}", around=around))
    assert [one["data"] for one in report.result["results"]] == [ROWS] * 3


def test_each_call_is_in_the_log_before_the_next_one_and_none_is_made_again_after_a_crash() -> None:
    died: list[int] = []

    def dying(call: Call) -> Json:
        page = call.config["params"]["page"]
        if page not in died and page in (2, 4):
            died.append(page)
            raise KeyboardInterrupt
        return server(call)

    saved: list[Json] = []
    tools = {"http": dying, "python": lambda call: saved.append(call.args["n"]) or {"n": call.args["n"]}}
    simulation = Simulation(with_each(), tools)
    execution_id = simulation.start()
    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            simulation.settle()
        simulation.pass_time(120)
    simulation.settle()
    assert simulation.report(execution_id).result["data"] == ROWS
    assert [params["page"] for params in asked(simulation)] == [1, 2, 2, 3, 4, 4]
    assert saved == [3, 3, 3, 1]


def test_the_request_may_name_the_inputs_of_the_task_and_of_the_call_of_its_workbook() -> None:
    text = f"""{HEAD}workbook:
  ask:
    kind: http
    url: http://x
    input: {{page: null, twice: "{{{{ page * 2 }}}}"}}
    params: {{page: "{{{{ page }}}}", twice: "{{{{ twice }}}}"}}
workflow:
  - step: start
    tool:
      kind: workbook
      name: ask
      input: {{page: "{{{{ 1 + 0 }}}}"}}
      repeat:
        next: {{when: "{{{{ response.data.next }}}}", params: {{page: 4}}, args: {{page: 9}}}}
"""
    report, simulation = run(text)
    assert report.row.status == "completed", report.error
    assert asked(simulation) == [{"page": 1, "twice": 2}, {"page": 4, "twice": 2}]
    calls = [call for call in simulation.tools.calls if call.kind == "http"]
    assert [dict(call.args) for call in calls] == [{"page": 1, "twice": 2}, {"page": 9, "twice": 18}]
