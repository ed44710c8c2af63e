"""Bad documents: each is answered with problems at their place, with little work, by a process that
lives on.

Not here, because what it concerns does not exist yet: a playbook that calls itself (`kind:
playbook`).
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from noetl.dsl import Compiled, compile_playbook
from noetl.tools.kit.registry import kinds
from tests import zygote
from tests.effort import calls

HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: x, path: x}\n"
HELLO = HEAD + "workflow:\n- {step: start, tool: {kind: noop}}\n"
BOMB = 'a: &a ["x","x","x","x","x","x","x","x","x"]\n' + "".join(
    f"{b}: &{b} [{','.join([f'*{a}'] * 9)}]\n" for a, b in zip("abcdefgh", "bcdefghi", strict=True)
)
#: Calls of functions that an answer may take: a document of 3,000 items is that much.
MOST_CALLS = 100_000
DEEP = "workload: " + "[" * 2_000 + "]" * 2_000 + "\n"
STEPS = "workflow:\n" + "".join(f"- {{step: s{n}, tool: {{kind: noop}}}}\n" for n in range(10_000))


def step(text: str) -> str:
    return HEAD + "workflow:\n" + text


#: What is wrong → (document, line, a word of the answer).
DOCUMENTS: dict[str, tuple[str | bytes, int | None, str]] = {
    "01 alias bomb": (HELLO + BOMB, None, "expands"),
    "02 recursive alias": (HELLO + "a: &a [*a]\n", 6, "inside of what it names"),
    "03 2,000 brackets": (HELLO + DEEP, 6, "64 levels"),
    "03 100,000 brackets": (HELLO + "a: " + "[" * 100_000, 6, "64 levels"),
    "04 200,000 items": (HELLO + "a: [" + "1000," * 200_000 + "]", 1, "262,144"),
    "05 python tag": (HELLO + "a: !!python/object/apply:os.system [id]\n", 6, "tag"),
    "05 binary": (HELLO + "a: !!binary aGk=\n", 6, "!!binary"),
    "05 set": (HELLO + "a: !!set {a, b}\n", 6, "!!set"),
    "06 duplicate keys": (HELLO + "workload: {}\nworkload: {}\n", 7, "line 6"),
    "07 nan": (HELLO + "workload: {x: .nan}\n", 6, ".nan"),
    "07 infinity": (HELLO + "workload: {x: -.inf}\n", 6, "-.inf"),
    "07 5,000 digits": (HELLO + "workload: {x: " + "9" * 5_000 + "}\n", 6, "digits"),
    "08 list as key": (HELLO + "workload: {[1]: x}\n", 6, "key"),
    "08 null as key": (HELLO + "workload: {~: x}\n", 6, "key"),
    "08 boolean as key": (HELLO + "workload: {true: x}\n", 6, "key"),
    "08 NUL": (HELLO + "workload: {x: a\0b}\n", 6, "U+0000"),
    "08 lone surrogate": (HELLO.encode() + b"workload: {x: \xed\xa0\x80}\n", 6, "UTF-8"),
    "09 two documents": (HELLO + "---\n" + HELLO, 6, "document"),
    "09 empty": ("", 1, "empty"),
    "09 null": ("null\n", 1, "single value"),
    "09 a list": ("- a\n", 1, "a list"),
    "09 a scalar": ("text\n", 1, "single value"),
    "10 UTF-16": (HELLO.encode("utf-16"), 1, "UTF-16"),
    "10 invalid UTF-8": (HELLO.encode() + b"a: \xff\xfe\n", 6, "0xFF"),
    "11 unknown step in an arc": (step("- {step: start, next: edn}\n- {step: end}\n"), 5, "'end'"),
    "11 duplicate steps": (step("- {step: a, next: b}\n- {step: b, next: a}\n- {step: b, tool: {kind: "
                                "noop}}\n"), 7, "'b'"),
    "11 loop without iterator": (step("- {step: a, loop: {in: [1]}, tool: {kind: "
                                      "noop}}\n"), 5, "iterator"),
    "11 unknown kind": (step("- {step: a, tool: {kind: pyhton}}\n"), 5, "'python'"),
    "12 10,000 steps": (HEAD + STEPS, None, ""),
    "12 a path as name": (step("- {step: ../../x, tool: {kind: noop}}\n"), 5, "name"),
    "12 a line break in a name": (step('- {step: "a\\nb", tool: {kind: noop}}\n'), 5, "name"),
    "12 a name of 10 kB": (step(f"- {{step: {'n' * 10_240}, tool: {{kind: noop}}}}\n"), 5, "128"),
    "17 a template of 5,000 parentheses": (
        step("- {step: a, tool: {kind: noop, input: {x: '{{ " + "(" * 5_000 + "1" + ")" * 5_000 + " }}'}}}\n"), 5, "nested"
    ),
    "18 a regular expression": (
        step("- {step: a, tool: {kind: noop, input: {x: \"{{ 'aaaa!' | regex_search('(a+)+$') "
             "}}\"}}}\n"), 5, "regex_search"
    ),
}  # fmt: skip


def checked(text: str | bytes) -> Compiled:
    return compile_playbook(text, file="bad.yaml", kinds=kinds())


@pytest.mark.parametrize("name", DOCUMENTS)
def test_a_bad_document_is_refused_at_its_place_with_little_work(name: str) -> None:
    text, line, word = DOCUMENTS[name]
    # What is imported and built when it is first needed is no work of a document.
    compiled = checked(text)
    assert calls(lambda: checked(text)) < MOST_CALLS

    assert compiled.net is None
    assert line in {None, *(problem.line for problem in compiled.errors)}
    told = [
        f"{problem.message} {problem.hint}" for problem in compiled.errors if line in (None, problem.line)
    ]
    assert any(word in one for one in told), told


@pytest.mark.parametrize("start", ["[", "1000,"], ids=["levels", "items"])
def test_what_is_too_deep_or_too_long_is_not_read_to_its_end(start: str) -> None:
    long, longer = (HELLO + "a: [" + start * length for length in (100_000, 200_000))
    checked(long)
    assert calls(lambda: checked(long)) == calls(lambda: checked(longer))


def test_too_many_steps_within_the_size_are_refused_by_their_number() -> None:
    text = HEAD + "workflow:\n" + "".join(f"- {{step: s{n}}}\n" for n in range(1_001))
    compiled = checked(text)
    assert any("1,000" in problem.message for problem in compiled.errors), compiled.errors[:2]


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("- {step: a, tool: {kind: noop}, next: a}\n", "NOETL551"),
        ("- {step: a, tool: {kind: noop}, next: b}\n- {step: b, next: a}\n", "NOETL552"),
    ],
    ids=["self loop", "cycle without exit"],
)
def test_a_cycle_that_never_ends_is_a_warning_and_an_error_under_strict(text: str, code: str) -> None:
    fine = compile_playbook(step(text), file="x.yaml", kinds=kinds())
    assert fine.net is not None
    assert code in {problem.code for problem in fine.warnings}
    assert compile_playbook(step(text), file="x.yaml", kinds=kinds(), strict=True).net is None


@pytest.mark.parametrize(
    "text", ["\ufeff" + HELLO, ("\ufeff" + HELLO).encode(), HELLO.replace("start", "🚀 naïve")]
)
def test_a_byte_order_mark_and_emoji_are_welcome(text: str | bytes) -> None:
    assert compile_playbook(text, file="x.yaml", kinds=kinds()).errors == ()


def test_one_process_reads_all_of_them_and_lives(tmp_path: Path) -> None:
    files = []
    for number, (text, _, _) in enumerate(DOCUMENTS.values()):
        files.append(tmp_path / f"{number:02}.yaml")
        files[-1].write_bytes(text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass"))
    (tmp_path / "good.yaml").write_text(HELLO)
    argv = [*map(str, files), str(tmp_path / "good.yaml"), "--format", "json"]
    ended = zygote.run(["noetl", "validate", *argv], capture_output=True, text=True)

    assert ended.returncode == 2, ended.stderr
    assert "Traceback" not in ended.stderr
    answer = json.loads(ended.stdout)
    wrong = {problem["file"] for problem in answer["problems"] if problem["severity"] == "error"}
    assert wrong == set(map(str, files))
