"""`noetl plan`, as somebody would use it who wants to know what a playbook will touch."""

from __future__ import annotations

import hashlib
import json
import os
import pty
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests import zygote

Cli = Callable[..., Any]

HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {{name: {name}, path: tests/{name}}}\n"
LOADING = """
keychain:
  api: {kind: secret, provider: env, path: API_TOKEN}
  file: {kind: secret, provider: file, path: token.txt}
  far: {kind: secret, provider: vault, path: kv/x}
workload: {base: "https://a.example", mode: full, cities: [oslo, rome], child: tests/child}
workflow:
  - step: start
    tool: {kind: http, url: "{{ base }}/list", headers: {authorization: "Bearer {{ keychain.api }}"}}
    next: {arcs: [{step: load, when: "{{ mode == 'full' }}"}, {step: end}]}
  - step: load
    loop: {in: "{{ cities }}", iterator: city, spec: {mode: parallel}}
    tool:
      - {name: get, kind: http, url: "{{ base }}/{{ city }}/{{ start.data.day }}"}
      - {name: keep, kind: postgres, auth: warehouse, params: {d: "{{ get.data }}"}, command: "INSERT INTO t VALUES (:d)"}
    next: call
  - step: call
    tool: {kind: playbook, path: "{{ child }}"}
    next: end
  - {step: end, tool: {kind: noop}}
"""


def write(folder: Path, name: str, body: str) -> str:
    file = folder / f"{name}.yaml"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(HEAD.format(name=Path(name).name) + body)
    return str(file)


@pytest.fixture
def loading() -> str:
    return write(Path.cwd(), "loading", LOADING)


def fingerprint(folder: Path) -> dict[str, str]:
    """Every file below `folder`, by its content."""
    files = sorted(file for file in folder.rglob("*") if file.is_file())
    return {str(file): hashlib.sha256(file.read_bytes()).hexdigest() for file in files}


def test_a_plan_tells_what_a_run_would_touch_and_need(cli: Cli, loading: str) -> None:
    ended = cli("plan", loading)
    assert (ended.code, ended.err) == (0, "")
    lines = [" ".join(line.split()) for line in ended.out.splitlines()]
    for expected in (
        "loading (tests/loading): what a run would do. Nothing was run.",
        'cities ["oslo", "rome"]',
        "1 start · entry · queue http",
        "→ load when {{ mode == 'full' }} (it holds)",
        'for each city in ["oslo", "rome"]: 2 items, parallel, 16 at a time',
        "get http GET https://a.example/{{ city }}/{{ start.data.day }}",
        "reads city, start.data.day",
        "http GET https://a.example/list start",
        "postgres SQL on warehouse: insert load.keep ×2",
        "http: start, load",
        "api keychain, secret of env API_TOKEN used by start missing (The provider env gives nothing: "
        "NOETL_SECRETS_ENV_PREFIX is not set on this worker)",
        "far keychain, secret of vault kv/x used by no task unknown (vault was not asked)",
        "warehouse credential used by load.keep missing (There is no credential 'warehouse'. "
        "Set it with `noetl credential set warehouse --type TYPE`)",
    ):
        assert expected in lines, expected
    assert not any("never reached" in line for line in lines)


REPEATING = """
workload: {base: "https://a.example", mode: full}
ctx: {day: mon}
workflow:
  - step: start
    spec: {policy: {admit: {rules: [{when: "{{ ctx.open }}", then: {allow: false}}], on_deny: pass}}}
    tool:
      - name: fetch
        kind: http
        url: "{{ base }}/{{ ctx.day }}"
        repeat: {next: {when: "{{ output.data.next }}", params: {page: 2}}, max: 7, each: [{name: keep, kind: http, method: POST, url: "{{ base }}/keep"}]}
      - {name: pages, kind: http, url: "{{ base }}/p", pagination: {type: link, stop_when: "{{ output.data.done }}"}}
      - {name: each, kind: http, url: "{{ base }}/{{ n }}", loop: {in: [1, 2], iterator: n}, input: {k: 1}, assert: {expects: {k: integer}, returns: [a]}}
      - {name: never, kind: http, url: "{{ base }}/never", spec: {after: "{{ mode == 'other' }}"}}
      - {name: tell, kind: http, url: "{{ base }}/tell", spec: {after: "{{ outcome.status == 'error' }}"}}
    next:
      spec: {mode: first}
      arcs:
        - {when: "{{ mode == 'full' }}", set: {ctx.seen: 1}}
        - [{step: end, when: "{{ fetch.x }}"}, {step: more, when: "{{ fetch.y }}", set: {ctx.a: 1}}]
  - {step: more, tool: {kind: noop}}
  - {step: end, tool: {kind: noop}}
"""


