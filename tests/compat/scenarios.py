"""Executions that repeat a task, and what they call: for `record.py` and `test_repeats.py`.

Whatever the stubs yield follows from the call alone, so a call that is made again yields the same.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from noetl.errors import ToolError
from noetl.pipeline.model import Call, Later
from noetl.testing import KINDS

HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: repeats, path: compat/PATH}\n"
ROWS = list(range(10))
PAGE = 3
#: `http` may leave its worker (`Later`).
ALL_KINDS = {**KINDS, "http": replace(KINDS["http"], suspends=True)}


@dataclass(frozen=True)
class Scenario:
    """`body` is a playbook without its head, `others` are those it calls, `limits` the recording's."""

    body: str
    others: dict[str, str] = field(default_factory=dict)
    limits: dict[str, Any] = field(default_factory=dict)
    head: str = HEAD


# --- what is called -------------------------------------------------------------------------------


def http(call: Call) -> object:
    """Ten rows, three a page, in the ways of an API; `host` says which."""
    address = str(call.config.get("url") or call.config["endpoint"]).removeprefix("http://")
    host, _, query = address.partition("/")
    return _HOSTS[host](call, {**(call.config.get("params") or {}), **dict(_pairs(query))})


def _pairs(query: str) -> list[list[str]]:
    return [pair.split("=") for pair in query.split("&") if pair]


def _answer(body: object, **more: object) -> dict[str, object]:
    return {"status_code": 200, "headers": {}, "url": "u", "elapsed": 0.1, "data": body, **more}


def _pages(call: Call, params: dict[str, Any]) -> dict[str, object]:
    page = int(params["page"])
    following = page + 1 if page * PAGE < len(ROWS) else None
    return _answer({"rows": ROWS[(page - 1) * PAGE : page * PAGE], "next": following})


def _busy(call: Call, params: dict[str, Any]) -> dict[str, object]:
    if call.attempt == 1 and int(params["page"]) in (2, 3):
        raise ToolError("server_error", "Busy.", retryable=True)
    return _pages(call, params)


def _broken(call: Call, params: dict[str, Any]) -> dict[str, object]:
    if int(params["page"]) == 3:
        raise ToolError("server_error", "Broken.", extras={"http": {"status": 500}})
    return _pages(call, params)


def _jobs(call: Call, params: dict[str, Any]) -> object:
    seen: Any = call.checkpoint or {"looks": 0}
    return Later(30, {"looks": 1}) if seen["looks"] == 0 else _pages(call, params)


def _offsets(call: Call, params: dict[str, Any]) -> dict[str, object]:
    return _answer(ROWS[int(params["offset"]) : int(params["offset"]) + int(params["limit"])])


def _cursors(call: Call, params: dict[str, Any]) -> dict[str, object]:
    at = int(params.get("cursor") or 0)
    following = at + PAGE if at + PAGE < len(ROWS) else None
    return _answer({"d": {"rows": ROWS[at : at + PAGE]}, "meta": {"next": following}})


def _links(call: Call, params: dict[str, Any]) -> dict[str, object]:
    at = int(params.get("at") or 0)
    more = {"links": {"next": f"http://links/at={at + PAGE}"}} if at + PAGE < len(ROWS) else {}
    return _answer(ROWS[at : at + PAGE], **more)


def _posts(call: Call, params: dict[str, Any]) -> dict[str, object]:
    body: Any = call.config.get("json") or call.config.get("payload") or call.config.get("data")
    headers: Any = call.config.get("headers") or {}
    return _answer({"n": body["n"] + 1, "kept": body.get("kept"), "mark": headers.get("x-mark")})


def _big(call: Call, params: dict[str, Any]) -> dict[str, object]:
    page = int(params["page"])
    rows = [{"n": n, "pad": "p" * 40} for n in ROWS[(page - 1) * PAGE : page * PAGE]]
    return _answer({"rows": rows, "next": page + 1 if page * PAGE < len(ROWS) else None})


