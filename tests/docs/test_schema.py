"""The JSON Schema that editors use is that of this program, and has nothing against playbooks that
run."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path as File
from runpy import run_path

import jsonschema
import pytest

from noetl.dsl import Code, compile_playbook, json_schema, schema_of_tests
from noetl.dsl.explain.lessons import lessons, whole
from noetl.dsl.problems import Path, format_path
from noetl.dsl.read.source import read
from noetl.net.model import KindInfo
from noetl.tools.kit.registry import kinds
from tests.playbooks.corpus import cases
from tests.unit.dsl.test_problems import SAMPLES

from .pages import ROOT

KINDS = kinds()
#: Without their tests.
EXAMPLES = sorted(set((ROOT / "examples").glob("*.yaml")) - set((ROOT / "examples").glob("*.test.yaml")))
SCHEMA = json_schema(KINDS)
CHECKER = jsonschema.Draft202012Validator(SCHEMA)
HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: test, path: corpus/test}\n"


def complaints(text: str) -> list[str]:
    return [f"{error.json_path}: {error.message:.200}" for error in CHECKER.iter_errors(read(text, "p").data)]


def test_it_is_a_schema() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)


def test_the_file_is_fresh() -> None:
    made = run_path(str(ROOT / "docs/generate.py"))["schema"]()
    assert (ROOT / "docs/playbook.schema.json").read_text(encoding="utf-8") == made, "run `make docs`"


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: file.name)
def test_every_example_validates(file: File) -> None:
    assert complaints(file.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize("file", sorted((ROOT / "examples").glob("*.test.yaml")), ids=lambda file: file.name)
def test_files_of_tests_have_a_schema_of_their_own(file: File) -> None:
    checker = jsonschema.Draft202012Validator(schema_of_tests())
    text = file.read_text(encoding="utf-8")
    assert list(checker.iter_errors(read(text, "p").data)) == []
    for right, wrong in (
        ("expect:", "expct:"),
        ("result:", "reslt:"),
        ("calls:", "call:"),
        ("name:", "nmae:"),
    ):
        assert list(checker.iter_errors(read(text.replace(right, wrong), "p").data)), wrong


def test_it_accepts_every_playbook_of_the_corpus_that_is_right() -> None:
    """Unknown keys are warnings of the compiler, and refused here."""
    wrong = []
    for case in cases():
        found = compile_playbook(HEAD + case.body, file="p", kinds=KINDS)
        if found.net is not None and Code.UNKNOWN_KEY not in {problem.code for problem in found.problems}:
            wrong += [f"{case.name}: {one}" for one in complaints(HEAD + case.body)]
    assert "\n".join(wrong) == ""


#: What is wrong with the structure, whatever the names in it mean.
STRUCTURAL = frozenset({Code.TYPE, Code.UNKNOWN_KEY, Code.MISSPELT_KEY, Code.UNKNOWN_KIND})


def wrong_documents() -> Iterator[tuple[str, str]]:
    """The name and the text of every wrong document: of the corpus, of the unit tests, of the
    lessons."""
    yield from ((case.name, HEAD + case.body) for case in cases())
    yield from ((str(code), HEAD + text) for code, text, *_ in SAMPLES if isinstance(text, str))
    examples = ((str(code), whole(lesson.bad)) for code, lesson in lessons().items())
    yield from ((name, text) for name, text in examples if isinstance(text, str))


def places(text: str) -> set[Path]:
    """Where the schema finds something, and the mapping around each: what is unknown is said of its
    mapping."""
    return {tuple(error.absolute_path) for error in CHECKER.iter_errors(read(text, "p").data)}


def test_structural_faults_of_every_wrong_document_are_found_where_they_are() -> None:
    missed, looked_at = [], 0
    for name, text in wrong_documents():
        found = compile_playbook(text, file="p", kinds=KINDS)
        faults = [problem for problem in found.problems if problem.code in STRUCTURAL]
        if found.source.data is None or not faults:
            continue
        said = {format_path(place) for place in places(text)}
        looked_at += len(faults)
        for problem in faults:
            around = problem.path.rpartition(".")[0]
            if problem.path not in said and around not in said:
                missed.append(f"{name}: {problem} at {problem.path}, not {sorted(said)}")
    assert "\n".join(missed) == ""
    assert looked_at > 40


@pytest.mark.parametrize(
    ("step", "where", "says"),
    [
        ("tools: {kind: noop}", "$.workflow[0]", "'tools'"),
        ("tool: {kind: bash, command: ls}", "$.workflow[0].tool.kind", "'bash' is not one of"),
        ("tool: {kind: http}", "$.workflow[0].tool", "'url' is a required property"),
        ("tool: {kind: http, url: u, timeout: soon}", "$.workflow[0].tool.timeout", "'soon'"),
        ("tool: {kind: noop, spec: {timeout: soon}}", "$.workflow[0].tool.spec.timeout", "'soon'"),
        ("tool: [{a: {kind: http, url: u, metod: x}}]", "$.workflow[0].tool[0].a", "'metod'"),
        ("next: {arcs: [{step: a, whn: x}]}", "$.workflow[0].next.arcs[0]", "'whn'"),
        ("next: [{step: a, then: 5}]", "$.workflow[0].next[0].then", "5 is not of type"),
        (
            "tool: {kind: noop, spec: {policy: {rules: [{else: {do: rety}}]}}}",
            "$.workflow[0].tool.spec.policy.rules[0].else.do",
            "'rety'",
        ),
    ],
)
def test_a_fault_is_reported_at_its_place_first_of_all(step: str, where: str, says: str) -> None:
    text = f"{HEAD}workflow:\n- step: a\n  {step}\n"
    best = jsonschema.exceptions.best_match(CHECKER.iter_errors(read(text, "p").data))
    assert best is not None
    assert says in best.message
    assert best.json_path == where


def test_keys_of_ones_own_templates_and_tasks_of_the_workbook_that_lack_something_are_accepted() -> None:
    text = (
        "x-team: harbour\nworkbook: {ask: {kind: http, x-note: 1}}\nworkflow:\n- step: a\n  x-owner: ada\n"
        "  tool: {kind: http, x-a: 1, timeout: '{{ n }}', spec: {url: u, x-b: 1, timeout: 5m}}\n"
    )
    assert complaints(HEAD + text) == []


def test_kinds_of_plug_ins_are_known_by_their_keys() -> None:
    weigh = KindInfo(
        kind="weigh",
        queue="weigh",
        schema={"properties": {"crate": {"type": "integer"}}, "additionalProperties": False},
    )
    checker = jsonschema.Draft202012Validator(json_schema({**KINDS, "weigh": weigh}))
    text = f"{HEAD}workflow:\n- {{step: a, tool: {{kind: weigh, crate: %s}}}}\n"
    assert checker.is_valid(read(text % "3", "p").data)
    assert not checker.is_valid(read(text % "heavy", "p").data)
    assert not checker.is_valid(read(text % "3, crat: 4", "p").data)


def test_the_pattern_for_editors_finds_every_part_of_a_problem() -> None:
    blocks = (ROOT / "docs/editors.md").read_text(encoding="utf-8").split("```json\n")[1:]
    pattern = json.loads(blocks[1].split("```")[0])["tasks"][0]["problemMatcher"]["pattern"]
    problem = compile_playbook(
        "workflow: [{step: a, tool: {kind: nop}}]", file="a/b.yaml", kinds=KINDS
    ).errors[0]
    found = re.fullmatch(pattern["regexp"], str(problem))
    assert found is not None
    parts = {name: found[number] for name, number in pattern.items() if name != "regexp"}
    assert (parts["file"], parts["severity"], parts["code"]) == ("a/b.yaml", "error", problem.code)
    assert (int(parts["line"]), int(parts["column"])) == (problem.line, problem.column)
    assert parts["message"].startswith(problem.message)


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("workflow: {}", "$.workflow"),
        ("workflow: [{step: 3}]", "$.workflow[0].step"),
        ("workflow: [{step: a, tool: {kind: noop, spec: {timeout: []}}}]", "$.workflow[0].tool.spec.timeout"),
        ("workflow: [{step: a, loop: {in: []}, tool: {kind: noop}}]", "$.workflow[0].loop"),
        ("kind: Playbok\nworkflow: []", "$.kind"),
    ],
)
def test_it_refuses_values_of_the_wrong_type(text: str, where: str) -> None:
    head = "apiVersion: noetl.io/v2\n" + ("" if text.startswith("kind") else "kind: Playbook\n")
    (complaint,) = complaints(head + text)
    assert complaint.startswith(f"{where}:")