def test_a_plan_tells_how_often_tasks_are_called_and_when(cli: Cli) -> None:
    ended = cli("plan", write(Path.cwd(), "repeating", REPEATING))
    assert (ended.code, ended.err) == (0, "")
    lines = [" ".join(line.split()) for line in ended.out.splitlines()]
    for expected in (
        "day mon",
        "refused when {{ ctx.open }}; where it is refused it is passed over, and its arcs are asked",
        "fetch http GET https://a.example/mon",
        "again while {{ output.data.next }}: at most 7 calls, later ones with other params",
        "after every call of fetch",
        "again while there are more pages (by link) until {{ output.data.done }}: at most 100 calls, "
        "later ones with other url, params",
        "for each n in [1, 2]: 2 items, one after another in its worker",
        "expects k (integer)",
        "has to return a",
        "at the end of the step when {{ mode == 'other' }} (never, with this workload)",
        "at the end of the step when {{ outcome.status == 'error' }}",
        "sets ctx.seen when {{ mode == 'full' }} (it holds)",
        "→ end when {{ fetch.x }}",
        "and → more when {{ fetch.y }}, sets ctx.a",
        "http GET https://a.example/mon start.fetch ×≤7",
        "http POST https://a.example/keep start.keep ×≤7",
        "http GET https://a.example/{{ n }} start.each ×2",
    ):
        assert expected in lines, expected
    assert not any("http GET https://a.example/never start" in line for line in lines)


def test_an_entry_of_the_keychain_that_would_be_refused_is_reported(cli: Cli) -> None:
    body = """
keychain: {db: {kind: credential, credential: "{{ workload.nothing }}"}}
workload: {a: 1}
workflow: [{step: start, tool: {kind: noop}}]
"""
    file = write(Path.cwd(), "refused", body)
    assert (
        "would fail: keychain.db: `credential` comes out as null; it has to be a name."
        in cli("plan", file).out
    )
    found = json.loads(cli("plan", file, "--json").out)
    assert [one["step"] for one in found["errors"]] == [None]
    assert (found["secrets"][0]["exists"], found["secrets"][0]["note"]) == (
        None,
        "its entry would be refused",
    )


def test_a_payload_and_overrides_change_the_plan(cli: Cli, loading: str) -> None:
    ended = cli("plan", loading, "--payload", '{"mode": "none"}', "--set", "base=http://b")
    assert "GET http://b/list" in ended.out
    assert "(never, with this workload)" in ended.out
    assert ended.out.rstrip().endswith("never reached\n  load, call")


def test_an_override_that_is_misspelt_is_refused(cli: Cli, loading: str) -> None:
    ended = cli("plan", loading, "--set", "citys=[a]")
    assert "has no 'citys' to set, and no template reads it. Did you mean 'cities'?" in ended.err
    assert ended.code == 2


def test_nothing_is_made_where_there_is_no_home(cli: Cli, loading: str, home: Path, tmp_path: Path) -> None:
    before = fingerprint(tmp_path)
    assert cli("plan", loading).code == 0
    assert cli("plan", loading, "--json").code == 0
    assert not home.exists()
    assert fingerprint(tmp_path) == before


