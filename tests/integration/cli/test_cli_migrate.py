"""`noetl migrate`: prints, rewrites, checks; refuses what it cannot do."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Cli = Callable[..., Any]

OLD = """\
apiVersion: noetl.io/v2
kind: Playbook
workflow:
- step: start   # begins
  tool: {kind: noop}
  set_ctx: {a: 1}
"""
NEW = OLD.replace("set_ctx: {a: 1}", "set: {ctx.a: 1}")


@pytest.fixture(autouse=True)
def _files(cli: Cli) -> None:
    Path("old.yaml").write_text(OLD)
    Path("new.yaml").write_text(NEW)
    Path("bad.yaml").write_text(OLD.replace("noop", "nope"))


def test_it_prints_the_canonical_form(cli: Cli) -> None:
    ended = cli("migrate", "old.yaml")
    assert (ended.code, ended.out, ended.err) == (0, NEW, "")
    assert cli("migrate", "new.yaml").out == NEW
    assert Path("old.yaml").read_text() == OLD


@pytest.mark.parametrize(
    ("command", "answer"),
    [
        (("migrate",), NEW.replace("\n", "\r\n")),
        (("graph",), 'flowchart TD\n    s0(["start<br/>noop"])\n'),
        (("validate",), "-:6:3: warning[NOETL254]: "),
    ],
)
def test_a_dash_is_what_comes_on_standard_input(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...], answer: str
) -> None:
    given = OLD.replace("\n", "\r\n").encode()
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(given)))
    ended = cli(*command, "-")
    assert ended.code == 0
    assert ended.out.startswith(answer)


def test_write_rewrites_what_is_not_canonical(cli: Cli) -> None:
    Path("old.yaml").chmod(0o640)
    before = Path("new.yaml").stat().st_mtime_ns
    ended = cli("migrate", "--write", "old.yaml", "new.yaml")
    assert (ended.code, ended.out, ended.err) == (0, "", "old.yaml: changed in 1 place\n")
    assert Path("old.yaml").read_text() == NEW
    assert Path("old.yaml").stat().st_mode & 0o777 == 0o640
    assert Path("new.yaml").stat().st_mtime_ns == before


def test_check_says_what_would_change(cli: Cli) -> None:
    ended = cli("migrate", "--check", "old.yaml", "new.yaml")
    assert (ended.code, ended.out) == (1, "old.yaml: would change in 1 place\n")
    assert cli("migrate", "--check", "new.yaml").code == 0
    assert Path("old.yaml").read_text() == OLD


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (("nothing.yaml",), "There is no file 'nothing.yaml'"),
        (("old.yaml", "new.yaml"), "--write"),
        (("--write", "--check", "old.yaml"), "give one of them"),
        (("--write", "-"), "leave out --write"),
        (("bad.yaml",), "bad.yaml:5:16: error[NOETL302]"),
    ],
)
def test_what_cannot_be_done_is_refused(cli: Cli, args: tuple[str, ...], words: str) -> None:
    ended = cli("migrate", *args)
    assert (ended.code, ended.out) == (2, "")
    assert words in ended.err


def test_nothing_is_written_where_one_file_has_errors(cli: Cli) -> None:
    assert cli("migrate", "--write", "old.yaml", "bad.yaml").code == 2
    assert Path("old.yaml").read_text() == OLD
