"""User code in a sandbox, through `noetl run`: what it can reach, and what is said where there is
none."""

from __future__ import annotations

import json
import os
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from noetl.cli.main import main

Program = Callable[..., subprocess.Popen[str]]

needs_bubblewrap = pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed")

#: Everything that row 28 of the bad inputs is about; each attempt yields what it got, or the type
#: of the error.
ATTEMPTS = """\
import ctypes, glob, os, socket, subprocess

def tried(what):
    try:
        return what()
    except OSError as error:
        return type(error).__name__

def connected(kind, address):
    with socket.socket(kind, socket.SOCK_STREAM) as one:
        one.settimeout(2)
        one.connect(address)
        return "connected"

def environments():
    return "".join(open(name, errors="replace").read() for name in glob.glob("/proc/[0-9]*/environ"))

def mounted():
    libc = ctypes.CDLL(None, use_errno=True)
    # MS_REMOUNT | MS_BIND: the system writable again
    return libc.mount(b"none", b"/usr", None, 4096 | 32, None)

result = {
    "shadow": tried(lambda: open("/etc/shadow").read()),
    "environments": "canary" in tried(environments),
    "redis": tried(lambda: connected(socket.AF_INET, ("127.0.0.1", places["redis"]))),
    "postgres": tried(lambda: connected(socket.AF_INET, (places["host"], places["postgres"]))),
    "abstract": tried(lambda: connected(socket.AF_UNIX, chr(0) + "noetl-canary")),
    "outside": [tried(lambda: open(f"{folder}/written", "w"))
                for folder in ("/usr", "/etc", "/var/tmp", places["playbooks"], places["home"])],
    "remounted": mounted(),
    "secret": tried(lambda: open(places["home"] + "/secret.key").read()),
    "beside": tried(lambda: open(places["playbooks"] + "/data.txt").read()),
    "own": tried(lambda: open(os.environ["SCRATCH"] + "/mine.txt", "w").write("x")),
    "programs": subprocess.run(["sh", "-c", "echo ran"], capture_output=True, text=True).stdout,
}
"""

PLAYBOOK = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: peek, path: tests/peek}
workflow:
  - step: code
    tool:
      kind: python
      input: {places: "{{ workload.places }}"}
      script: attempts.py
    next: command
  - step: command
    tool:
      kind: shell
      command: cat /etc/shadow; touch written; tr '\\0' ' ' < /proc/1/environ
      spec: {errexit: false}
"""


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    """On the disk: a sandbox has a /dev and a /tmp of its own, and of files below /dev it cannot
    tell that they are hidden."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        yield Path(folder)


def ran(program: Program, file: Path, *more: str, **env: str) -> dict[str, Any]:
    process = program("run", str(file), "--json", *more, env={**os.environ, **env})
    out, err = process.communicate()
    assert out, err
    report: dict[str, Any] = json.loads(out)
    return report


@needs_bubblewrap
@pytest.mark.postgres
@pytest.mark.redis
def test_code_in_a_sandbox_reaches_no_secret_no_server_and_no_file_of_the_machine(
    program: Program, home: Path, redis_url: str, empty_postgres_url: str, tmp_path: Path
) -> None:
    # The home lies below the playbook's directory, which code may read: its secrets must not come
    # along.
    folder = tmp_path / "folder"
    home = folder / ".noetl"
    home.mkdir()
    (home / "secret.key").write_text("canary")
    (folder / "data.txt").write_text("shown")
    postgres = urlsplit(empty_postgres_url)
    (folder / "attempts.py").write_text(ATTEMPTS)
    (folder / "peek.yaml").write_text(PLAYBOOK)
    places = {
        "redis": urlsplit(redis_url).port,
        "postgres": postgres.port or 5432,
        "host": postgres.hostname,
        "playbooks": str(folder),
        "home": str(home),
    }
    env = {"NOETL_HOME": str(home), "NOETL_PYTHON_ISOLATION": "sandbox", "API_KEY": "canary"}
    report = ran(program, folder / "peek.yaml", "--payload", json.dumps({"places": places}), **env)
    assert report["status"] == "completed", report["error"]
    seen, said = (report["steps"][step]["result"] for step in ("code", "command"))
    assert seen == {
        "shadow": "FileNotFoundError",
        "environments": False,
        "redis": "ConnectionRefusedError",
        "postgres": "ConnectionRefusedError",
        "abstract": "ConnectionRefusedError",
        "outside": seen["outside"],
        "remounted": -1,
        "secret": "FileNotFoundError",
        "beside": "shown",
        "own": 1,
        "programs": "ran\n",
    }
    assert set(seen["outside"]) <= {"OSError", "FileNotFoundError", "PermissionError"}
    assert "root:" not in said["stdout"]
    assert "canary" not in said["stdout"]
    assert "No such file" in said["stderr"]
    assert "Read-only file system" in said["stderr"]
    assert not (folder / "written").exists()
    assert [one.name for one in (home / "scratch").iterdir()] == []