_HOSTS: dict[str, Callable[[Call, dict[str, Any]], object]] = {
    "pages": _pages,
    "busy": _busy,
    "broken": _broken,
    "jobs": _jobs,
    "offsets": _offsets,
    "cursors": _cursors,
    "links": _links,
    "posts": _posts,
    "big": _big,
}


def postgres(call: Call) -> object:
    """The first claim of every lane yields two rows, its second none."""
    first = call.where.claim.endswith("/0")
    rows = [{"id": 1}, {"id": 3}] if first else []
    return {"rows": rows, "row_count": len(rows), "columns": ["id"]}


TOOLS: dict[str, Callable[[Call], object]] = {"http": http, "postgres": postgres}

# --- what calls it --------------------------------------------------------------------------------

RETRIED = """{policy: {rules: [
          {when: "{{ outcome.status == 'error' }}", then: {do: retry, attempts: 3, delay: 5}},
          {else: {then: {do: continue}}}]}}"""
GOES_ON = "{policy: {rules: [{else: {then: {do: continue}}}]}}"
END = """
    next: end
  - step: end
    tool: {kind: python, code: "result = [first, {}]", input: {first: "{{ start }}"}}
"""

SCENARIOS: dict[str, Scenario] = {
    "pages_between_tasks": Scenario("""
workload: {size: 3}
workflow:
  - step: start
    tool:
      - before: {kind: python, code: "result = 7", set: {n: "{{ result }}"}}
      - name: fetch
        kind: http
        url: http://pages
        params: {size: "{{ workload.size }}"}
        pagination: {type: page, size: "{{ size }}", items: rows}
        set: {ctx.total: "{{ output.data | length + n }}", count: "{{ output.pages }}"}
      - name: after
        kind: python
        code: "result = {'rows': rows, 'count': count}"
        input: {rows: "{{ fetch.data }}", count: "{{ count }}"}
"""),
    "pages_without_a_size": Scenario("""
workload: {first: 1, most: 9}
workflow:
  - step: start
    tool: {kind: http, url: http://pages, pagination: {type: page, start: "{{ first }}", items: rows,
      max_pages: "{{ most }}"}}
"""),
    "offsets_that_are_cut": Scenario("""
workflow:
  - step: start
    tool: {kind: http, url: http://offsets, pagination: {type: offset, limit: 3, max_pages: 3,
      delay: 10ms}}
"""),
    "a_cursor_that_stops": Scenario("""
workflow:
  - step: start
    tool: {kind: http, url: http://cursors, pagination: {type: cursor, path: meta.next, items: d.rows,
      stop_when: "{{ 7 in output.data.d.rows }}"}}
"""),
    "links_of_which_the_last_page_is_kept": Scenario("""
workload: {size: 3}
workflow:
  - step: start
    tool: {kind: http, endpoint: http://links, params: {at: 0, q: "{{ size }}"}, pagination: {type: link,
      collect: replace}}
"""),
    "pages_with_a_delay": Scenario("""
workflow:
  - step: start
    tool: {kind: http, url: http://pages, pagination: {type: page, size: 3, items: rows, delay: 1m}}
"""),
    "pages_that_are_retried": Scenario(f"""
workflow:
  - step: start
    tool:
      - name: fetch
        kind: http
        url: http://busy
        pagination: {{type: page, size: 3, items: rows}}
        spec: {RETRIED}
{END}"""),
    "a_page_that_fails_is_passed_over": Scenario(f"""
workflow:
  - step: start
    tool: {{kind: http, url: http://broken, pagination: {{type: page, size: 3, items: rows}},
      spec: {GOES_ON}}}
{END}"""),
    "a_page_that_fails_fails_its_step": Scenario("""
workflow:
  - step: start
    tool: {kind: http, url: http://broken, pagination: {type: page, size: 3, items: rows}}
    next: {arcs: [{step: end, when: "{{ outcome.status == 'error' }}",
      args: {task: "{{ error.task }}", message: "{{ error.message }}", status: "{{ outcome.http.status }}"}}]}
  - step: end
    tool: {kind: python, code: "result = [task, message, status]"}
"""),
    "a_list_of_next_calls_with_each": Scenario("""
workflow:
  - step: start
    tool:
      name: fetch
      kind: http
      url: http://pages
      params: {page: 1}
      repeat:
        next:
          - {when: "{{ response.data.next == 99 }}", url: http://nowhere}
          - {when: "{{ response.data.next }}", params: {page: "{{ response.data.next }}"}}
        max: 3
        collect: {path: data.rows, strategy: replace}
        each:
          - {name: add, kind: python, input: {sum: "{{ ctx.sum | default(0) }}"},
              code: "result = sum + data['rows'][0]", set: {ctx.sum: "{{ output }}"}}
          - {kind: python, code: "result = n", input: {n: "{{ result.data.rows | length }}"},
              set: {ctx.last: "{{ output }}"}}
"""),
    "links_into_ctx_with_a_growing_delay": Scenario("""
workflow:
  - step: start
    tool:
      kind: http
      endpoint: http://links
      params: {name: "{{ workload.name | default('x') }}"}
      repeat:
        next: {when: "{{ response.links is defined }}", url: "{{ response.links.next }}",
          params: {name: null}}
        delay: 4
        backoff: linear
        collect: {into: rows}
"""),
    "code_that_goes_on_with_what_it_returned": Scenario("""
workload: {most: 4, pause: 1}
workflow:
  - step: start
    input: {n: 1}
    tool:
      - name: last
        kind: python
        input: {step: "{{ n }}"}
        code: "result = {'n': n * 2, 'step': step}"
        repeat: {next: {when: "{{ result.n < 16 }}", args: {n: "{{ result.n }}"}}}
      - name: my-merged
        kind: python
        input: {from: "{{ last.n }}"}
        code: "result = {'n': n * 2, 'seen': [n], 'by': {str(n): True}}"
        repeat:
          next: {when: "{{ true }}", args: {n: "{{ result.n }}"}}
          max: "{{ workload.most }}"
          delay: "{{ workload.pause }}"
          backoff: exponential
          collect: {strategy: merge}
"""),
    "bodies_and_headers_that_change": Scenario("""
workflow:
  - step: start
    tool:
      - name: a
        kind: http
        url: http://posts
        headers: {x-mark: "0", x-other: same}
        json: {n: 0, kept: {deep: 1}}
        repeat:
          next:
            when: "{{ response.data.n < 3 }}"
            headers: {x-mark: "{{ response.data.n }}"}
            json: {n: "{{ response.data.n }}"}
          collect: {path: n}
      - name: b
        kind: http
        endpoint: http://posts
        payload: {n: 1, kept: no}
        repeat:
          next: {when: "{{ response.data.n < 3 }}", url: http://posts, json: {n: "{{ response.data.n }}"}}
      - name: c
        kind: http
        url: http://posts
        data: {n: 1}
        repeat:
          next: {when: "{{ response.data.n < 3 }}", data: {n: "{{ response.data.n }}"}}
          collect: {path: data.n, into: ctx.numbers}
      - {name: see, kind: python, code: "result = [a, b, c]", input: {a: "{{ a.data }}", b: "{{ b }}",
          c: "{{ c.pages }}"}}
"""),
    "pages_in_each_iteration": Scenario("""
workflow:
  - step: start
    loop: {in: [1, 2], iterator: first, spec: {mode: sequential}}
    tool:
      - {name: fetch, kind: http, url: http://pages, pagination: {type: page, start: "{{ first }}",
          size: 3, items: rows}, set: {iter.n: "{{ output.pages }}"}}
      - {name: see, kind: python, code: "result = [n, rows]", input: {n: "{{ iter.n }}",
          rows: "{{ fetch.data }}"}}
"""),
    "repeats_in_parallel_iterations": Scenario(
        f"""
workflow:
  - step: start
    loop: {{in: [1, 2, 3], iterator: first, spec: {{mode: parallel, max_in_flight: 2,
      reduce: {{ctx.seen: append}}}}}}
    tool:
      name: fetch
      kind: http
      url: http://busy
      params: {{page: "{{{{ first }}}}"}}
      spec: {RETRIED}
      repeat:
        next: {{when: "{{{{ response.data.next }}}}", params: {{page: "{{{{ response.data.next }}}}"}}}}
        collect: {{path: rows}}
        each: {{name: keep, kind: python, code: "result = len(data['rows'])",
          set: {{ctx.seen: "{{{{ output }}}}"}}}}
""",
        limits={"slice_s": 0.0, "snapshot_events": 20},
    ),
    "delays_in_parallel_iterations": Scenario("""
workflow:
  - step: start
    loop: {in: [1, 2], iterator: first, spec: {mode: parallel}}
    tool: {kind: http, url: http://pages, pagination: {type: page, start: "{{ first + 1 }}", size: 3,
      items: rows, delay: 1m}}
"""),
    "pages_for_each_row_that_is_claimed": Scenario("""
workflow:
  - step: start
    loop: {cursor: {kind: postgres, claim: "DELETE FROM jobs RETURNING *"}, iterator: row,
      spec: {mode: sequential}}
    tool:
      - {name: fetch, kind: http, url: http://pages, pagination: {type: page, start: "{{ row.id }}",
          size: 3, items: rows}}
      - {name: see, kind: python, code: "result = rows", input: {rows: "{{ fetch.data }}"}}
"""),
    "a_called_playbook_that_is_repeated": Scenario(
        """
workflow:
  - step: start
    tool:
      name: call
      kind: playbook
      path: compat/kid
      input: {n: 1}
      repeat: {next: {when: "{{ result.n < 4 }}", args: {n: "{{ result.n }}"}}, collect: {path: n}}
""",
        {
            "kid": """
workload: {n: 0}
workflow:
  - step: start
    tool: {kind: python, code: "result = {'n': n + 1}", input: {n: "{{ workload.n }}"}}
"""
        },
    ),
    "called_playbooks_that_page": Scenario(
        """
workflow:
  - step: start
    loop: {in: [1, 2], iterator: first, spec: {mode: parallel}}
    tool: {name: call, kind: playbook, path: compat/paging, input: {first: "{{ first }}"},
      return_step: start}
""",
        {
            "paging": """
workload: {first: 1}
workflow:
  - step: start
    tool: {kind: http, url: http://pages, pagination: {type: page, start: "{{ workload.first }}",
      size: 3, items: rows}}
"""
        },
    ),
    "calls_that_wait_elsewhere": Scenario("""
workflow:
  - step: start
    tool:
      - {name: fetch, kind: http, url: http://jobs, pagination: {type: page, size: 5, items: rows,
          max_pages: 2}}
      - name: again
        kind: http
        url: http://jobs
        params: {page: 3}
        repeat:
          next: {when: "{{ response.data.next }}", params: {page: "{{ response.data.next }}"}}
          delay: 20
          backoff: fixed
"""),
    "a_jump_back_to_the_first_page": Scenario("""
workflow:
  - step: start
    tool:
      - {name: fetch, kind: http, url: http://pages, pagination: {type: page, start: 3, size: 3,
          items: rows}}
      - name: twice
        kind: python
        code: result = 1
        set: {first: "{{ first | default(fetch.pages) }}"}
        spec: {policy: {rules: [
          {when: "{{ seen is not defined }}", then: {do: jump, to: fetch, set: {seen: true}}}]}}
      - {name: see, kind: python, code: "result = [n, first]", input: {n: "{{ fetch.data }}",
          first: "{{ first }}"}}
"""),
    "pages_behind_the_end": Scenario("""
workflow:
  - step: start
    tool:
      - {name: work, kind: python, code: "raise KeyError('work')"}
      - {name: fetch, kind: http, url: http://pages, spec: {after: true}, pagination: {type: page,
          start: 2, size: 3, items: rows}, set: {ctx.rows: "{{ output.data }}"}}
    next: {arcs: [{step: end, when: "{{ outcome.status == 'error' }}", args: {rows: "{{ ctx.rows }}"}}]}
  - step: end
    tool: {kind: python, code: "result = rows"}
"""),
    "a_task_of_the_workbook": Scenario("""
workbook:
  - name: fetching
    tool:
      kind: http
      url: http://pages
      params: {page: "{{ first }}"}
      repeat:
        next: {when: "{{ response.data.next }}", params: {page: "{{ response.data.next }}"}}
        collect: {path: rows}
workflow:
  - step: start
    tool: {kind: workbook, name: fetching, input: {first: 2}}
"""),
    "classic_retries": Scenario("""
workflow:
  - step: start
    tool: {kind: http, url: http://busy, params: {page: 1}}
    retry:
      - {when: "{{ error.kind == 'server_error' }}", then: {max_attempts: 3, delay: 2}}
      - when: "{{ response.data.next }}"
        then:
          max_attempts: 10
          next_call: {params: {page: "{{ response.data.next }}"}}
          collect: {strategy: append, path: rows, into: rows}
          per_iteration:
            sink:
              - {tool: {kind: python, name: keep, code: "result = len(data['rows'])",
                  input: {data: "{{ data }}"}}}
    next: end
  - step: end
    tool: {kind: python, code: "result = [rows, pages]", input: {rows: "{{ vars.rows }}",
      pages: "{{ start.pages }}"}}
"""),
    "pages_that_are_kept_by_reference": Scenario("""
workflow:
  - step: start
    tool:
      - name: fetch
        kind: http
        url: http://big
        params: {page: 1}
        spec: {result: {inline_bytes: 100}}
        repeat:
          next: {when: "{{ response.data.next }}", params: {page: "{{ response.data.next }}"}}
          collect: {path: rows}
          each: {name: keep, kind: python, code: "result = data['rows'][0]['n']",
            set: {ctx.n: "{{ output }}"}}
      - {name: see, kind: python, code: "result = [len(rows), rows[9]['n']]",
          input: {rows: "{{ fetch.data }}"}}
"""),
    "calls_that_demand_and_promise": Scenario("""
workflow:
  - step: start
    input: {n: 5}
    tool:
      kind: python
      assert: {expects: {n: integer}, returns: [n]}
      code: "result = {'n': n + 1} if n < 7 else {'m': n}"
      repeat: {next: {when: "{{ true }}", args: {n: "{{ result.n }}"}}, delay: 2}
    next: {arcs: [{step: end, when: "{{ outcome.status == 'error' }}",
      args: {message: "{{ error.message }}"}}]}
  - step: end
    tool: {kind: python, code: "result = message"}
"""),
    "each_of_which_one_fails": Scenario(f"""
workflow:
  - step: start
    tool:
      name: fetch
      kind: http
      url: http://pages
      params: {{page: 2}}
      repeat:
        next: {{when: "{{{{ response.data.next }}}}", params: {{page: "{{{{ response.data.next }}}}"}}}}
        collect: {{path: rows}}
        each:
          - {{name: fails, kind: python, code: "result = 1 // (7 not in data['rows'])", spec: {RETRIED}}}
          - {{name: keep, kind: python, code: "result = data['rows']",
              set: {{ctx.last: "{{{{ output }}}}"}}}}
    next: {{arcs: [{{step: end, when: "{{{{ outcome.status == 'error' }}}}",
      args: {{task: "{{{{ error.task }}}}"}}}}, {{step: end}}]}}
  - step: end
    tool: {{kind: python, code: "result = args"}}
"""),
}