def test_what_the_home_has_is_found_and_left_as_it_is(
    cli: Cli, loading: str, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secrets = tmp_path / "secrets"
    secrets.mkdir()
    (secrets / "token.txt").write_text("tkn")
    monkeypatch.setenv("NOETL_SECRETS_DIR", str(secrets))
    monkeypatch.setenv("NOETL_SECRETS_ENV_PREFIX", "APP_")
    monkeypatch.setenv("APP_API_TOKEN", "hidden-value")
    child = write(tmp_path / "elsewhere", "child", "workflow: [{step: start, tool: {kind: noop}}]\n")
    assert cli("catalog", "register", child).code == 0
    data = '{"dsn": "postgresql://u:hidden-value@h/d"}'
    assert cli("credential", "set", "warehouse", "--type", "postgres", "--data", data).code == 0
    # Without the key nobody could open the credential.
    (home / "secret.key").unlink()
    before = fingerprint(home)
    found = json.loads(cli("plan", loading, "--json").out)
    assert {one["name"]: (one["exists"], one["note"]) for one in found["secrets"]} == {
        "api": (True, ""),
        "file": (True, ""),
        "far": (None, "vault was not asked"),
        "warehouse": (True, "of type postgres"),
    }
    assert [(one["path"], one["found"]) for one in found["playbooks"]] == [
        ("tests/child", "catalog version 1")
    ]
    assert "hidden-value" not in json.dumps(found)
    assert fingerprint(home) == before


def test_a_credential_for_other_playbooks_and_one_that_is_misspelt_are_missing(cli: Cli) -> None:
    body = """
workflow:
  - step: start
    tool:
      - {name: a, kind: postgres, auth: warehouse, command: select 1}
      - {name: b, kind: postgres, auth: warehuose, command: select 1}
"""
    file = write(Path.cwd(), "two", body)
    cli("credential", "set", "warehouse", "--type", "generic", "--data", '{"a": 1}', "--path", "other")
    found = json.loads(cli("plan", file, "--json").out)
    assert [(one["exists"], one["note"]) for one in found["secrets"]] == [
        (False, "Credential 'warehouse' is kept for path other, not for playbook 'tests/two'"),
        (False, "There is no credential 'warehuose'. Did you mean 'warehouse'?"),
    ]


def test_a_called_playbook_is_looked_for_as_a_run_would(cli: Cli) -> None:
    body = """
workflow:
  - step: start
    tool:
      - {name: a, kind: playbook, path: tests/child}
      - {name: b, kind: playbook, path: tests/chidl}
      - {name: c, kind: playbook, path: tests/broken}
      - {name: d, kind: playbook, path: tests/child, version: 7}
      - {name: e, kind: playbook, path: "{{ a.path }}"}
"""
    file = write(Path.cwd(), "calling", body)
    child = write(Path.cwd(), "below/child", "workflow: [{step: start, tool: {kind: noop}}]\n")
    broken = write(
        Path.cwd(), "below/broken", "workflow: [{step: start, tool: {kind: noop}, next: nowhere}]\n"
    )
    cli("catalog", "register", child)
    rows = json.loads(cli("plan", file, "--json").out)["playbooks"]
    assert [row["found"] for row in rows] == [f"file {child}", "", f"file {broken}", "", None]
    assert "Did you mean 'tests/child'?" in rows[1]["note"]
    assert "it cannot be run" in rows[2]["note"]
    assert "there is no step 'nowhere'" in rows[2]["note"]
    assert rows[3]["note"] == "Playbook 'tests/child' has no version 7; there are 1 to 1"
    assert rows[4]["note"] == "its path is known only then"


def test_variables_are_given_where_the_settings_let_templates_read_them(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NOETL_ENV_ALLOW", "TIER,UNSET")
    monkeypatch.setenv("TIER", "blue")
    monkeypatch.setenv("CLOSED", "x")
    monkeypatch.delenv("UNSET", raising=False)
    text = (
        'workload: {a: "{{ env.TIER }}/{{ env.UNSET }}/{{ env.CLOSED }}"}\nworkflow: [{step: start, '
        "tool: {kind: noop}}]\n"
    )
    found = json.loads(cli("plan", write(Path.cwd(), "env", text), "--json").out)
    assert found["workload"] == {"a": "blue//"}
    assert {one["name"]: one["given"] for one in found["environment"]} == {
        "CLOSED": False,
        "TIER": True,
        "UNSET": False,
    }


def test_a_plan_is_made_without_its_database_as_well(
    cli: Cli, loading: str, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home.mkdir()
    (home / "noetl.db").write_text("this is no database")
    ended = cli("plan", loading, "--json")
    found = json.loads(ended.out)
    assert ended.code == 0
    assert all(one["exists"] is None and "not looked up" in one["note"] for one in found["secrets"])
    assert found["playbooks"][0]["found"] is None
    assert (home / "noetl.db").read_text() == "this is no database"


BROKEN = """
workflow:
  - {step: start, tool: {kind: htpp}, next: end}
"""


def test_an_invalid_playbook_is_refused_with_the_problems_that_validate_tells(cli: Cli) -> None:
    file = write(Path.cwd(), "broken", BROKEN)
    checked, planned = cli("validate", file), cli("plan", file)
    assert planned.code == 2
    assert planned.out == ""
    for problem in checked.out.splitlines():
        assert problem in planned.err.splitlines()
    as_json = cli("plan", file, "--json")
    assert as_json.code == 2
    assert json.loads(as_json.out) == json.loads(cli("validate", file, "--format", "json").out)


def test_warnings_are_reported_beside_the_plan_and_refuse_it_under_strict(cli: Cli) -> None:
    file = write(
        Path.cwd(),
        "lost",
        "workflow: [{step: start, tool: {kind: noop}}, {step: lost, tool: {kind: noop}}]\n",
    )
    ended = cli("plan", file)
    assert ended.code == 0
    assert "no path leads to step 'lost'" in ended.err
    assert "never reached\n  lost" in ended.out
    assert [one["code"] for one in json.loads(cli("plan", file, "--json").out)["problems"]] == ["NOETL550"]
    assert cli("plan", file, "--strict").code == 2


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["nothing.yaml"], "There is no file 'nothing.yaml'."),
        (["sum.yaml", "--payload", "[1]"], "--payload must hold a mapping"),
        (["sum.yaml", "--set", "a"], "is not an assignment"),
        (["sum.yaml", "--jsn"], "'--json'"),
    ],
)
def test_wrong_input_is_one_sentence_and_exit_code_2(cli: Cli, argv: list[str], message: str) -> None:
    ended = cli("plan", *argv)
    assert ended.code == 2
    assert message in ended.err


