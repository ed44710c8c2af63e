"""`noetl execution export` and `import`, from where people stand."""

from __future__ import annotations

import gzip
import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from .conftest import Cli


def ran(cli: Cli, file: str = "sum.yaml", *options: str) -> str:
    found: str = json.loads(cli("run", file, "--json", *options).out)["execution_id"]
    return found


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[], None]:
    """Goes on with another home."""
    return lambda: monkeypatch.setenv("NOETL_HOME", str(tmp_path / "elsewhere"))


@pytest.mark.parametrize("name", [None, "a.noetl.jsonl", "deep/er/a.jsonl.gz"])
def test_an_execution_is_looked_at_on_another_machine(
    cli: Cli, elsewhere: Callable[[], None], name: str | None
) -> None:
    run = ran(cli)
    exported = cli("execution", "export", run, *(("-o", name) if name else ()))
    file = name or f"{run}.noetl.jsonl"
    assert (exported.code, exported.out) == (0, f"{file}: 12 events, 0 results\n")
    shown = cli("execution", "show", run, "--json").out
    events = cli("execution", "events", run, "--json").out
    assert (Path(file).read_bytes()[:2] == b"\x1f\x8b") is file.endswith(".gz")
    elsewhere()
    assert cli("execution", "show", run).code == 2
    first = cli("execution", "import", file)
    assert (first.code, first.out) == (
        0,
        f"{run}: imported: tests/sum@1, completed, 12 events, 0 results\n",
    )
    assert cli("execution", "import", file).out.startswith(f"{run}: is here already: ")
    assert cli("execution", "show", run, "--json").out == shown
    assert cli("execution", "events", run, "--json").out == events
    assert "imported on " in cli("execution", "show", run).out
    assert f"{run} at version 5: running" in cli("execution", "replay", run, "--version", "5").out
    assert cli("execution", "events", run, "--follow").code == 0


def test_a_waiting_one_is_neither_resumed_nor_cancelled_nor_followed_for_ever(
    cli: Cli, elsewhere: Callable[[], None]
) -> None:
    run = ran(cli, "gated.yaml", "--no-wait")
    cli("execution", "export", run, "-o", "g.jsonl")
    elsewhere()
    assert "waiting" in cli("execution", "import", "g.jsonl").out
    for words in (("cancel", run), ("pause", run), ("resume", run), ("patch", run, "--set", "go=true")):
        refused = cli("execution", *words)
        assert refused.code == 1
        assert f"Execution {run} was imported on " in refused.err
    assert cli("execution", "events", run, "--follow").code == 0
    assert cli("execution", "logs", run, "--follow").code == 0
    assert json.loads(cli("execution", "list", "--json").out)[0]["imported_at"] is not None


def test_files_go_through_pipes(
    cli: Cli, elsewhere: Callable[[], None], program: Callable[..., subprocess.Popen[str]]
) -> None:
    run = ran(cli)
    exported = program("execution", "export", run, "-o", "-")
    text, said = exported.communicate()
    assert (exported.returncode, said) == (0, f"{run}: 12 events, 0 results\n")
    elsewhere()
    imported = program("execution", "import", "-", "--json", stdin=subprocess.PIPE)
    out, _ = imported.communicate(text)
    assert imported.returncode == 0
    assert json.loads(out) == {
        "execution_id": run,
        "path": "tests/sum",
        "version": 1,
        "status": "completed",
        "events": 12,
        "results": 0,
        "left_out": [],
        "is_new": True,
    }


def test_machines_read_what_was_exported_and_checked(cli: Cli, elsewhere: Callable[[], None]) -> None:
    run = ran(cli)
    said = json.loads(cli("execution", "export", run, "-o", "a.jsonl", "--json").out)
    assert said == {"execution_id": run, "file": "a.jsonl", "events": 12, "results": 0, "left_out": []}
    elsewhere()
    assert json.loads(cli("execution", "import", "a.jsonl", "--dry-run", "--json").out)["is_new"] is None
    assert cli("execution", "list", "--json").out.strip() == "[]"


def test_files_that_are_none_are_answered(cli: Cli) -> None:
    run = ran(cli)
    cli("execution", "export", run, "-o", "a.jsonl")
    lines = Path("a.jsonl").read_bytes().splitlines(keepends=True)
    packed = gzip.compress(b"".join(lines))
    bad = {
        "empty": (b"", "The file is empty"),
        "yaml": (Path("sum.yaml").read_bytes(), "This is no exported execution"),
        "bytes": (bytes(range(256)), "This is no exported execution"),
        "cut off": (b"".join(lines[:-1]), "it is cut off"),
        "cut in a line": (b"".join(lines)[:-9], "ends within that line"),
        "cut while packed": (packed[: len(packed) // 2], "is damaged, or cut off"),
        "damaged while packed": (packed[:40] + b"xx" + packed[42:], "is damaged, or cut off"),
        "tampered": (
            b"".join(lines).replace(b'"sum": 3', b'"sum": 4'),
            ") is not what was exported: its hash does not follow",
        ),
    }
    for name, (content, expected) in bad.items():
        Path("bad").write_bytes(content)
        refused = cli("execution", "import", "bad")
        assert refused.code == 2, name
        assert expected in refused.err, name
    assert "There is no file 'nothing'" in cli("execution", "import", "nothing").err
    assert cli("execution", "import", ".").code == 2


def test_without_the_execution_or_the_place_there_is_no_file(cli: Cli) -> None:
    assert cli("execution", "export", "42").code == 2
    assert not Path("42.noetl.jsonl").exists()
    run = ran(cli)
    refused = cli("execution", "export", run, "-o", "sum.yaml/a.jsonl")
    assert refused.code == 2
    assert "sum.yaml/a.jsonl cannot be written" in refused.err


CHILD = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: child, path: tests/child}
workflow: [{step: talk, tool: {kind: python, code: "print('from the child')"}}]
"""
CALLER = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: caller, path: tests/caller}
workflow:
  - step: start
    tool: [{kind: python, code: "print('from the caller')"}, {kind: playbook, path: tests/child}]
"""


def test_those_that_it_called_are_exported_by_themselves(cli: Cli, elsewhere: Callable[[], None]) -> None:
    Path("child.yaml").write_text(CHILD)
    Path("caller.yaml").write_text(CALLER)
    run = ran(cli, "caller.yaml")
    (child,) = json.loads(cli("execution", "list", "--parent", run, "--json").out)
    for one, file in ((run, "caller.gz"), (child["execution_id"], "child.gz")):
        assert cli("execution", "export", one, "-o", file).code == 0
    printed = cli("execution", "logs", run, "--children").out
    elsewhere()
    cli("execution", "import", "caller.gz")
    alone = cli("execution", "logs", run, "--children")
    missing = f"start > execution {child['execution_id']} is not here"
    assert (alone.code, alone.out.splitlines()) == (0, ["start | from the caller", missing])
    cli("execution", "import", "child.gz")
    assert cli("execution", "logs", run, "--children").out == printed
    assert child["execution_id"] in cli("execution", "show", run).out