@needs_bubblewrap
def test_a_home_is_hidden_although_only_a_link_leads_into_the_playbooks_directory(
    program: Program, tmp_path: Path
) -> None:
    folder = tmp_path / "playbooks"
    (folder / "hidden").mkdir(parents=True)
    (folder / "hidden" / "secret.key").write_text("canary")
    (tmp_path / "link").symlink_to(folder / "hidden")
    (tmp_path / "shown").symlink_to(folder)
    file = tmp_path / "shown" / "playbook.yaml"
    file.write_text(
        "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: boxed, path: tests/boxed}\n"
        "executor: {spec: {isolation: sandbox}}\n"
        "workflow:\n  - step: start\n    tool: {kind: shell, command: ls -A hidden; cat "
        "hidden/secret.key || true}\n"
    )
    report = ran(program, file, NOETL_HOME=str(tmp_path / "link"))
    assert report["status"] == "completed", report["error"]
    assert "canary" not in report["result"]["stdout"]
    assert "No such file" in report["result"]["stderr"]


BROKEN_BWRAP = "#!/bin/sh\necho 'bwrap: No permissions to create new namespace' >&2\nexit 1\n"


@pytest.mark.parametrize(
    ("bwrap", "reason"),
    [
        (None, "bubblewrap (bwrap) is not on PATH; install it."),
        (BROKEN_BWRAP, "No permissions to create new namespace); it needs user namespaces."),
    ],
    ids=["missing", "forbidden"],
)
@pytest.mark.parametrize("kind", ["python", "shell"])
def test_without_a_sandbox_a_task_that_needs_one_fails_and_says_so_once(
    program: Program, tmp_path: Path, kind: str, bwrap: str | None, reason: str
) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    if bwrap is not None:
        (programs / "bwrap").write_text(bwrap)
        (programs / "bwrap").chmod(stat.S_IRWXU)
    task = {"python": "kind: python, code: result = 1", "shell": "kind: shell, command: echo 1"}[kind]
    file = tmp_path / "playbook.yaml"
    file.write_text(
        "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: boxed, path: tests/boxed}\n"
        f"workflow:\n  - step: start\n    spec: {{isolation: sandbox}}\n    tool: {{{task}}}\n"
    )
    report = ran(
        program, file, PATH=f"{programs}:/nowhere" if bwrap is None else f"{programs}:{os.environ['PATH']}"
    )
    assert report["status"] == "failed"
    error = report["error"]
    assert error["message"].startswith("User code is to run in a sandbox, and there is none: ")
    assert error["message"].endswith(reason)
    assert (error["kind"], error["type"], error["step"]) == ("internal", "NoSandbox", "start")
    assert not error.get("retryable")


def test_the_doctor_misses_a_sandbox_only_where_user_code_needs_one(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")

    def finding() -> dict[str, Any]:
        with pytest.raises(SystemExit):
            main(["doctor", "--json"])
        found = json.loads(capsys.readouterr().out)
        return next(one for one in found if one["name"] == "sandbox")

    assert finding() == {
        "name": "sandbox",
        "ok": True,
        "detail": "none (bubblewrap (bwrap) is not on PATH; install it)",
        "advice": "",
    }
    monkeypatch.setenv("NOETL_PYTHON_ISOLATION", "sandbox")
    assert finding()["ok"] is False
    assert "NOETL_PYTHON_ISOLATION=process" in finding()["advice"]


@needs_bubblewrap
def test_the_doctor_tries_the_sandbox(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["doctor"])
    assert "ok   sandbox: bubblewrap works" in capsys.readouterr().out
