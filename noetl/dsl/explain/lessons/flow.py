"""5xx: where tokens go."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from noetl.dsl.explain.lessons.lesson import Lesson
from noetl.dsl.problems import Code

LESSONS: Final[Mapping[Code, Lesson]] = {
    Code.NO_PREVIOUS: Lesson(
        why="Before the first task there is none to jump to.",
        bad="- step: start\n  tool:\n    kind: http\n    url: https://example.com/\n    spec:\n      "
        "policy:\n        rules:\n"
        "        - when: '{{ error }}'\n          then: {do: jump, to: previous}\n",
        at="previous",
        good="- step: start\n  tool:\n    kind: http\n    url: https://example.com/\n    spec:\n      "
        "policy:\n        rules:\n"
        "        - when: '{{ error }}'\n          then: {do: retry, attempts: 3}\n",
    ),
    Code.UNREACHABLE: Lesson(
        why="The step never runs. Most often an arc to it is missing, or it is left over.",
        bad="- step: start\n  tool: {kind: noop}\n- step: clean\n  tool: {kind: noop}\n",
        at="clean",
        good="- step: start\n  tool: {kind: noop}\n  next: clean\n- step: clean\n  tool: {kind: noop}\n",
    ),
    Code.SELF_LOOP: Lesson(
        why="The step runs again and again, until the execution is cancelled or the step fails.",
        bad="- step: poll\n  tool: {kind: http, url: https://example.com/}\n  next: poll\n",
        at="poll",
        good="- step: poll\n  tool: {kind: http, url: https://example.com/}\n  next:\n    arcs:\n"
        "    - {step: poll, when: \"{{ poll.data.state != 'done' }}\"}\n",
    ),
    Code.ENDLESS: Lesson(
        why="No arc leads out of the cycle, and in each step one is always taken.",
        bad="- step: ask\n  tool: {kind: http, url: https://example.com/}\n  next: keep\n"
        "- step: keep\n  tool: {kind: noop}\n  next: ask\n",
        at="ask",
        good="- step: ask\n  tool: {kind: http, url: https://example.com/}\n  next: keep\n"
        "- step: keep\n  tool: {kind: noop}\n  next:\n    arcs:\n    - {step: ask, when: '{{ "
        "ask.data.more }}'}\n",
    ),
    Code.ERRORS_UNCOVERED: Lesson(
        why="With a policy in which no rule matches the pipeline goes on, after an error as well: the "
        "step counts as done.",
        bad="- step: start\n  tool:\n    kind: http\n    url: https://example.com/\n    spec:\n      "
        "policy:\n"
        "        rules:\n        - when: '{{ result.data.done }}'\n          then: {do: break}\n",
        at="rules",
        good="- step: start\n  tool:\n    kind: http\n    url: https://example.com/\n    spec:\n      "
        "policy:\n"
        "        rules:\n        - when: '{{ error }}'\n          then: {do: fail}\n"
        "        - when: '{{ result.data.done }}'\n          then: {do: break}\n",
    ),
    Code.JOIN_COUNT: Lesson(
        why="The join never fires, and its branch fails with `join.unsatisfied`.",
        bad="- step: start\n  next: [left, right]\n- step: left\n  next: meet\n- step: right\n  next: meet\n"
        "- step: meet\n  spec: {join: {count: 3}}\n  tool: {kind: noop}\n",
        at="meet\n  spec",
        good="- step: start\n  next: [left, right]\n- step: left\n  next: meet\n- step: right\n  next: meet\n"
        "- step: meet\n  spec: {join: {count: 2}}\n  tool: {kind: noop}\n",
    ),
    Code.SHADOWED_ARC: Lesson(
        why="An exclusive router takes the first arc that matches, and one without a guard always does "
        "after a success. What "
        "stands behind it is never taken, unless its guard is about how the step ended.",
        bad="- step: start\n  tool: {kind: http, url: https://example.com/}\n  next:\n    arcs:\n    - "
        "{step: end}\n"
        "    - {step: more, when: '{{ start.data.more }}'}\n- step: more\n  tool: {kind: noop}\n- step: "
        "end\n",
        at="{step: more",
        good="- step: start\n  tool: {kind: http, url: https://example.com/}\n  next:\n    arcs:\n"
        "    - {step: more, when: '{{ start.data.more }}'}\n    - {step: end}\n"
        "- step: more\n  tool: {kind: noop}\n- step: end\n",
    ),
    Code.JOIN_UNFILLED: Lesson(
        why="Some of the tokens that the join waits for exclude each other, come from a step that never "
        "runs, or from one that "
        "only runs after the join. It never fires, and its branch fails with `join.unsatisfied`. Without "
        "`join` a step "
        "waits only for what can still come.",
        bad="- step: start\n  next:\n    arcs:\n    - {step: left, when: '{{ ctx.left }}'}\n    - {step: "
        "right}\n"
        "- step: left\n  next: meet\n- step: right\n  next: meet\n"
        "- step: meet\n  spec: {join: all}\n  tool: {kind: noop}\n",
        at="meet\n  spec",
        good="- step: start\n  next:\n    arcs:\n    - {step: left, when: '{{ ctx.left }}'}\n    - "
        "{step: right}\n"
        "- step: left\n  next: meet\n- step: right\n  next: meet\n- step: meet\n  tool: {kind: noop}\n",
    ),
    Code.ENDLESS_JUMP: Lesson(
        why="The rule that jumps back always matches, and no rule on the way leads elsewhere: the tasks "
        "repeat until one fails.",
        bad="- step: all_pages\n  tool:\n  - {name: get, kind: http, url: https://example.com/}\n  - "
        "name: more\n    kind: noop\n"
        "    spec: {policy: {rules: [{else: {do: jump, to: get}}]}}\n",
        at="name: more",
        good="- step: all_pages\n  tool:\n  - {name: get, kind: http, url: https://example.com/}\n  - "
        "name: more\n    kind: noop\n"
        "    spec: {policy: {rules: [{when: '{{ get.data.more }}', then: {do: jump, to: get}}, {else: "
        "{do: break}}]}}\n",
    ),
    Code.RETRY_ONCE: Lesson(
        why="`attempts` counts all tries, the first included: with one of them the task fails at once.",
        bad="- step: start\n  tool:\n    kind: http\n    url: https://example.com/\n    spec:\n      "
        "policy:\n        rules:\n"
        "        - when: '{{ error.retryable }}'\n          then: {do: retry, attempts: 1, delay: 5}\n"
        "        - when: '{{ error }}'\n          then: {do: fail}\n",
        at="1, delay",
        good="- step: start\n  tool:\n    kind: http\n    url: https://example.com/\n    spec:\n      "
        "policy:\n        rules:\n"
        "        - when: '{{ error.retryable }}'\n          then: {do: retry, attempts: 2, delay: 5}\n"
        "        - when: '{{ error }}'\n          then: {do: fail}\n",
    ),
    Code.CLAIM: Lesson(
        why="A cursor claims rows until none are left. A statement that does not mark the rows that it "
        "takes finds the same ones again, "
        "for ever; one that does not return them yields nothing to work on.",
        bad="- step: start\n  loop:\n    cursor:\n      kind: postgres\n      auth: warehouse\n      "
        "claim: SELECT * FROM jobs LIMIT :max_rows\n"
        "    iterator: row\n  tool: {kind: noop, input: {id: '{{ row.id }}'}}\n",
        at="SELECT",
        good="- step: start\n  loop:\n    cursor:\n      kind: postgres\n      auth: warehouse\n      "
        "claim: |\n"
        "        UPDATE jobs SET taken = now() WHERE id IN (\n"
        "          SELECT id FROM jobs WHERE taken IS NULL LIMIT :max_rows FOR UPDATE SKIP LOCKED\n"
        "        ) RETURNING *\n"
        "    iterator: row\n  tool: {kind: noop, input: {id: '{{ row.id }}'}}\n",
    ),
}
