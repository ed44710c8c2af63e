"""1xx: the text of a playbook, before it means anything."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from noetl.dsl.explain.lessons.lesson import HEAD, Lesson
from noetl.dsl.problems import Code

_START: Final = "- step: start\n"

LESSONS: Final[Mapping[Code, Lesson]] = {
    Code.SYNTAX: Lesson(
        why="Nothing of the document can be read, so this is the only problem that is found. Often a "
        "bracket is not closed, "
        "or a text with `: ` in it stands without quotes; the place is where reading stopped.",
        bad="- step: start\n  desc: first: read\n",
        at=": read",
        good='- step: start\n  desc: "first: read"\n',
    ),
    Code.ENCODING: Lesson(
        why="In another encoding the same bytes are other characters. A byte order mark of UTF-8 is "
        "welcome, UTF-16 is not.",
        bad=b"workflow:\n- {step: start, desc: caf\xe9}\n",
        at="\ufffd",
        good=_START + "  desc: café\n",
    ),
    Code.CHARACTER: Lesson(
        why="Such a character is invisible in editors, and tools and databases cut texts off at a NUL.",
        bad="- step: start\n  desc: a\x00b\n",
        at="\x00",
        good=_START + "  desc: a b\n",
    ),
    Code.TOO_LARGE: Lesson(
        why="A playbook is kept with every version of it and read by whoever compiles it. Data belongs "
        "into the payload, or "
        "into a step that reads it; much logic into playbooks of its own, called with `kind: playbook`.",
        bad=HEAD + "workload:\n  rows: [" + "1234567, " * 30_000 + "]\n",
        at="",
        good=HEAD
        + "workload: {rows: []}   # handed over with --payload rows.json\nworkflow:\n- {step: start}\n",
    ),
    Code.TOO_DEEP: Lesson(
        why="Readers that follow brackets by recursion die of them; nobody writes so many by hand.",
        bad=HEAD + "workload:\n  nested: " + "[" * 62 + "[deep]" + "]" * 62 + "\n",
        at="[deep]",
        good=HEAD + "workload:\n  nested: [[1, 2], [3, 4]]\nworkflow:\n- {step: start}\n",
    ),
    Code.TOO_MANY_NODES: Lesson(
        why="Aliases count each time they are used: a few lines of them may stand for more values than "
        "memory holds.",
        bad=f"{HEAD}workload:\n  a: &a {[*range(1_000)]}\n  b: [{'*a, ' * 24}*a]\n",
        at="975,",
        good=HEAD + "workload:\n  a: &a [1, 2, 3]\n  b: [*a, *a]\nworkflow:\n- {step: start}\n",
    ),
    Code.ALIAS: Lesson(
        why="`*` begins an alias, which stands for what `&` has named before it. A text that begins with "
        "`*` needs quotes.",
        bad="- step: start\n  tool: {kind: shell, command: *list}\n",
        at="*list",
        good="- step: start\n  tool: {kind: shell, command: 'ls *.csv'}\n",
    ),
    Code.DUPLICATE_KEY: Lesson(
        why="Other readers let the last one win, and the first one is lost without a word.",
        bad="- step: start\n  desc: one\n  desc: two\n",
        at="desc: two",
        good=_START + "  desc: one and two\n",
    ),
    Code.KEY_TYPE: Lesson(
        why="Keys are names. A template without quotes is the usual cause: YAML reads `{{ x }}` as a "
        "mapping in a mapping.",
        bad="- step: start\n  tool: {kind: noop, input: {n: {{ execution_id }}}}\n",
        at="{ execution_id",
        good='- step: start\n  tool: {kind: noop, input: {n: "{{ execution_id }}"}}\n',
    ),
    Code.TAG: Lesson(
        why="Tags make objects of programming languages out of texts. Data is what JSON has, and text is "
        "text.",
        bad="- step: start\n  tool: {kind: noop, input: {n: !!set {a, b}}}\n",
        at="!!set",
        good="- step: start\n  tool: {kind: noop, input: {n: [a, b]}}\n",
    ),
    Code.NUMBER: Lesson(
        why="`.nan` and `.inf` have no form in JSON, so they cannot be recorded or handed to a tool.",
        bad="- step: start\n  tool: {kind: noop, input: {limit: .inf}}\n",
        at=".inf",
        good="- step: start\n  tool: {kind: noop, input: {limit: null}}\n",
    ),
    Code.ROOT: Lesson(
        why="One file holds one playbook, and a playbook is a mapping. An empty file, a list and a "
        "second document (`---`) "
        "are none.",
        bad=HEAD + "workflow:\n- {step: start}\n---\nworkflow: []\n",
        at="---",
        good=HEAD + "workflow:\n- {step: start}\n",
    ),
    Code.MERGE: Lesson(
        why="`<<` takes the keys of another mapping over; of anything else there are none to take.",
        bad="- step: start\n  tool:\n    kind: noop\n    input:\n      <<: defaults\n",
        at="defaults",
        good=HEAD + "workload: &defaults {limit: 10}\nworkflow:\n- step: start\n  tool:\n    kind: noop\n    "
        "input:\n      <<: *defaults\n",
    ),
    Code.FILE: Lesson(
        why="A task that names a file which is not there fails when it is called. The same is said of a "
        "playbook that cannot "
        "be read. Names of files begin at the playbook's directory, then at that in which the command "
        "was started, then at NOETL_FILE_ROOTS.",
        bad="- step: start\n  tool:\n    kind: python\n    script: jobs/missing.py\n",
        at="jobs/missing.py",
        good="- step: start\n  tool:\n    kind: python\n    code: result = 1\n",
    ),
    Code.YAML_1_1: Lesson(
        why="Older YAML reads `yes`, `no`, `on` and `off` as booleans; YAML 1.2 as text, and a text that "
        "is not empty is true.",
        bad="- step: start\n  tool: {kind: noop, input: {verbose: off}}\n",
        at="off",
        good="- step: start\n  tool: {kind: noop, input: {verbose: false}}\n",
    ),
}
