"""What a playbook names and that is not there is said before anything has run."""

from __future__ import annotations

import json
from pathlib import Path

from .conftest import Cli

TEXT = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: load, path: tests/load}
keychain: {shop: {credential: shop_db}}
workflow:
  - step: start
    tool: {kind: shell, command: "touch began"}
    next: load
  - step: load
    tool: {kind: shell, command: test -n "$WORD", env: {WORD: "{{ keychain.shop.word }}"}}
"""


def test_nothing_has_run_where_something_is_missing_and_all_of_it_once_it_is_there(cli: Cli) -> None:
    Path("load.yaml").write_text(TEXT)
    for options in ((), ("--json",)):
        ended = cli("run", "load.yaml", *options)
        assert (ended.code, ended.out) == (2, "")
        assert ended.err.splitlines()[-2:] == [
            "load.yaml:4:31, step 'load': There is no credential 'shop_db'. Set it with "
            "`noetl credential set shop_db --type TYPE`.",
            "error: Nothing was started: 1 thing is missing that the playbook names. What comes only while it "
            "runs is declared under `provides`.",
        ]
    assert (Path("began").exists(), json.loads(cli("execution", "list", "--json").out)) == (False, [])

    cli("credential", "set", "shop_db", "--type", "generic", "--data", '{"word": "secret-word"}')
    assert cli("run", "load.yaml", "-q").code == 0


def test_a_secret_of_the_credentials_that_is_not_there_is_said_before_anything_runs(cli: Cli) -> None:
    head = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: find, path: tests/find}\nworkflow:\n"
    began = "  - {step: start, tool: {kind: shell, command: touch began}, next: find}\n"
    Path("find.yaml").write_text(head + began + "  - {step: find, tool: {kind: secrets, path: shop_key}}\n")
    ended = cli("run", "find.yaml")
    assert (ended.code, Path("began").exists()) == (2, False)
    assert "step 'find': There is no credential 'shop_key'" in ended.err
    (row,) = json.loads(cli("plan", "find.yaml", "--json").out)["secrets"]
    assert (row["name"], row["exists"], row["used_by"]) == ("shop_key", False, ["find"])
    cli("credential", "set", "shop_key", "--type", "generic", "--data", '{"word": "secret-word"}')
    assert cli("run", "find.yaml").code == 0
    # Elsewhere it is not looked for ahead, as of the keychain.
    Path("find.yaml").write_text(
        head + began + "  - {step: find, tool: {kind: secrets, provider: env, path: NONE}}\n"
    )
    assert cli("run", "find.yaml").code == 1


def test_what_it_provides_while_it_runs_is_not_asked_for(cli: Cli) -> None:
    Path("load.yaml").write_text(TEXT.replace("workflow:", "provides: {credentials: [shop_db]}\nworkflow:"))
    (row,) = json.loads(cli("plan", "load.yaml", "--json").out)["secrets"]
    assert (row["exists"], row["note"]) == (None, "it comes while a run goes on, says `provides`")
    ended = cli("run", "load.yaml")
    assert (ended.code, "There is no credential 'shop_db'" in ended.err) == (1, True)
    assert Path("began").exists()


def test_a_retry_is_refused_until_what_is_missing_is_there(cli: Cli) -> None:
    Path("load.yaml").write_text(TEXT.replace("workflow:", "provides: {credentials: [shop_db]}\nworkflow:"))
    cli("run", "load.yaml")
    (row,) = json.loads(cli("execution", "list", "--json").out)
    Path("load.yaml").write_text(TEXT)
    again = ("execution", "retry", row["execution_id"], "--playbook", "load.yaml", "--yes")
    ended = cli(*again)
    assert (ended.code, "load.yaml:4:31, step 'load': There is no credential" in ended.err) == (2, True)
    cli("credential", "set", "shop_db", "--type", "generic", "--data", '{"word": "secret-word"}')
    assert cli(*again).code == 0


def test_a_retry_finds_the_playbooks_beside_its_file(cli: Cli) -> None:
    head = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {{name: {0}, path: tests/{0}}}\n"
    child = head.format("child") + "workflow: [{step: start, tool: {kind: noop, input: {n: 1}}}]\n"
    Path("child.yaml").write_text(child)
    text = (
        head.format("caller")
        + "workflow:\n  - {step: start, tool: {kind: shell, command: test -e ready}, next: sub}\n"
        + "  - {step: sub, tool: {kind: playbook, path: tests/child}}\n"
    )
    Path("caller.yaml").write_text(text)
    assert cli("run", "caller.yaml").code == 1
    (row,) = json.loads(cli("execution", "list", "--json").out)
    Path("ready").touch()
    ended = cli("execution", "retry", row["execution_id"], "--playbook", "caller.yaml", "-q")
    assert (ended.code, json.loads(ended.out)) == (0, {"n": 1})
