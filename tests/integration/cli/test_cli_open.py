"""`noetl open` and `noetl run --open` lead to pages, in whatever browser there is."""

from __future__ import annotations

import json
import stat
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeAlias

import pytest
import requests
from werkzeug.serving import make_server

from noetl import bootstrap
from noetl.api.context import KEY
from noetl.config import Settings
from noetl.wsgi import create
from tests import zygote
from tests.ports import free_port
from tests.waiting import GUARD_S

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
        return zygote.run(["noetl", *words], cwd=tmp_path, capture_output=True, text=True)

    return run


@pytest.fixture
def site(noetl: Noetl) -> Iterator[str]:
    """A server of that home, in this process."""
    assert noetl("db", "upgrade").returncode == 0
    app = create(Settings.from_env())
    server = make_server("127.0.0.1", 0, app, threaded=True)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()
    bootstrap.close(app.extensions[KEY].rt)


def test_pages_are_shown(noetl: Noetl, site: str, seen: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NOETL_PORT", site.rpartition(":")[2])
    ran = noetl("run", "shown.yaml", "--json", "--open")
    name = json.loads(ran.stdout)["execution_id"]
    assert seen.read_text() == f"{site}/executions/{name}\n", ran.stderr
    assert f"{site}/executions/{name}\n" in ran.stderr
    assert "tests/shown" in requests.get(f"{site}/executions/{name}", timeout=GUARD_S).text
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
