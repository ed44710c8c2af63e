"""Records histories that are not there yet: `python tests/histories/record.py`.

A history that is there is never written again: it is what a version of NoETL wrote, and every later
one must read it. After a change of what the engine records, add a scenario under a new name.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from history import FOLDER, digest, envelope, states, told

from noetl.errors import ToolError
from noetl.facts.approvals import Verdict
from noetl.facts.callbacks import TaskAddress, place_of
from noetl.facts.callers import Caller
from noetl.facts.events import ChildRequested, ChildUndoRequested
from noetl.facts.json import Json
from noetl.pipeline.model import Call, Later
from noetl.testing import KINDS, Simulation
from noetl.usecases import catalog, control, inspect, pausing
from noetl.usecases.access import Grant, Principal
from noetl.usecases.approval_requests import ApprovalRequest
from noetl.usecases.approvals import answer
from noetl.usecases.callbacks import receive_call
from noetl.usecases.fork import ForkRequest, fork
from noetl.usecases.retry import RetryRequest, retry
from noetl.usecases.runtime import RuntimeLimits
from noetl.usecases.signals import SignalRequest, send_signal
from noetl.usecases.start import StartRequest, start
from noetl.usecases.turn.advance import advance

HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: history, path: tests/history}\n"
RETRY = """{policy: {rules: [
          {when: "{{ outcome.status == 'error' }}", then: {do: retry, attempts: 4, delay: 5}},
          {else: {then: {do: continue}}}]}}"""

LOOPS = f"""{HEAD}
workload: {{cities: [oslo, rome, lima, bonn, kyiv]}}
executor: {{spec: {{final_step: last}}}}
workflow:
  - step: start
    tool: {{kind: python, code: "result = len(cities)", input: {{cities: "{{{{ cities }}}}"}}, set: {{ctx.n: "{{{{ result }}}}"}}}}
    next: [wide, narrow]
  - step: wide
    loop: {{in: "{{{{ cities }}}}", iterator: city, spec: {{mode: parallel, max_in_flight: 2, reduce: {{ctx.names: append}}}}}}
    tool:
      - fetch: {{kind: http, url: "http://{{{{ city }}}}", input: {{city: "{{{{ city }}}}"}}, spec: {RETRY}}}
      - keep: {{kind: python, code: "result = city.upper()", input: {{city: "{{{{ city }}}}"}}, set: {{ctx.names: "{{{{ result }}}}"}}}}
    next: join
  - step: narrow
    loop: {{in: [1, 2, 3], iterator: n, spec: {{policy: {{failure: {{mode: best_effort}}}}}}}}
    tool: {{kind: python, code: "result = 6 / (n - 2)", input: {{n: "{{{{ n }}}}"}}, set: {{ctx.last: "{{{{ result }}}}"}}}}
    next: join
  - step: join
    spec: {{join: all}}
    tool: {{kind: noop, input: {{wide: "{{{{ wide.results }}}}", failed: "{{{{ narrow.stats.failed }}}}"}}}}
  - step: last
    tool: {{kind: noop, input: {{was: "{{{{ args.status }}}}"}}}}
"""

JOINS = f"""{HEAD}
workflow:
  - step: start
    next: [a, b, c]
  - step: a
    tool: {{kind: python, code: "result = 1"}}
    next: {{arcs: [{{step: first, args: {{who: a}}}}]}}
  - step: b
    tool: {{kind: python, code: "result = 2"}}
    next: {{arcs: [{{step: first, args: {{who: b}}}}]}}
  - step: c
    tool: {{kind: python, code: "result = 3"}}
    next: [first, two]
  - step: first
    spec: {{join: first}}
    set: {{ctx.n: "{{{{ ctx.n | default(0) + 1 }}}}"}}
    next: {{spec: {{mode: inclusive}}, arcs: [{{step: start, when: "{{{{ ctx.n < 2 }}}}"}}, {{step: two}}]}}
  - step: two
    spec: {{join: {{mode: count, count: 2}}, policy: {{admit: {{rules: [{{when: "{{{{ ctx.open }}}}", then: {{allow: true}}}}, {{else: {{then: {{allow: false}}}}}}]}}}}}}
    tool: {{kind: noop, input: {{n: "{{{{ ctx.n }}}}"}}}}
