"""2xx: what may stand where."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from noetl.dsl.explain.lessons.lesson import HEAD, Lesson
from noetl.dsl.problems import Code

LESSONS: Final[Mapping[Code, Lesson]] = {
    Code.TYPE: Lesson(
        why="A value of another type would have to be guessed at. `5` is a number; a name is text, so "
        "`'5'` is one.",
        bad="- step: 5\n  tool: {kind: noop}\n",
        at="5",
        good="- step: five\n  tool: {kind: noop}\n",
    ),
    Code.MISSING: Lesson(
        why="Without it the part means nothing: a loop without an iterator, a task without a kind, a "
        "tool without the one "
        "key that says what to do.",
        bad="- step: start\n  tool: {kind: http, method: GET}\n",
        at="tool:",
        good="- step: start\n  tool: {kind: http, method: GET, url: https://example.com/}\n",
    ),
    Code.VALUE: Lesson(
        why="Only some values mean anything here: the message names them, the nearest first.",
        bad="- step: start\n  loop: {in: [1, 2], iterator: n, spec: {mode: paralel}}\n  tool: {kind: noop}\n",
        at="paralel",
        good="- step: start\n  loop: {in: [1, 2], iterator: n, spec: {mode: parallel}}\n  tool: {kind: "
        "noop}\n",
    ),
    Code.NAME: Lesson(
        why="Names of steps and tasks are parts of ids and addresses: `#`, `/`, `->` and control "
        "characters separate those. "
        "The item of a loop is read by its name, so that has to be an identifier.",
        bad="- step: load/users\n  tool: {kind: noop}\n",
        at="load/users",
        good="- step: load_users\n  tool: {kind: noop}\n",
    ),
    Code.DUPLICATE_NAME: Lesson(
        why="An arc or a template could mean either of the two.",
        bad="- step: start\n  next: load\n- step: load\n  tool: {kind: noop}\n- step: load\n  tool: "
        "{kind: shell, command: ls}\n",
        at="load\n  tool: {kind: shell",
        good="- step: start\n  next: load\n- step: load\n  tool: {kind: noop}\n  next: load_again\n"
        "- step: load_again\n  tool: {kind: noop}\n",
    ),
    Code.TOO_MANY_STEPS: Lesson(
        why="Nobody reads so many, and every decision looks at all of them. Repetition is a loop; parts "
        "that stand by "
        "themselves are playbooks of their own, called with `kind: playbook`.",
        bad=HEAD
        + "workflow:\n"
        + "".join(f"- {{step: s{n}, next: s{n + 1}}}\n" for n in range(1_000))
        + "- {step: s1000}\n",
        at="workflow",
        good="- step: each\n  loop: {in: [1, 2, 3], iterator: n}\n  tool: {kind: noop, input: {n: '{{ n "
        "}}'}}\n",
    ),
    Code.UNSUPPORTED: Lesson(
        why="The feature belongs to the language, and this version cannot run it: better to know now "
        "than in the middle of a "
        "run.",
        bad="- step: start\n  tool: {kind: wait, timer: 5s}\n",
        at="wait",
        good="- step: start\n  tool: {kind: shell, command: sleep 5}\n",
    ),
    Code.MISPLACED: Lesson(
        why="The key belongs to a tool, and the step has none: nothing would happen.",
        bad="- step: end\n  command: ls\n",
        at="command",
        good="- step: end\n  tool: {kind: shell, command: ls}\n",
    ),
    Code.SCOPE: Lesson(
        why="Workload, inputs and secrets never change while an execution runs, and `iter` is there in "
        "loops only. What "
        "changes is `ctx`.",
        bad="- step: start\n  tool: {kind: noop}\n  set: {workload.count: 1}\n",
        at="workload.count",
        good="- step: start\n  tool: {kind: noop}\n  set: {ctx.count: 1}\n",
    ),
    Code.UNREDUCED: Lesson(
        why="Iterations that run at once would overwrite each other, and chance would decide which one "
        "stays. A reducer says "
        "how their values come together.",
        bad="- step: visit\n  loop: {in: [1, 2], iterator: n, spec: {mode: parallel}}\n"
        "  tool: {kind: noop, set: {ctx.seen: '{{ n }}'}}\n",
        at="ctx.seen",
        good="- step: visit\n  loop: {in: [1, 2], iterator: n, spec: {mode: parallel, reduce: {ctx.seen: "
        "append}}}\n"
        "  tool: {kind: noop, set: {ctx.seen: '{{ n }}'}}\n",
    ),
    Code.MISSPELT_KEY: Lesson(
        why="One letter away from a key that means something here, or its plural, or the same word with "
        "other capitals or "
        "hyphens: what stands under it would be passed over without a word, a whole task perhaps. Keys "
        "of your own may "
        "begin with `x-`. Versions that were registered before this was an error go on starting.",
        bad="- step: start\n  tools: {kind: http, url: https://example.com/}\n",
        at="tools",
        good="- step: start\n  tool: {kind: http, url: https://example.com/}\n  x-owner: ada\n",
    ),
    Code.NO_CLOCK: Lesson(
        why="`now()` is there where its value gets into the log: in the workload, `set`, arcs, the "
        "`input` of a step. A task, "
        "with its rules and its timeout, is rendered for each attempt, and a second one would see "
        "another instant than the first; "
        "so it has no `now()`, and would always fail. An `input` of the step hands the instant over. "
        "Filters compute with it: `to_datetime`, `strftime`, "
        "`timedelta`, `to_timestamp`.",
        bad="- step: start\n  tool: {kind: noop, input: {day: \"{{ now() | strftime('%F') }}\"}}\n",
        at="now()",
        good="- step: start\n  input: {at: '{{ now() }}'}\n"
        "  tool: {kind: noop, input: {day: \"{{ at | strftime('%F', tz='Europe/Berlin') }}\"}}\n",
    ),
    Code.UNKNOWN_KEY: Lesson(
        why="The key has no effect, and nothing else would tell. Keys of your own may begin with `x-`: "
        "nothing looks at them.",
        bad="- step: start\n  tool: {kind: noop}\n  remark: begins here\n",
        at="remark",
        good="- step: start\n  desc: begins here\n  tool: {kind: noop}\n",
    ),
    Code.IGNORED: Lesson(
        why="The key is known, and does nothing where it stands.",
        bad="- step: start\n  tool:\n    kind: noop\n    policy: {rules: [{else: {do: fail}}]}\n",
        at="policy",
        good="- step: start\n  tool:\n    kind: noop\n    spec: {policy: {rules: [{else: {do: fail}}]}}\n",
    ),
    Code.HEADER: Lesson(
        why="The header says which language this is; without it the newest is assumed, whatever that may "
        "be later.",
        bad="apiVersion: noetl.io/v2\nworkflow:\n- {step: start}\n",
        at="",
        good=HEAD + "workflow:\n- {step: start}\n",
    ),
    Code.IN_PLAIN_TEXT: Lesson(
        why="Playbooks are kept for ever, copied and shown; whoever reads one has the secret. Secrets "
        "belong into the store of "
        "credentials, and the playbook names them. What is found is never printed: `noetl validate` "
        "shows `*` in its place. "
        "Looked at are keys such as `password`, `token` or `api_key`, the header `authorization`, and "
        "passwords in addresses; "
        "templates and obvious placeholders are fine. An entry of the keychain that brings its own value "
        "is used, and told of where that "
        "value is plain text in the playbook, the workload or the payload; one with a secret beside its "
        "keys is not used.",
        bad="- step: start\n  tool:\n    kind: http\n    url: https://example.com/\n"
        "    headers: {authorization: Bearer 3f9a77c1d2}\n",
        at="Bearer",
        good=HEAD + "keychain: [{name: shop, kind: credential, credential: shop_token}]\nworkflow:\n- step: "
        "start\n  tool:\n"
        "    kind: http\n    url: https://example.com/\n"
        '    headers: {authorization: "Bearer {{ keychain.shop.token }}"}\n',
    ),
    Code.DEPRECATED: Lesson(
        why="The older spelling means the same and goes on to work; new readers and tools know the "
        "canonical one. "
        "`noetl migrate` rewrites a playbook, and keeps its comments.",
        bad="- step: start\n  tool: {kind: noop, with: {n: 1}}\n",
        at="with",
        good="- step: start\n  tool: {kind: noop, input: {n: 1}}\n",
    ),
}
