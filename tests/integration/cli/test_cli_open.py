"""`noetl open` and `noetl run --open` lead to pages, in whatever browser there is."""

from __future__ import annotations

import json
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeAlias

import pytest
import requests

from tests.acceptance.stack import eventually, is_healthy
from tests.ports import free_port
from tests.services import started

Noetl: TypeAlias = Callable[..., "subprocess.CompletedProcess[str]"]

PLAYBOOK = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: shown, path: tests/shown}
workflow: [{step: start, tool: {kind: noop}}]
"""


@pytest.fixture
def seen(tmp_path: Path) -> Path:
    """Where the browser writes what it was to show."""
    return tmp_path / "seen"


@pytest.fixture
def noetl(tmp_path: Path, seen: Path, monkeypatch: pytest.MonkeyPatch) -> Noetl:
    """The command, for somebody with a browser."""
    browser = tmp_path / "browser"
    browser.write_text(f'#!/bin/sh\necho "$1" >> {seen}\n')
    browser.chmod(browser.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("NOETL_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("BROWSER", str(browser))
    monkeypatch.delenv("NOETL_PORT", raising=False)
    (tmp_path / "shown.yaml").write_text(PLAYBOOK)

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "noetl", *words]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)

    return run


@pytest.fixture
def site(noetl: Noetl, tmp_path: Path) -> Iterator[str]:
    """A server of that home."""
    assert noetl("db", "upgrade").returncode == 0
    port = free_port()
    command = [sys.executable, "-m", "noetl", "server", "--port", str(port)]
    url = f"http://127.0.0.1:{port}"
    with started(command, tmp_path / "server.log"):
        eventually(lambda: is_healthy(url), "the server to answer")
        yield url


def test_pages_are_shown(noetl: Noetl, site: str, seen: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NOETL_PORT", site.rpartition(":")[2])
    ran = noetl("run", "shown.yaml", "--json", "--open")
    name = json.loads(ran.stdout)["execution_id"]
    assert seen.read_text() == f"{site}/executions/{name}\n", ran.stderr
    assert f"{site}/executions/{name}\n" in ran.stderr
    assert "tests/shown" in requests.get(f"{site}/executions/{name}", timeout=10).text
    for words, path in (([], "/"), ([name], f"/executions/{name}"), (["a/b c"], "/executions/a%2Fb%20c")):
        found = noetl("open", *words)
        assert (found.returncode, found.stdout) == (0, ""), found.stderr
        assert seen.read_text().splitlines()[-1] == f"{site}{path}"


def test_where_no_server_answers_nothing_is_begun(noetl: Noetl, seen: Path) -> None:
    assert noetl("db", "upgrade").returncode == 0
    here = noetl("run", "shown.yaml", "--json", "--open", "--server", f"http://127.0.0.1:{free_port()}")
    assert (here.returncode, here.stdout) == (1, "")
    assert json.loads(noetl("execution", "list", "--json").stdout) == []
    assert not seen.exists()


def test_where_nobody_answers_it_is_said_what_to_start(noetl: Noetl, seen: Path) -> None:
    found = noetl("open", "7", "--server", f"http://127.0.0.1:{free_port()}")
    assert (found.returncode, found.stdout) == (1, "")
    assert "`noetl up` starts one that has pages." in found.stderr
    assert "Traceback" not in found.stderr
    assert not seen.exists()
