"""The documented line makes a shell complete `noetl`. What zsh and fish do with the answers was
tried by hand."""

from __future__ import annotations

import os
import pty
import re
import select
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import zygote
from tests.waiting import until

from .pages import ROOT

#: What is typed before the tab → what stands on the line behind it.
TYPED = {
    "noetl val": "noetl validate ",
    "noetl validate --fo": "noetl validate --format ",
    "noetl validate --format sa": "noetl validate --format sarif ",
    "noetl run pla": "noetl run playbook.yaml ",
    "noetl run --payload inp": "noetl run --payload inputs.json ",
    "noetl export --to ware": "noetl export --to warehouse/",
    "noetl tool show ht": "noetl tool show http ",
}
#: What a terminal is told besides text, and the beginning of a line.
_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]|\r|\x07")


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """A directory with the command, to stand on PATH: it is forked from what has imported it."""
    file = tmp_path / "bin" / "noetl"
    file.parent.mkdir()
    file.write_text(
        f"#!{sys.executable}\nimport sys\nsys.path.insert(0, {str(ROOT)!r})\n"
        "from tests import zygote\nsys.exit(zygote.run(['noetl', *sys.argv[1:]]).returncode)\n"
    )
    file.chmod(0o755)
    return file.parent


@pytest.fixture
def terminal(program: Path, tmp_path: Path) -> Iterator[int]:
    """That of a shell which has read the documented line, in a directory with some files."""
    here = tmp_path / "here"
    (here / "warehouse").mkdir(parents=True)
    for name in ("playbook.yaml", "inputs.json"):
        (here / name).touch()
    ours, its = pty.openpty()
    environment = {**os.environ, "PATH": f"{program}:{os.environ['PATH']}", "PS1": "", "TERM": "dumb"}
    shell = subprocess.Popen(
        ["bash", "--norc", "--noprofile", "-i"],
        cwd=here,
        env=environment,
        stdin=its,
        stdout=its,
        stderr=its,
        start_new_session=True,
    )
    os.close(its)
    try:
        os.write(
            ours, b'eval "$(_NOETL_COMPLETE=bash_source noetl)"; bind "set bell-style none"; echo re""ady\n'
        )
        read_until(ours, "ready\n")
        yield ours
    finally:
        shell.kill()
        shell.wait()
        os.close(ours)


def read_until(terminal: int, text: str) -> None:
    """Reads what the terminal shows until that ends with `text`."""
    shown = ""

    def ends() -> bool:
        nonlocal shown
        if select.select([terminal], [], [], 0)[0]:
            shown = _ESCAPES.sub("", shown + os.read(terminal, 65536).decode())
        return shown.endswith(text)

    until(ends, lambda: f"the terminal to show {text!r}: it shows {shown!r}")


@pytest.mark.full("a terminal; what the program answers to each shell is asked below")
def test_bash_completes_commands_options_values_and_names_of_files(terminal: int) -> None:
    for typed, wanted in TYPED.items():
        os.write(terminal, typed.encode() + b"\t")
        read_until(terminal, wanted)
        os.write(terminal, b'\x15echo don""e\n')
        read_until(terminal, "done\n")


def _complete(shell: str, words: str) -> str:
    """What the program answers to the shell that completes `words`. Fish sends the last word by
    itself."""
    typed = words.split(" ")
    position = typed[-1] if shell == "fish" else str(len(typed) - 1)
    asked = {"COMP_WORDS": words, "COMP_CWORD": position, "_NOETL_COMPLETE": f"{shell}_complete"}
    environment = {**os.environ, **asked}
    return zygote.run(["noetl"], env=environment, capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_documented_completion_is_there_for_each_shell(shell: str) -> None:
    assert f"_NOETL_COMPLETE={shell}_source noetl" in (ROOT / "docs/cli.md").read_text(encoding="utf-8")
    assert "validate" in _complete(shell, "noetl val")
    assert "sarif" in _complete(shell, "noetl validate --format sa")
    assert "NOETL460" in _complete(shell, "noetl validate --explain noetl46")
