"""The JSON Schema that editors use is that of this program, and has nothing against playbooks that run."""

from __future__ import annotations

import json
import re
from pathlib import Path
from runpy import run_path

import jsonschema
import pytest

from noetl.dsl import compile_playbook, json_schema
from noetl.dsl.source import read
from noetl.tools.registry import kinds
from tests.playbooks.corpus import cases

from .pages import ROOT

KINDS = kinds()
SCHEMA = json_schema(KINDS)
HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: test, path: corpus/test}\n"


def complaints(text: str) -> list[str]:
    checker = jsonschema.Draft202012Validator(SCHEMA)
    return [f"{error.json_path}: {error.message:.200}" for error in checker.iter_errors(read(text, "p").data)]


def test_it_is_a_schema() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)


def test_the_file_is_fresh() -> None:
    made = run_path(str(ROOT / "docs/generate.py"))["schema"]()
    assert (ROOT / "docs/playbook.schema.json").read_text(encoding="utf-8") == made, "run `make docs`"


@pytest.mark.parametrize("file", sorted((ROOT / "examples").glob("*.yaml")), ids=lambda file: file.name)
def test_every_example_validates(file: Path) -> None:
    assert complaints(file.read_text(encoding="utf-8")) == []


def test_it_accepts_what_compiles(subtests: pytest.Subtests) -> None:
    for case in cases():
        with subtests.test(case.name):
            if compile_playbook(HEAD + case.body, file="p", kinds=KINDS).net is not None:
                assert complaints(HEAD + case.body) == []


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
        ("workflow: [{step: 3}]", "$.workflow"),
        ("workflow: [{step: a, tool: {kind: noop, spec: {timeout: []}}}]", "$.workflow"),
        ("workflow: [{step: a, loop: {in: []}, tool: {kind: noop}}]", "$.workflow"),
        ("kind: Playbok\nworkflow: []", "$.kind"),
    ],
)
def test_it_refuses_values_of_the_wrong_type(text: str, where: str) -> None:
    head = "apiVersion: noetl.io/v2\n" + ("" if text.startswith("kind") else "kind: Playbook\n")
    (complaint,) = complaints(head + text)
    assert complaint.startswith(where)
