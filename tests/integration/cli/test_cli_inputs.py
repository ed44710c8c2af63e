"""Declared inputs on the command line: text stays what its type makes of it, faults are lines, and
secrets are nowhere to be read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests import zygote

PARCEL = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: parcel, path: shop/parcel}
inputs:
  zip: {type: string, pattern: "^[0-9]{5}$", required: true, description: postal code}
  count: {type: integer, max: 10, default: 1}
  note: string
  tags: {type: list, items: string}
  to: {properties: {house: string, floor: integer}}
  token: {type: string, secret: true}
workflow:
  - step: start
    tool:
      kind: python
      input: {zip: "{{ zip }}", count: "{{ count }}", note: "{{ note }}", tags: "{{ tags }}", to: "{{ to }}", token: "{{ token }}"}
      code: |
        print("token", token)
        result = {"zip": zip, "count": count, "note": note, "tags": tags, "to": to, "letters": len(token or "")}
"""
EXACT = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: exact, path: shop/exact}
workload: {n: 1, half: 1}
workflow: [{step: start, tool: {kind: noop, input: {n: "{{ n }}", half: "{{ half }}"}}}]
"""
CANARY = "Kanari-of-the-command"


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "parcel.yaml"
    path.write_text(PARCEL)
    return str(path)


def test_text_stays_what_its_declared_type_makes_of_it(cli: Any, file: str) -> None:
    given = ("zip=01234", "count=007", "note=true", "tags=[a, b]", "to.house=1e3", "to.floor=2")
    ended = cli("run", file, *(f"--set={one}" for one in given))
    assert json.loads(ended.out) == {
        "zip": "01234",
        "count": 7,
        "note": "true",
        "tags": ["a", "b"],
        "to": {"house": "1e3", "floor": 2},
        "letters": 0,
    }


def test_a_number_that_no_float_holds_keeps_its_digits(cli: Any, tmp_path: Path) -> None:
    digits = "0.1234567890123456789"
    (tmp_path / "exact.yaml").write_text(EXACT)

    ended = cli("run", str(tmp_path / "exact.yaml"), f"--set=n={digits}", "--set=half=0.5")

    assert json.loads(ended.out, parse_float=str) == {"n": digits, "half": "0.5"}


def test_every_fault_is_a_line_and_the_code_is_2(cli: Any, file: str) -> None:
    ended = cli("run", file, "--set=count=x", "--set=zpi=1", "--payload", '{"note": 5}')
    assert ended.code == 2
    assert ended.err.splitlines() == [
        "zip: is required, and was not given",
        'count: must be a whole number, and is "x"',
        "note: must be text, and is 5; write it in quotes",
        "zpi: is not declared. Did you mean 'zip'?",
        "error: Nothing was started: 4 inputs cannot be used.",
    ]
    assert cli("execution", "list", "--json").out.strip() == "[]"


def test_a_plan_shows_what_is_given_and_what_is_awaited_and_no_secret(cli: Any, file: str) -> None:
    ended = cli("plan", file, "--set=token=" + CANARY, "--set=count=3")
    assert ended.code == 0
    assert "zip    <string> (reads payload.zip)" in ended.out
    assert "count  3" in ended.out
    assert "token  <workload.token>" in ended.out
    assert CANARY not in ended.out + ended.err
    assert cli("plan", file, "--set=count=x").code == 2


def test_the_catalog_shows_what_a_playbook_takes(cli: Any, file: str) -> None:
    cli("catalog", "register", file)
    shown = cli("catalog", "show", "shop/parcel", "--inputs").out.splitlines()
    assert shown[0].split("\t") == ["name", "type", "required", "secret", "default", "description"]
    assert shown[1].split("\t") == ["zip", "string", "yes", "", "", "postal code"]
    assert shown[2].split("\t")[:5] == ["count", "integer", "", "", "1"]
    assert cli("catalog", "show", "shop/parcel").out == PARCEL
    (zip, *_, token) = json.loads(cli("catalog", "show", "shop/parcel", "--json").out)["inputs"]
    assert (zip["name"], zip["required"], token["secret"]) == ("zip", True, True)


def test_a_program_that_is_given_a_secret_leaves_it_nowhere(file: str, tmp_path: Path) -> None:
    home = tmp_path / "home"
    argv = ["noetl", "run", file, "--json", "-v", "--set", f"token={CANARY}", "--set", "zip=01234"]
    done = zygote.run(argv, capture_output=True, env={"NOETL_HOME": str(home), "PATH": "/usr/bin:/bin"})
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["result"]["letters"] == len(CANARY)
    canary = CANARY.encode()
    assert canary not in done.stdout + done.stderr
    assert not [path for path in home.rglob("*") if path.is_file() and canary in path.read_bytes()]
