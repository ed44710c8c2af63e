"""3xx and 4xx: what playbooks name, and what templates and code say."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from noetl.dsl.explain.lessons.lesson import HEAD, Lesson
from noetl.dsl.problems import Code

LESSONS: Final[Mapping[Code, Lesson]] = {
    Code.UNKNOWN_STEP: Lesson(
        why="The token would have nowhere to go.",
        bad="- step: start\n  next: lod\n- step: load\n  tool: {kind: noop}\n",
        at="lod\n",
        good="- step: start\n  next: load\n- step: load\n  tool: {kind: noop}\n",
    ),
    Code.UNKNOWN_KIND: Lesson(
        why="No worker could run the task. Kinds come with packages: `noetl tool list` shows those that "
        "are installed.",
        bad="- step: start\n  tool: {kind: pyton, code: result = 1}\n",
        at="pyton",
        good="- step: start\n  tool: {kind: python, code: result = 1}\n",
    ),
    Code.UNKNOWN_TASK: Lesson(
        why="A jump leads to a task of the same step, a call to one of the workbook.",
        bad=HEAD + "workbook:\n  load: {kind: noop}\nworkflow:\n- step: start\n  tool: lod\n",
        at="lod\n",
        good=HEAD + "workbook:\n  load: {kind: noop}\nworkflow:\n- step: start\n  tool: load\n",
    ),
    Code.UNKNOWN_KEYCHAIN: Lesson(
        why="The task would fail when it asks for the secret.",
        bad=HEAD
        + "keychain:\n  db: {credential: pg_main}\nworkflow:\n- step: start\n  tool:\n    kind: postgres\n"
        "    auth: '{{ keychain.dbb }}'\n    command: select 1\n",
        at="keychain.dbb",
        good=HEAD
        + "keychain:\n  db: {credential: pg_main}\nworkflow:\n- step: start\n  tool:\n    kind: postgres\n"
        "    auth: '{{ keychain.db }}'\n    command: select 1\n",
    ),
    Code.UNKNOWN_RESULT: Lesson(
        why="`<step>.results.<task>` of a task that is not there is undefined, and becomes null where it "
        "is used.",
        bad="- step: pull\n  tool: [{name: users, kind: noop}, {name: count, kind: noop}]\n  next: end\n"
        "- step: end\n  tool: {kind: noop, input: {users: '{{ pull.results.user }}'}}\n",
        at="pull.results.user",
        good="- step: pull\n  tool: [{name: users, kind: noop}, {name: count, kind: noop}]\n  next: end\n"
        "- step: end\n  tool: {kind: noop, input: {users: '{{ pull.results.users }}'}}\n",
    ),
    Code.TEMPLATE: Lesson(
        why="The template cannot be evaluated, whatever the values are. All filters and tests are listed in "
        "[Values](reference/templates.md#values).",
        bad="- step: start\n  tool:\n    kind: shell\n    command: |\n      echo started\n"
        "      echo {{ execution_id | uper }}\n",
        at="uper",
        good="- step: start\n  tool:\n    kind: shell\n    command: |\n      echo started\n"
        "      echo {{ execution_id | upper }}\n",
    ),
    Code.PYTHON: Lesson(
        why="The code would fail whenever it is run. Line and column are those of the playbook.",
        bad="- step: start\n  tool:\n    kind: python\n    code: |\n      x = 1\n      result = x +\n",
        at="+\n",
        good="- step: start\n  tool:\n    kind: python\n    code: |\n      x = 1\n      result = x + 1\n",
    ),
    Code.UNDEFINED: Lesson(
        why="What is not there is undefined: null in a value, nothing in a text, false in a guard. A "
        "misspelt name does not "
        "fail, it goes wrong. Where a name may be missing, say so: `x | default(1)`, `x is defined`.",
        bad=HEAD
        + "workload: {city: Oslo}\nworkflow:\n- step: start\n  tool: {kind: noop, input: {where: '{{ cty "
        "}}'}}\n",
        at="cty }}",
        good=HEAD
        + "workload: {city: Oslo}\nworkflow:\n- step: start\n  tool: {kind: noop, input: {where: '{{ "
        "city }}'}}\n",
    ),
    Code.TEMPLATE_IN_CODE: Lesson(
        why="Code is handed over as it is written, so that braces mean what they mean in it and no value "
        "can become code. "
        "Values come as inputs. The same holds for SQL that comes with `params`, where values are bound: "
        "`spec.render: true` "
        "makes a template of it as well.",
        bad="- step: start\n  tool:\n    kind: python\n    code: |\n      result = '{{ execution_id }}'\n",
        at="{{ execution_id",
        good="- step: start\n  tool:\n    kind: python\n    input: {run: '{{ execution_id }}'}\n    "
        "code: |\n      result = run\n",
    ),
    Code.SQL_INTERPOLATION: Lesson(
        why="The value becomes part of the statement: a quote in it breaks the statement, and somebody "
        "may mean it to. A "
        "parameter is sent beside the statement.",
        bad="- step: start\n  tool:\n    kind: postgres\n    auth: pg_main\n"
        "    command: select * from people where name = '{{ ctx.name }}'\n",
        at="{{ ctx.name",
        good="- step: start\n  tool:\n    kind: postgres\n    auth: pg_main\n"
        "    command: select * from people where name = :name\n    params: {name: '{{ ctx.name }}'}\n",
    ),
    Code.GUARD_IS_TEXT: Lesson(
        why="The braces yield a text, and a text that is not empty is true: the guard always holds.",
        bad='- step: start\n  next:\n    arcs:\n    - {step: end, when: "{{ ctx.rounds }} == 1"}\n- '
        "step: end\n",
        at='"{{ ctx',
        good='- step: start\n  next:\n    arcs:\n    - {step: end, when: "{{ ctx.rounds == 1 }}"}\n- '
        "step: end\n",
    ),
    Code.OUTSIDE_OF_LOOP: Lesson(
        why="Each iteration of a loop has an `iter` of its own; a step without a loop has none, and "
        "reads null. So do the `set` and the "
        "arcs of a step with a loop: they are asked once, when all iterations are over.",
        bad="- step: each\n  loop: {in: [1, 2], iterator: n}\n  tool: {kind: noop}\n  next: end\n"
        "- step: end\n  tool: {kind: noop, input: {last: '{{ iter.n }}'}}\n",
        at="iter.n",
        good="- step: each\n  loop: {in: [1, 2], iterator: n}\n  tool: {kind: noop, input: {n: '{{ "
        "iter.n }}'}}\n  next: end\n"
        "- step: end\n  tool: {kind: noop, input: {last: '{{ each.results | last }}'}}\n",
    ),
    Code.NOTHING_BEFORE: Lesson(
        why="`_prev` is the result of the task before in the same pipeline. A step before is read by its "
        "name.",
        bad="- step: load\n  tool: {kind: noop, input: {n: 1}}\n  next: keep\n"
        "- step: keep\n  tool: {kind: noop, input: {n: '{{ _prev.n }}'}}\n",
        at="_prev",
        good="- step: load\n  tool: {kind: noop, input: {n: 1}}\n  next: keep\n"
        "- step: keep\n  tool: {kind: noop, input: {n: '{{ load.n }}'}}\n",
    ),
    Code.TOO_EARLY: Lesson(
        why="Every path to the other step leads through this one, and none leads back: it has no result yet.",
        bad="- step: start\n  tool: {kind: noop, input: {n: '{{ load.n }}'}}\n  next: load\n"
        "- step: load\n  tool: {kind: noop, input: {n: 1}}\n",
        at="load.n",
        good="- step: start\n  next: load\n- step: load\n  tool: {kind: noop, input: {n: 1}}\n  next: end\n"
        "- step: end\n  tool: {kind: noop, input: {n: '{{ load.n }}'}}\n",
    ),
    Code.UNREADABLE: Lesson(
        why="In a template `load-users` is `load` minus `users`. Steps may be called so; those that "
        "templates read may not.",
        bad="- step: load-users\n  tool: {kind: noop, input: {n: 1}}\n  next: end\n"
        "- step: end\n  tool: {kind: noop, input: {n: '{{ load-users.n }}'}}\n",
        at="load-users.n",
        good="- step: load_users\n  tool: {kind: noop, input: {n: 1}}\n  next: end\n"
        "- step: end\n  tool: {kind: noop, input: {n: '{{ load_users.n }}'}}\n",
    ),
    Code.BUILT_IN: Lesson(
        why="Built-ins win over steps, and over workload values that are read by their bare name.",
        bad=HEAD
        + "workload: {env: test}\nworkflow:\n- step: start\n  tool: {kind: noop, input: {stage: '{{ env "
        "}}'}}\n",
        at="env:",
        good=HEAD
        + "workload: {env: test}\nworkflow:\n- step: start\n  tool: {kind: noop, input: {stage: '{{ "
        "workload.env }}'}}\n",
    ),
    Code.CIRCLE: Lesson(
        why="Each waits for the other: the run ends before it begins, unless its payload gives one of them.",
        bad=HEAD + "workload: {base: '{{ url }}', url: '{{ base }}/v1'}\nworkflow:\n- {step: start}\n",
        at="'{{ url",
        good=HEAD
        + "workload: {base: https://example.com, url: '{{ base }}/v1'}\nworkflow:\n- {step: start}\n",
    ),
    Code.UNNAMED_RESULT: Lesson(
        why="It works, and means a result that has a name of its own: `noetl migrate` writes that.",
        bad=HEAD
        + "workflow:\n- step: weigh\n  tool:\n    kind: python\n    code: 'result = {\"kilos\": 9}'\n    "
        "spec:\n      policy:\n"
        "        rules: [{else: {do: continue, set: {ctx.total: '{{ weigh.kilos }}'}}}]\n",
        at="weigh.kilos",
        good=HEAD
        + "workflow:\n- step: weigh\n  tool:\n    kind: python\n    code: 'result = {\"kilos\": 9}'\n    "
        "spec:\n      policy:\n"
        "        rules: [{else: {do: continue, set: {ctx.total: '{{ output.data.kilos }}'}}}]\n",
    ),
    Code.LOOP_OVER_NAME: Lesson(
        why="A text is one item, whatever it says: only in a `when` an expression may stand without braces.",
        bad=HEAD
        + "workload: {cities: [Oslo, Rome]}\nworkflow:\n- step: start\n  loop: {in: workload.cities, "
        "iterator: city}\n"
        "  tool: {kind: noop, input: {where: '{{ city }}'}}\n",
        at="workload.cities",
        good=HEAD
        + "workload: {cities: [Oslo, Rome]}\nworkflow:\n- step: start\n  loop: {in: '{{ workload.cities "
        "}}', iterator: city}\n"
        "  tool: {kind: noop, input: {where: '{{ city }}'}}\n",
    ),
    Code.UNDEFINED_IN_CODE: Lesson(
        why="Code sees its inputs, its libraries and what it defines itself. Another name is a NameError "
        "when the task runs, as "
        "pyflakes would say. Where code defines names by `exec`, `globals()` or an import of everything, "
        "nothing is told.",
        bad="- step: start\n  tool:\n    kind: python\n    code: |\n      result = price * 2\n",
        at="price",
        good="- step: start\n  tool:\n    kind: python\n    input: {price: 4}\n    code: |\n      result "
        "= price * 2\n",
    ),
    Code.SQL_SYNTAX: Lesson(
        why="The parser of the database itself has read it: DuckDB's, PostgreSQL's, SQLite's. Whether "
        "there are such tables and "
        "columns is not looked at, nor is SQL with a template in it. Where a playbook is registered or "
        "started it is told too, but for SQL in files.",
        bad="- step: start\n  tool:\n    kind: sqlite\n    command: SELEC 1\n",
        at="SELEC",
        good="- step: start\n  tool:\n    kind: sqlite\n    command: SELECT 1\n",
    ),
}