def test_templates_that_would_fail_are_reported_and_the_rest_is_planned(cli: Cli) -> None:
    body = """
workload: {a: "{{ 'a' * 10**9 }}", b: "{{ ''.__class__ }}", c: 1}
workflow: [{step: start, tool: {kind: http, url: "http://h/{{ c }}/{{ 1 / 0 }}"}}]
"""
    file = write(Path.cwd(), "failing", body)
    found = json.loads(cli("plan", file, "--json").out)
    assert [(one["step"], one["message"].split("` ")[-1]) for one in found["errors"]] == [
        (None, "makes a text of more than 10000000 characters."),
        (None, "reaches for '__class__', which is outside of the sandbox."),
        ("start", "cannot be evaluated: division by zero."),
    ]
    assert cli("plan", file).out.count("would fail: ") == 3


def test_no_colours_are_written_to_what_is_no_terminal(cli: Cli, loading: str) -> None:
    assert "\x1b" not in cli("plan", loading).out


def test_a_terminal_gets_lines_that_fit(loading: str) -> None:
    leader, follower = pty.openpty()
    try:
        process = zygote.Popen(
            ["noetl", "plan", loading],
            stdout=follower,
            env={**os.environ, "COLUMNS": "60", "TERM": "xterm"},
        )
        os.close(follower)
        read = b""
        try:
            while block := os.read(leader, 4096):
                read += block
        except OSError:  # how Linux says that nobody writes any more
            pass
        assert process.wait() == 0
    finally:
        os.close(leader)
    text = read.decode()
    assert "\x1b[1msteps" in text
    plain = re.sub(r"\x1b\[[0-9;]*m", "", text).splitlines()
    assert max(map(len, plain)) <= 60
    assert "NOETL_SECRETS_ENV_PREFIX" in "".join(plain)


def test_a_plan_tells_which_iterations_a_step_does_not_wait_for(cli: Cli) -> None:
    body = """
workflow:
  - step: start
    loop: {in: [1, 2], iterator: n, spec: {sync: false}}
    tool: {kind: noop}
    next: some
  - step: some
    loop: {in: [1, 2], iterator: n, enough: {when: "{{ completed > 1 }}", rest: run}}
    tool: {kind: noop}
    next: tree
  - step: tree
    loop: {in: [1], iterator: n, grow: "{{ result.more }}", close: "{{ ctx.closed }}", enough: {when: "{{ failed > 1 }}"}}
    tool: {kind: noop}
"""
    file = write(Path.cwd(), "instances", body)
    lines = [" ".join(line.split()) for line in cli("plan", file).out.splitlines()]
    for expected in (
        "the step does not wait for them",
        "until {{ completed > 1 }}; the others run on",
        "for each n in [1]: as many as that has, sequential",
        "and for each of what {{ result.more }} brings",
        "open until {{ ctx.closed }}",
        "until {{ failed > 1 }}; the others are cancelled",
    ):
        assert expected in lines, expected
    found = json.loads(cli("plan", file, "--json").out)
    loops = {step["step"]: step["loop"] for step in found["steps"]}
    assert [loops[name]["sync"] for name in ("start", "some", "tree")] == [False, True, True]
    assert loops["some"]["enough"] == {"when": "{{ completed > 1 }}", "rest": "run"}
    assert (loops["tree"]["grow"], loops["tree"]["close"]) == ("{{ result.more }}", "{{ ctx.closed }}")


def test_what_was_not_decided_is_said_and_why(cli: Cli) -> None:
    ways = ", ".join(f'{{step: s{n}, when: "{{{{ ctx.a{n} }}}}"}}' for n in range(12))
    steps = "\n".join(f"  - {{step: s{n}, tool: {{kind: noop}}}}" for n in range(12))
    wide = f"workflow:\n  - step: start\n    next: {{spec: {{mode: inclusive}}, arcs: [{ways}]}}\n{steps}\n"
    file = write(Path.cwd(), "wide", wide)
    why = "the router of 'start' can choose in too many ways"
    assert cli("plan", file).out.splitlines()[-1] == f"not decided whether every run comes to an end: {why}"
    assert json.loads(cli("plan", file, "--json").out)["undecided"] == why
    narrow = write(Path.cwd(), "narrow", "workflow: [{step: start, tool: {kind: noop}}]\n")
    assert "not decided" not in cli("plan", narrow).out
    assert json.loads(cli("plan", narrow, "--json").out)["undecided"] is None