"""

FAILURE = f"""{HEAD}
workflow:
  - step: start
    tool: {{kind: http, url: http://x, spec: {RETRY}}}
    next: {{arcs: [{{step: handler, when: "{{{{ outcome.status == 'error' }}}}", args: {{why: "{{{{ error.message }}}}"}}}}, {{step: end}}]}}
  - step: handler
    tool: {{kind: noop, input: {{why: "{{{{ why }}}}"}}}}
    next: [waits, breaks]
  - step: waits
    tool: {{kind: noop}}
    next: end
  - step: breaks
    tool: {{kind: python, code: "raise ValueError('for good')"}}
  - step: end
    spec: {{join: all}}
    tool: {{kind: noop}}
"""


CALLS = f"""{HEAD}
workflow:
  - step: start
    tool:
      - pull: {{kind: http, url: http://job}}
      - call: {{kind: playbook, path: tests/kid, payload: {{n: "{{{{ pull.pages }}}}"}}, return_step: start}}
    next: [wide, missing]
  - step: wide
    loop: {{in: [1, 2, 3, 4], iterator: n, spec: {{mode: parallel, max_in_flight: 2, policy: {{failure: {{mode: best_effort}}}}}}}}
    tool:
      - call: {{kind: playbook, path: tests/kid, input: {{n: "{{{{ n }}}}"}}, spec: {RETRY}}}
      - left: {{kind: playbook, path: tests/kid, detached: true, input: {{n: "{{{{ call }}}}"}}}}
    next: end
  - step: missing
    tool: {{kind: playbook, path: tests/nowhere}}
    next: {{arcs: [{{step: end, when: "{{{{ outcome.status == 'error' }}}}"}}]}}
  - step: end
    spec: {{join: all}}
    tool: {{kind: noop, input: {{wide: "{{{{ wide.stats }}}}"}}}}
"""

KID = (
    HEAD.replace("tests/history", "tests/kid")
    + """
workload: {n: 0}
workflow:
  - step: start
    tool: {kind: python, code: "result = 6 / (n - 3)", input: {n: "{{ workload.n }}"}}
    next: end
  - step: end
    tool: {kind: noop, input: {who: "{{ iter.parent.n if iter is defined else none }}"}}
"""
)


class Death(BaseException):
    """The process is gone."""


WAITS = f"""{HEAD}
workflow:
  - step: start
    loop: {{in: [1, 2], iterator: n, spec: {{mode: parallel}}}}
    tool: {{kind: playbook, path: tests/waiting_kid, input: {{n: "{{{{ n }}}}"}}, return_step: never}}
    next: poll
  - step: poll
    tool: {{kind: http, url: "http://jobs", spec: {{timeout: 60, policy: {{rules: [{{else: {{then: {{do: continue}}}}}}]}}}}}}
"""

WAITING_KID = f"""{HEAD.replace("tests/history", "tests/waiting_kid")}
workload: {{n: 0}}
workflow:
  - step: start
    next: end
  - step: never
    tool: {{kind: noop}}
  - step: end
    spec: {{policy: {{admit: {{rules: [{{when: "{{{{ ctx.go }}}}", then: {{allow: true}}}}, {{else: {{then: {{allow: false}}}}}}]}}}}}}
    tool: {{kind: noop, input: {{n: "{{{{ workload.n }}}}"}}}}
"""


BEHIND = f"""{HEAD}
workload: {{cities: [oslo, rome, lima]}}
ctx: {{left: "{{{{ cities | length }}}}", deep: {{er: "{{{{ workload.cities[0] }}}}"}}}}
workflow:
  - step: start
    tool:
      - fetch: {{kind: http, url: http://x, input: {{city: rome}}, spec: {RETRY}}}
      - never: {{kind: noop, spec: {{after: "event.name == 'call.error'"}}}}
      - call: {{kind: playbook, path: tests/kid, input: {{n: 1}}, spec: {{after: "{{{{ outcome.status == 'ok' }}}}"}}}}
      - keep: {{kind: noop, input: {{n: "{{{{ result.status_code }}}}", kid: "{{{{ call }}}}"}}, set: {{ctx.kept: "{{{{ result.n }}}}"}}, spec: {{after: true}}}}
    next:
      spec: {{mode: first}}
      arcs:
        - {{when: "{{{{ ctx.left == 3 }}}}", set: {{ctx.seen: [start]}}}}
        - [{{step: gate, when: "{{{{ ctx.seen }}}}"}}, {{step: each}}]
        - {{step: end, set: {{ctx.asked: true}}}}
  - step: gate
    spec: {{policy: {{admit: {{rules: [{{when: "{{{{ ctx.closed }}}}", then: {{allow: true}}}}, {{else: {{then: {{allow: false}}}}}}], on_deny: pass}}}}}}
    tool: {{kind: noop}}
    next: end
  - step: each
    loop: {{in: "{{{{ cities }}}}", iterator: city, spec: {{mode: parallel, max_in_flight: 2, reduce: {{ctx.notes: append}}, policy: {{failure: {{mode: best_effort}}}}}}}}
    tool:
      - check: {{kind: python, code: "assert city != 'rome'", input: {{city: "{{{{ city }}}}"}}}}
      - note: {{kind: http, url: http://notes, input: {{city: "{{{{ city }}}}"}}, spec: {{after: "{{{{ event.name == 'call.done' or error.type == 'AssertionError' }}}}", policy: {{rules: [{{when: "{{{{ outcome.status == 'error' }}}}", then: {{do: retry, attempts: 4, delay: 5}}}}, {{else: {{then: {{do: continue, set: {{ctx.notes: "{{{{ city }}}}"}}}}}}}}]}}}}}}
    next: end
  - step: end
    tool:
      - work: {{kind: python, code: "raise KeyError('work')"}}
      - tidy: {{kind: noop, input: {{why: "{{{{ error.type }}}}"}}, spec: {{after: true}}}}
      - fails: {{kind: python, code: "raise ValueError('too late')", spec: {{after: true}}}}
"""

REPEATS = f"""{HEAD}
workload: {{xs: [1, 0, 2]}}
workflow:
  - step: start
    tool:
      name: pages
      kind: http
      url: http://x
      params: {{page: 1}}
      repeat:
        next: {{when: "{{{{ response.data.next }}}}", params: {{page: "{{{{ response.data.next }}}}"}}}}
        collect: {{path: rows}}
        each: {{name: keep, kind: noop, input: {{n: "{{{{ data | length }}}}"}}, set: {{ctx.n: "{{{{ output.n }}}}"}}}}
    next: [items, wide]
  - step: items
    tool:
      - some: {{kind: python, loop: {{in: "{{{{ xs }}}}", iterator: x, spec: {{policy: {{failure: {{tolerate: {{count: 1}}}}}}}}}}, code: "result = 6 / x", input: {{x: "{{{{ x }}}}"}}, set: {{ctx.stats: "{{{{ output.stats }}}}"}}}}
      - none: {{kind: noop, loop: {{in: null, iterator: x}}}}
      - all: {{kind: python, loop: {{in: "{{{{ xs }}}}", iterator: x}}, code: "result = 6 / x", input: {{x: "{{{{ x }}}}"}}, spec: {{policy: {{rules: [
          {{when: "{{{{ outcome.status == 'error' and _attempt < 2 }}}}", then: {{do: retry, delay: 5}}}},
          {{when: "{{{{ outcome.status == 'error' and iter.index == 1 }}}}", then: {{do: continue}}}},
          {{when: "{{{{ iter.index == 2 }}}}", then: {{do: fail}}}}]}}}}}}
    next: {{arcs: [{{step: end, when: "{{{{ error.item == 2 }}}}", args: {{stats: "{{{{ error.stats }}}}"}}}}]}}
  - step: wide
    loop: {{in: [a, b], iterator: name, spec: {{mode: parallel}}}}
    tool: {{kind: noop, loop: {{in: [1, 2], iterator: x}}, input: {{at: "{{{{ [iter.parent.name, x] }}}}"}}}}
    next: end
  - step: end
    spec: {{join: all}}
    tool: {{kind: noop, input: {{wide: "{{{{ wide.results }}}}"}}}}
"""


ROWS = f"""{HEAD}
workflow:
  - step: start
    loop:
      cursor: {{kind: postgres, claim: "DELETE FROM jobs WHERE id IN (SELECT id FROM jobs LIMIT :max_rows) RETURNING *"}}
      iterator: row
      spec: {{mode: parallel, max_in_flight: 2, frame: {{max_rows: 2}}, policy: {{failure: {{mode: best_effort}}}}}}
    tool: {{kind: python, code: "result = 6 / (n - 4)", input: {{n: "{{{{ row.id }}}}"}}}}
    next: more
  - step: more
    loop: {{cursor: {{kind: postgres, claim: "DELETE FROM nowhere RETURNING *"}}, iterator: row}}
    tool: {{kind: noop}}
"""


CALLED_OFF = f"""{HEAD}
workflow:
  - step: start
    next: [one, each]
  - step: one
    tool: {{kind: http, url: http://one}}
  - step: each
    loop: {{in: [a, b, c], iterator: name, spec: {{mode: parallel, max_in_flight: 2}}}}
    tool: {{kind: http, url: "http://{{{{ name }}}}"}}
"""


PATTERNS = f"""{HEAD}
executor: {{spec: {{final_step: last}}}}
workflow:
  - step: start
    next: {{spec: {{mode: inclusive}}, arcs: [{{step: ask}}, {{step: work, times: 3}}, {{step: late}}, {{step: slow}}, {{step: never}}]}}
  - step: ask
    next:
      arcs:
        - {{step: stop, wait: {{signal: done}}}}
        - {{step: stop, wait: {{timer: 1h}}, set: {{ctx.by: "{{{{ result.name }}}}"}}}}
  - step: work
    tool: {{kind: noop}}
    next: merge
  - step: merge
    spec: {{join: {{tokens: 3}}}}
    tool: {{kind: noop}}
  - step: slow
    loop: {{in: [1, 2], iterator: n, spec: {{mode: parallel, max_in_flight: 2}}}}
    tool: {{kind: wait, timer: "{{{{ (n - 1) * 7200 }}}}"}}
    next: late
  - step: late
    spec: {{join: any, milestone: {{after: merge, before: stop}}}}
    tool: {{kind: noop}}
  - step: never
    tool: {{kind: wait, signal: never}}
  - step: stop
    spec: {{completes: [slow]}}
    tool: {{kind: noop}}
    next: enough
  - step: enough
    tool: {{kind: wait, timer: 1m}}
    terminate: completed
  - step: last
    tool: {{kind: noop}}
"""


def flaky(call: Call) -> Json:
    if call.attempt < 3 and call.args.get("city") in ("rome", "kyiv", None):
        raise ToolError("server_error", "503", retryable=True)
    return {"status_code": 200}


def broken(_call: Call) -> Json:
    raise ToolError("connection", "nobody there", retryable=True)


def settled(sim: Simulation, run: str) -> Simulation:
    """Delivers everything, over deaths and delays, until the execution rests."""
    for _ in range(60):
        with suppress(Death):
            sim.settle()
        if sim.report(run).row.status != "running":
            break
        sim.pass_time(31)
    return sim


def loops_and_retries() -> Simulation:
    sim = Simulation(LOOPS, {"http": flaky})
    return settled(sim, sim.start())


def workers_that_die() -> Simulation:
    deaths = iter([True, False, False, True, True])

    def mortal(call: Call) -> Json:
        if next(deaths, False):
            raise Death
        return flaky(call)

    sim = Simulation(LOOPS, {"http": mortal}, limits=RuntimeLimits(slice_s=0.0, snapshot_events=20))
    return settled(sim, sim.start({"cities": ["oslo", "rome", "lima"]}))


def workers_whose_loss_is_told() -> Simulation:
    """The same, since the log says whose delivery was lost."""
    return workers_that_die()


def joins_and_admission() -> Simulation:
    sim = Simulation(JOINS)
    run = sim.start()
    sim.settle()
    control.patch_ctx(sim.rt, run, {"open": True, "deep.er": [1, None, "ü"]})
    sim.settle()
    return sim


def failure() -> Simulation:
    sim = Simulation(FAILURE, {"http": broken})
    return settled(sim, sim.start())


def given_up() -> Simulation:
    def deadly(_call: Call) -> Json:
        raise Death

    sim = Simulation(FAILURE, {"http": deadly}, limits=RuntimeLimits(max_deliveries=2))
    return settled(sim, sim.start())


def cancelled_after_a_pause() -> Simulation:
    def http(call: Call) -> Json:
        calls.append(call)
        if len(calls) == 2:
            control.pause(sim.rt, run, "lunch")
        if len(calls) == 4:
            control.cancel(sim.rt, run, "enough", grace_s=0)
            sim.settle()
        return 1

    calls: list[Call] = []
    sim = Simulation(LOOPS, {"http": http})
    run = sim.start()
    sim.settle()
    control.resume(sim.rt, run)
    sim.pass_time(1)
    sim.settle()
    return sim


def children_and_checkpoints() -> Simulation:
    def http(call: Call) -> object:
        seen = call.checkpoint or {"pages": 0}
        return Later(30, {"pages": seen["pages"] + 1}) if seen["pages"] < 2 else seen

    sim = Simulation(CALLS, {"http": http})
    catalog.register(sim.rt, KID)
    return settled(sim, sim.start())


def called_by_an_iteration() -> Simulation:
    return children_and_checkpoints()


def children_that_wait() -> Simulation:
    def http(call: Call) -> object:
        return Later(40, {"job": 7})

    sim = Simulation(WAITS, {"http": http})
    catalog.register(sim.rt, WAITING_KID)
    run = sim.start()
    sim.settle()
    sim.pass_time(40)
    sim.settle()
    for event in sim.events(run):
        if isinstance(event.fact, ChildRequested):
            control.patch_ctx(sim.rt, event.fact.child_id, {"go": True})
            sim.settle()
    return settled(sim, run)


def behind_the_end_of_pipelines() -> Simulation:
    sim = Simulation(BEHIND, {"http": flaky})
    catalog.register(sim.rt, KID)
    return settled(sim, sim.start())


def rows_that_are_claimed() -> Simulation:
    free = list(range(1, 8))
    claims: list[Call] = []

    def postgres(call: Call) -> Json:
        claims.append(call)
        if "nowhere" in str(call.config["command"]):
            raise ToolError("sql", "there is no table nowhere")
        if len(claims) == 2:
            raise Death
        taken = free[:2]
        del free[:2]
        return {"rows": [{"id": one} for one in taken], "row_count": len(taken), "columns": ["id"]}

    sim = Simulation(ROWS, {"postgres": postgres}, limits=RuntimeLimits(slice_s=0.0, snapshot_events=20))
    return settled(sim, sim.start())


def repeats_and_loops_of_tasks() -> Simulation:
    deaths = iter([False, True, False])

    def http(call: Call) -> Json:
        if next(deaths, False):
            raise Death
        page = call.config["params"]["page"]
        return {"status_code": 200, "data": {"rows": [page], "next": page + 1 if page < 3 else None}}

    def python(call: Call) -> Json:
        if call.args["x"] == 0:
            raise ToolError("python", "division by zero")
        return 6 / call.args["x"]

    sim = Simulation(REPEATS, {"http": http, "python": python})
    return settled(sim, sim.start())


def called_off_while_they_waited() -> Simulation:
    def http(call: Call) -> object:
        if not call.abandoned:
            return Later(30, {"job": call.config["url"]})
        if call.config["url"] == "http://b":
            return broken(call)
        raise ToolError("cancelled", "Nobody waits for it.")

    kinds = {**KINDS, "http": replace(KINDS["http"], suspends=True, abandons=True)}
    sim = Simulation(CALLED_OFF, {"http": http}, kinds=kinds)
    run = sim.start()
    sim.settle()
    control.cancel(sim.rt, run, "enough")
    return settled(sim, run)


def _called(sim: Simulation) -> str:
    """The first that an iteration called."""
    return next(
        event.fact.child_id
        for event in sim.events("1")
        if isinstance(event.fact, ChildRequested) and event.draft.iteration is not None
    )


PAGES = f"""{HEAD}
workflow:
  - step: start
    tool:
      - pages: {{kind: http, url: http://x, pagination: {{type: page, items: rows, size: 2, delay: 5}}}}
      - calls:
          kind: http
          url: http://x
          params: {{page: 1}}
          spec: {{policy: {{rules: [
            {{when: "{{{{ outcome.status == 'error' and _attempt < 2 }}}}", then: {{do: retry, delay: 5}}}},
            {{else: {{then: {{do: continue}}}}}}]}}}}
          repeat:
            next: {{when: "{{{{ response.data.next }}}}", params: {{page: "{{{{ response.data.next }}}}"}}}}
            collect: {{path: rows, into: rows}}
            each: {{name: keep, kind: noop, input: {{n: "{{{{ data.rows | length }}}}"}}, set: {{ctx.n: "{{{{ output.n }}}}"}}}}
    next: wide
  - step: wide
    loop: {{in: [a, b], iterator: name, spec: {{mode: parallel}}}}
    tool: {{kind: http, url: http://x, params: {{page: 1}}, repeat: {{next: {{params: {{page: 2}}}}, max: 2}}}}
"""


def repeats_as_a_construct() -> Simulation:
    """One worker dies, one call fails for good, and the last of three pages is short."""
    deaths = iter([False, True, False])

    def http(call: Call) -> Json:
        if next(deaths, False):
            raise Death
        page = call.config["params"]["page"]
        if call.task == "calls" and page == 3:
            raise ToolError("server_error", "Broken.")
        rows = [page] * (2 if page < 3 else 1)
        return {"status_code": 200, "data": {"rows": rows, "next": page + 1}}

    sim = Simulation(PAGES, {"http": http})
    return settled(sim, sim.start())


AGAIN = f"""{HEAD}
workflow:
  - step: start
    tool: {{kind: python, code: "result = [1, 2, 3]"}}
    next: each
  - step: each
    loop: {{in: "{{{{ start }}}}", iterator: n, spec: {{mode: parallel, policy: {{failure: {{mode: best_effort}}}}}}}}
    tool: {{kind: http, url: "http://x/{{{{ n }}}}", input: {{n: "{{{{ n }}}}"}}}}
    next: [pay, left]
  - step: pay
    tool: {{kind: http, url: http://x/pay, method: POST, input: {{n: 9}}}}
  - step: left
    tool: {{kind: playbook, path: tests/kid, input: {{n: 1}}}}
"""


def run_again() -> Simulation:
    """An iteration and a step failed, and both go well in the retry."""
    broken = True

    def http(call: Call) -> Json:
        if broken and call.args["n"] in {2, 9}:
            raise ToolError("server_error", "Broken.")
        return call.args["n"]

    sim = Simulation(AGAIN, {"http": http})
    catalog.register(sim.rt, KID)
    settled(sim, sim.start())
    broken = False
    again = retry(sim.rt, RetryRequest("1"))
    return settled(sim, again.execution_id)


def forked() -> Simulation:
    """A fork of what has ended, from the moment before its loop."""
    sim = Simulation(AGAIN, {"http": lambda call: call.args["n"]})
    catalog.register(sim.rt, KID)
    settled(sim, sim.start())
    other = fork(sim.rt, ForkRequest("1", before="each", patch={"x": 1}))
    return settled(sim, other.execution_id)


STUBBORN = f"""{HEAD}
executor: {{spec: {{policy: {{retry: {{attempts: 2, delay: 60, when: "{{{{ error.step == 'start' }}}}"}}}}}}}}
workflow:
  - step: start
    tool: {{kind: python, code: "result = 6 / 0"}}
"""


def retried_by_itself() -> Simulation:
    """It failed, and its policy has it retried."""
    sim = Simulation(STUBBORN)
    sim.start()
    sim.settle()
    sim.pass_time(60)
    sim.settle()
    return sim


def retried_for_the_last_time() -> Simulation:
    """The second attempt of two."""
    return retried_by_itself()


def called_off_before_its_retry() -> Simulation:
    """It failed, and somebody did not want the retry that its policy asked for."""
    sim = Simulation(STUBBORN)
    failed = sim.start()
    sim.settle()
    control.cancel(sim.rt, failed, "enough")
    sim.settle()
    return sim


KEYED = f"""{HEAD}
key: "of-{{{{ n }}}}"
workload: {{n: 7}}
workflow:
  - step: each
    loop: {{in: [1, 1, 2], iterator: n, spec: {{mode: parallel, policy: {{failure: {{mode: best_effort}}}}}}}}
    tool: {{kind: playbook, path: tests/kid, input: {{n: "{{{{ n }}}}"}}}}
"""


def called_with_keys() -> Simulation:
    """Of two calls with one key the second one fails."""
    sim = Simulation(KEYED)
    catalog.register(sim.rt, KID.replace("workload:", 'key: "kid-{{ n }}"\nworkload:'))
    return settled(sim, sim.start())


LABELLED = f"""{HEAD.replace("path:", "labels: {team: data, tier: 1}, path:")}
workload: {{n: 7}}
workflow:
  - step: start
    tool: {{kind: python, code: "result = n", input: {{n: "{{{{ n }}}}"}}}}
"""


def with_labels() -> Simulation:
    """A retry, which has the labels of its source: those of the playbook and of the start."""
    sim = Simulation(LABELLED)
    first = start(sim.rt, StartRequest(sim.path, labels={"env": "prod", "tier": 2})).execution_id
    settled(sim, first)
    return settled(sim, retry(sim.rt, RetryRequest(first)).execution_id)


ENDED_IN_TIME = f"""{HEAD}
workflow:
  - step: start
    next: [slow, wide, waits]
  - step: slow
    spec: {{deadline: 20s}}
    tool: {{kind: http, url: http://slow}}
    next: {{arcs: [{{step: late, when: "{{{{ event.name == 'step.timed_out' }}}}"}}]}}
  - step: late
    tool: {{kind: noop}}
  - step: wide
    spec: {{deadline: 1h}}
    loop: {{in: [1, 2, 3], iterator: n, spec: {{mode: parallel}}}}
    tool: {{kind: http, url: http://wide, input: {{n: "{{{{ n }}}}"}}}}
  - step: waits
    tool: {{kind: http, url: http://waits}}
    next: {{arcs: [{{step: gone, when: "{{{{ event.name == 'step.cancelled' }}}}"}}]}}
  - step: gone
    tool: {{kind: noop}}
"""


def ended_in_time() -> Simulation:
    """A deadline that comes behind a pause, an iteration and a step that somebody cancels."""
    sim = Simulation(ENDED_IN_TIME, {"http": lambda call: call.args.get("n", "done")})
    run = sim.start()
    sim.deliver()
    held, sim.mailbox.messages = sim.mailbox.messages, []
    control.pause(sim.rt, run)
    sim.pass_time(30)
    advance(sim.rt)
    control.resume(sim.rt, run)
    control.cancel_step(sim.rt, run, "waits", reason="nobody waits for it")
    control.cancel_step(sim.rt, run, "wide", 1, reason="two is enough")
    advance(sim.rt)
    sim.pass_time(20)
    advance(sim.rt)
    sim.mailbox.messages = held
    return settled(sim, run)


WAITED = f"""{HEAD}
workflow:
  - step: start
    next: [race, every, late, each]
  - step: race
    tool: {{kind: wait, any: {{paid: {{signal: {{name: paid, match: {{n: 1}}}}}}, late: {{timer: 1h}}}}}}
  - step: every
    tool: {{kind: wait, all: [{{signal: a}}, {{condition: "{{{{ ctx.n > 1 }}}}"}}, {{timer: 10}}]}}
  - step: late
    tool: {{kind: wait, signal: never, spec: {{timeout: 20, policy: {{rules: [{{else: {{then: {{do: continue}}}}}}]}}}}}}
  - step: each
    loop: {{in: [1, 2], iterator: n, spec: {{mode: parallel}}}}
    tool: {{kind: wait, signal: {{name: go, when: "{{{{ signal.payload == n }}}}"}}}}
"""


def that_waited() -> Simulation:
    """Signals of every fate: taken, too early, for everyone, expired; timers and a condition."""
    sim = Simulation(WAITED)
    run = sim.start()
    send_signal(sim.rt, run, SignalRequest("paid", {"n": 1}, "early"))
    sim.settle()
    send_signal(sim.rt, run, SignalRequest("paid", {"n": 2}, "unwanted", 5))
    send_signal(sim.rt, run, SignalRequest("a", "all", "everyone", everyone=True))
    sim.settle()
    sim.pass_time(10)
    sim.settle()
    control.patch_ctx(sim.rt, run, {"n": 2})
    sim.settle()
    sim.pass_time(10)
    sim.settle()
    for n in (2, 1):
        send_signal(sim.rt, run, SignalRequest("go", n, f"go{n}"))
        sim.settle()
    return settled(sim, run)


CALLED_BACK = f"""{HEAD}
workflow:
  - step: start
    loop: {{in: [1, 2], iterator: n, spec: {{mode: parallel}}}}
    tool:
      - ask: {{kind: http, url: "http://there", input: {{to: "{{{{ callback.answer.url }}}}", n: "{{{{ n }}}}"}}}}
      - answer: {{kind: wait, any: {{called: {{callback: {{}}}}, late: {{timer: 1h}}}}}}
    next: once
  - step: once
    tool:
      - ask: {{kind: http, url: "http://there", input: {{to: "{{{{ callback.answer.url }}}}"}}}}
      - answer: {{kind: wait, callback: {{}}, set: {{ctx.n: "{{{{ (ctx.n or 0) + 1 }}}}"}}}}
      - again: {{kind: noop, spec: {{policy: {{rules: [{{when: "{{{{ ctx.n < 2 }}}}", then: {{do: jump, to: answer}}}}]}}}}}}
"""


def called_back() -> Simulation:
    """Calls before the wait and in it, again, and one that never comes."""

    def there(call: Call) -> Json:
        reference = call.args["to"]
        assert isinstance(reference, Mapping)
        place = place_of(reference)
        if call.args.get("n") == 1:
            receive_call(sim.rt, place, {"early": True})
        if place.iteration is None:
            places.append(place)
        return {"status_code": 202}

    places: list[TaskAddress] = []
    sim = Simulation(CALLED_BACK, {"http": there})
    run = sim.start()
    sim.settle()
    sim.pass_time(3600)
    sim.settle()
    for n in range(2):
        receive_call(sim.rt, places[0], n)
    return settled(sim, run)


ASKED = f"""{HEAD}
workflow:
  - step: start
    next: [pay, refused, late, each]
  - step: pay
    tool:
      kind: wait
      approval: {{by: [ada, "group:ops"], count: 2, message: "Pay?", show: {{n: 1}}, form: {{n: {{type: integer, default: 3}}}}, remind: 10}}
  - step: refused
    tool: {{kind: wait, approval: {{message: "Really?"}}, spec: {{policy: {{rules: [{{else: {{then: {{do: continue}}}}}}]}}}}}}
  - step: late
    tool: {{kind: wait, approval: {{expires: 20}}, spec: {{policy: {{rules: [{{else: {{then: {{do: continue}}}}}}]}}}}}}
  - step: each
    loop: {{in: [1, 2], iterator: n, spec: {{mode: parallel}}}}
    tool: {{kind: wait, any: {{yes: {{approval: {{four_eyes: true}}}}, late: {{timer: 1h}}}}}}
"""


def that_was_approved() -> Simulation:
    """Answers of every fate: enough of them, a rejection, none in time, in a loop; reminders."""
    sim = Simulation(ASKED)
    run = sim.start()
    sim.settle()

    def say(name: str, verdict: Verdict, step: str, **more: Any) -> None:
        who = Principal(name, (Grant("approve"),), ("ops",))
        rt = sim.rt.acting_for(Caller(name, f"request-of-{name}"))
        answer(rt, who, run, ApprovalRequest(verdict, step, **more))
        sim.settle()

    say("ada", "approve", "pay", reason="it is due")
    say("bob", "reject", "refused", reason="no")
    say("bob", "approve", "each", iteration=1)
    for _ in range(2):
        sim.pass_time(10)
        sim.settle()
    say("ada", "approve", "each", iteration=0)
    say("bob", "approve", "pay", values={"n": "4"})
    return settled(sim, run)


INSTANCES = f"""{HEAD}
workflow:
  - step: start
    next: [apart, some, tree]
  - step: apart
    spec: {{policy: {{failure: {{mode: best_effort}}}}}}
    loop: {{in: [1, 2, 3], iterator: n, spec: {{sync: false, mode: parallel, reduce: {{ctx.sum: sum}}, policy: {{failure: {{mode: fail_fast}}}}}}}}
    tool: {{kind: http, url: "http://{{{{ n }}}}", input: {{n: "{{{{ n }}}}"}}, set: {{ctx.sum: "{{{{ n }}}}"}}}}
    next: join
  - step: some
    loop: {{in: [4, 5, 6, 7], iterator: n, enough: {{when: "{{{{ completed >= 2 }}}}"}}, spec: {{mode: parallel, max_in_flight: 3}}}}
    tool: {{kind: http, url: "http://{{{{ n }}}}", input: {{n: "{{{{ n }}}}"}}}}
    next: join
  - step: tree
    loop:
      in: [1]
      iterator: n
      grow: "{{{{ [n * 10, n * 10 + 1] if n < 10 else none }}}}"
      close: "{{{{ ctx.closed }}}}"
      enough: {{when: "{{{{ completed == 2 }}}}", rest: run}}
    tool: {{kind: http, url: "http://{{{{ n }}}}", input: {{n: "{{{{ n }}}}"}}}}
    next: join
  - step: join
    tool: {{kind: noop, input: {{some: "{{{{ some.stats }}}}", tree: "{{{{ tree.results }}}}"}}}}
"""


def iterations_that_run_on() -> Simulation:
    """Steps that do not wait for all of their iterations: one of them fails its branch later."""

    def http(call: Call) -> Json:
        if call.args["n"] == 3:
            raise ToolError("client_error", "three is too many")
        return call.args["n"]

    sim = Simulation(INSTANCES, {"http": http})
    run = sim.start()
    sim.settle()
    control.patch_ctx(sim.rt, run, {"closed": True})
    return settled(sim, run)


BOUNDED = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: bounded, path: histories/bounded}
executor: {spec: {concurrency: {limit: 1, key: whole}}}
workflow:
  - step: start
    next: [one, many]
  - step: one
    spec: {concurrency: [{limit: 1, key: a}, {limit: 2, key: b}], rate: {limit: 1, per: 10s}, priority: 9}
    tool: {kind: python, code: "result = 1"}
    next: full
  - step: many
    spec: {concurrency: {limit: 1, key: loops}}
    loop:
      in: [1, 2, 3]
      iterator: n
      spec: {mode: parallel, max_in_flight: 3, concurrency: {limit: 2, key: lanes}}
    tool: {kind: wait, signal: {name: "go{{ iter.n }}"}}
    next: last
  - step: full
    spec: {concurrency: {limit: 1, key: loops, on_full: skip}}
    tool: {kind: python, code: "result = 2"}
  - step: last
    tool: {kind: python, code: "result = 3"}
"""


def bounded() -> Simulation:
    """Slots of an execution, of steps, of loops and of their iterations; a step that finds no room,
    and one that was paused by itself."""
    sim = Simulation(BOUNDED)
    run = sim.start()
    other = sim.start()
    pausing.pause_step(sim.rt, run, "last", "not yet")
    sim.settle()
    for n in (2, 1, 3):
        send_signal(sim.rt, run, SignalRequest(f"go{n}", n, f"go{n}"))
        sim.settle()
    pausing.resume_step(sim.rt, run, "last")
    sim.settle()
    control.cancel(sim.rt, other)
    return settled(sim, run)


UNDONE = f"""{HEAD}
executor: {{spec: {{on_cancel: told, finally: cleared}}}}
regions:
  trip: {{steps: [book, stay, both], deadline: 1h, compensate: true, on_cancel: later, finally: closed}}
  whole: {{steps: [trip, start, later], finally: closed}}
workflow:
  - {{step: start, next: [book, stay]}}
  - step: book
    loop: {{in: [1, 2], iterator: n, spec: {{mode: parallel}}}}
    compensate: {{step: unbook, when: started}}
    finally: swept
    tool: {{kind: python, code: "result = n", input: {{n: "{{{{ n }}}}"}}}}
    next: both
  - {{step: stay, tool: {{kind: wait, signal: go}}, next: both}}
  - {{step: both, spec: {{join: all}}, next: paid}}
  - {{step: later, compensate: unbook, tool: {{kind: noop}}, next: paid}}
  - {{step: paid, tool: {{kind: wait, signal: paid}}}}
  - {{step: unbook, tool: {{kind: noop, input: {{was: "{{{{ args.result }}}}"}}}}}}
  - {{step: swept, tool: {{kind: noop}}}}
  - {{step: closed, tool: {{kind: noop}}}}
  - {{step: told, tool: {{kind: noop}}}}
  - {{step: cleared, tool: {{kind: noop}}}}
"""


def undone_and_left() -> Simulation:
    """A region that is not in time, inside of another one; then the execution is cancelled."""
    sim = Simulation(UNDONE)
    run = sim.start()
    sim.settle()
    sim.pass_time(3600)
    sim.settle()
    control.cancel(sim.rt, run, "too late")
    return settled(sim, run)


RUN_ON = f"""{HEAD}
regions: {{part: {{steps: [apart, tree, given], compensate: true, on_cancel: later, finally: closed}}}}
workflow:
  - {{step: start, next: [apart, tree, given, stop]}}
  - step: apart
    loop: {{in: [1, 2, 3], iterator: n, spec: {{sync: false, mode: parallel, concurrency: {{limit: 2, key: lanes}}}}}}
    compensate: undo
    finally: swept
    tool: {{kind: wait, signal: {{name: "go{{{{ n }}}}"}}}}
  - step: tree
    loop:
      in: [4]
      iterator: n
      grow: "{{{{ [n * 10, n * 10 + 1] if n < 10 else none }}}}"
      enough: {{when: "{{{{ completed >= 1 }}}}", rest: run}}
      spec: {{mode: parallel, concurrency: {{limit: 1, key: trees}}}}
    compensate: {{step: undo, when: started}}
    finally: swept
    tool: {{kind: wait, signal: {{name: "go{{{{ n }}}}"}}}}
  - step: given
    loop: {{in: [5, 6], iterator: n, close: "{{{{ ctx.closed }}}}", spec: {{mode: parallel}}}}
    tool: {{kind: wait, signal: {{name: "go{{{{ n }}}}"}}}}
  - {{step: stop, spec: {{completes: [apart]}}, tool: {{kind: wait, signal: stop}}}}
  - {{step: later, tool: {{kind: noop}}}}
  - {{step: undo, tool: {{kind: noop, input: {{was: "{{{{ args.item }}}}"}}}}}}
  - {{step: swept, tool: {{kind: noop, input: {{was: "{{{{ args.status }}}}"}}}}}}
  - {{step: closed, tool: {{kind: noop}}}}
"""


def that_ran_on_in_a_region() -> Simulation:
    """Iterations behind their steps: with slots, ended by another step, and cancelled with their
    region, which undoes and cleans up what they have done."""
    sim = Simulation(RUN_ON)
    run = sim.start()
    sim.settle()
    for name in ("go4", "go1", "stop", "go40", "go5"):
        send_signal(sim.rt, run, SignalRequest(name, name))
        sim.settle()
    control.cancel_region(sim.rt, run, "part", "that will do")
    return settled(sim, run)


TRIP = f"""{HEAD}
workflow:
  - step: start
    tool: {{kind: playbook, path: tests/undoing_kid}}
    next: waits
  - step: waits
    tool: {{kind: wait, signal: done}}
"""
UNDOING_KID = f"""{HEAD.replace("tests/history", "tests/undoing_kid")}
workflow:
  - step: start
    compensate: undo
    tool: {{kind: noop}}
    next: bare
  - step: bare
    compensate: undo
    loop: {{in: [1, 2], iterator: n}}
    tool: {{kind: noop}}
  - {{step: undo, tool: {{kind: noop, input: {{was: "{{{{ args.of }}}}"}}}}}}
"""


def undone_with_its_caller() -> Simulation:
    """What was called, and had completed, undoes itself; then its caller ends."""
    sim = Simulation(TRIP)
    catalog.register(sim.rt, UNDOING_KID)
    run = sim.start()
    sim.settle()
    control.cancel(sim.rt, run, "too dear")
    return settled(sim, run)


def undoing() -> Simulation:
    return undone_with_its_caller()


def _newest_descendant(sim: Simulation) -> str:
    """What was begun from the first one."""
    return inspect.executions(sim.rt, source="1")[0].execution_id


def _undoing(sim: Simulation) -> str:
    """What undoes the execution that was called."""
    return next(
        event.fact.child_id for event in sim.events("1") if isinstance(event.fact, ChildUndoRequested)
    )


#: Whose history it is, where it is not that of the first execution.
WHOSE: dict[str, Callable[[Simulation], str]] = {
    "called_by_an_iteration": _called,
    "run_again": _newest_descendant,
    "forked": _newest_descendant,
    "with_labels": _newest_descendant,
    "retried_for_the_last_time": _newest_descendant,
    "undoing": _undoing,
}


def ended_by_steps() -> Simulation:
    sim = Simulation(PATTERNS)
    sim.start()
    sim.rest()
    return sim


SCENARIOS: dict[str, Callable[[], Simulation]] = {
    scenario.__name__: scenario
    for scenario in (
        loops_and_retries,
        workers_that_die,
        workers_whose_loss_is_told,
        joins_and_admission,
        failure,
        given_up,
        cancelled_after_a_pause,
        children_and_checkpoints,
        called_by_an_iteration,
        children_that_wait,
        behind_the_end_of_pipelines,
        rows_that_are_claimed,
        repeats_and_loops_of_tasks,
        called_off_while_they_waited,
        repeats_as_a_construct,
        run_again,
        forked,
        retried_by_itself,
        retried_for_the_last_time,
        called_off_before_its_retry,
        called_with_keys,
        with_labels,
        ended_in_time,
        that_waited,
        ended_by_steps,
        called_back,
        that_was_approved,
        bounded,
        undone_and_left,
        iterations_that_run_on,
        that_ran_on_in_a_region,
        undone_with_its_caller,
        undoing,
    )
}


def recorded(scenario: Callable[[], Simulation]) -> Iterator[tuple[str, Json]]:
    sim = scenario()
    run = WHOSE.get(scenario.__name__, lambda _: "1")(sim)
    events = sim.events(run)
    every = list(states(run, events))
    assert every[-1].ended, f"{scenario.__name__} is {every[-1].status}"
    yield "execution_id", run
    yield "playbook", _source(sim, run)
    yield "events", [envelope(event) for event in events]
    yield "told", told(every[-1])
    yield "digests", [digest(told(state)) for state in every]


def _source(sim: Simulation, run: str) -> str:
    return catalog.playbook(sim.rt, sim.report(run).row.path).content


def main() -> None:
    for name, scenario in SCENARIOS.items():
        path = FOLDER / f"{name}.json"
        if path.exists():
            continue
        path.write_text(json.dumps(dict(recorded(scenario)), indent=1, ensure_ascii=False) + "\n")
        print(f"recorded {path.name}")


if __name__ == "__main__":
    main()
