"""The `noetl` command, in this process and as a program."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, TypeAlias

import pytest

from noetl.cli.main import main
from tests import zygote

ROOT = Path(__file__).parents[3]


@dataclass(frozen=True, slots=True)
class Ended:
    """How a command ended: its exit code, and what it wrote."""

    code: int
    out: str
    err: str


#: `cli("run", "x.yaml")` in this process.
Cli: TypeAlias = Callable[..., Ended]

PLAYBOOK = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: sum, path: tests/sum}
workload: {a: 1, b: {c: 2}}
workflow:
  - step: start
    tool: {kind: noop, input: {sum: "{{ a + b.c }}", a: "{{ a }}"}}
    set: {ctx.sum: "{{ result.sum }}"}
"""

GATED = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: gated, path: tests/gated}
workflow:
  - step: gate
    spec: {policy: {admit: {rules: [{when: "{{ ctx.go }}", then: {allow: true}}, {else: {then: {allow: false}}}]}}}
    tool: {kind: noop, input: {went: "{{ ctx.go }}"}}
"""

FAILING = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: failing, path: tests/failing}
workflow:
  - step: start
    tool:
      name: check
      kind: python
      code: |
        days = []

        raise ValueError(f"no day in {days}")
"""


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home and a working directory of this test's own."""
    for name in [name for name in os.environ if name.startswith("NOETL_") and "_TEST_" not in name]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("NOETL_HOME", str(tmp_path / "home"))
    folder = tmp_path / "folder"
    folder.mkdir()
    monkeypatch.chdir(folder)
    for name, text in (("sum", PLAYBOOK), ("gated", GATED), ("failing", FAILING)):
        (folder / f"{name}.yaml").write_text(text)
    return tmp_path / "home"


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str]) -> Cli:
    def run(*argv: str) -> Ended:
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main(argv)
        out, err = capsys.readouterr()
        assert "Traceback" not in err
        return Ended(int(ended.value.code or 0), out, err)

    return run


@pytest.fixture
def program() -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """`program("run", ...)` as a process of its own, its streams piped. Where the test fails, it is
    killed. It is forked from one that has imported NoETL already; with `true=True` Python starts
    it, as a user would."""
    started: list[subprocess.Popen[str]] = []

    def start(*argv: str, true: bool = False, **options: Any) -> subprocess.Popen[str]:
        streams = {
            "stdout": subprocess.PIPE,
            "stderr": subprocess.PIPE,
            "stdin": subprocess.DEVNULL,
        } | options
        process: subprocess.Popen[str]
        if true:
            process = subprocess.Popen([sys.executable, "-m", "noetl", *argv], text=True, **streams)
        else:
            process = zygote.Popen(["noetl", *argv], text=True, **streams)
        started.append(process)
        return process

    yield start
    for process in started:
        if process.poll() is None:
            process.kill()
            process.communicate()


def read_to(stream: IO[str] | None, words: str) -> str:
    """All lines up to the one that has these words, or to the end."""
    assert stream is not None, "it has no pipe"
    said = ""
    for line in stream:
        said += line
        if words in line:
            break
    return said
